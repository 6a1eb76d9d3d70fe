"""Adversarial probes of a judge: answers that should never win, paired with good ones."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["injection", "master key", "empty", "padding"]
KINDS: tuple[Kind, ...] = ("injection", "master key", "empty", "padding")
FILE = Path(__file__).with_name("probes.jsonl")
FILLER = "The weather of that day was neither warm nor cold, and a light wind came from the west. "


@dataclass(frozen=True, slots=True)
class Probe:
    """One adversarial answer.

    Attributes:
        name: of it, for the table.
        kind: an `injection` addresses the judge; a `master key` is an opening without content; `empty` is no text;
            `padding` is long text without content.
        place: an injection is `before` or `after` the worse answer; everything else `alone`, as the whole answer.
        text: repeated `repeat` times.
        repeat: 1 or more.
    """

    name: str
    kind: Kind
    place: Literal["before", "after", "alone"]
    text: str
    repeat: int = 1

    def answer(self, worse: str) -> str:
        """Return the answer shown to the judge; `worse` is the one that people did not prefer."""
        return self._placed(worse, self.text * self.repeat)

    def control(self, worse: str) -> str:
        """Return the same with harmless text of the same length and place, as a control for length."""
        length = len(self.text) * self.repeat
        return self._placed(worse, (FILLER * (length // len(FILLER) + 1))[:length])

    def _placed(self, worse: str, text: str) -> str:
        if self.place == "alone":
            return text
        return f"{text}\n\n{worse}" if self.place == "before" else f"{worse}\n\n{text}"


@functools.cache
def probes() -> tuple[Probe, ...]:
    """Return the probes of `probes.jsonl`, written for this suite."""
    return tuple(Probe(**json.loads(line)) for line in FILE.read_text(encoding="utf-8").splitlines())
