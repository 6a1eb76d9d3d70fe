"""Preferences as data: one record, their files, and a split by task. Free of torch."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaver.agents.reward_models.reading import conversation
from palaver.core import TaskError, stable_seed
from palaver.envs.base.tasks import is_sample, load_tasks
from palaver.scoring import ScoringRequest
from palaver.utils.run_folder import replace_text

ALONE = "agent"  # the one agent of pairs that name none


@dataclass(frozen=True, slots=True)
class PreferenceRecord:
    """The better and the worse of two joint actions on one task.

    Attributes:
        task: id of the task; pairs of one task are never on both sides of a split.
        observations: agent -> all its observations when it acted, equal for both.
        chosen: agent -> its completion in the better one. Untrusted text, as all below.
        rejected: agent -> its completion in the worse one.
        margin: difference in value, in the source's units; None if the source gives none.
        source: `file`, `env:ID`, or the name of the judge.
    """

    task: str
    observations: Mapping[str, str]
    chosen: Mapping[str, str]
    rejected: Mapping[str, str]
    margin: float | None = None
    source: str = "file"

    def cases(self) -> tuple[ScoringRequest, ScoringRequest]:
        """The better and the worse joint action as cases of a reward model."""
        return ScoringRequest(self.task, self.observations, self.chosen), ScoringRequest(
            self.task, self.observations, self.rejected
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a JSON line: the joint texts, for any trainer, and each agent's own."""
        (prompt, chosen), (_, rejected) = (conversation(case) for case in self.cases())
        agents = {
            agent: {"prompt": self.observations[agent], "chosen": self.chosen[agent], "rejected": self.rejected[agent]}
            for agent in self.observations
        }
        return {
            "task": self.task,
            "source": self.source,
            "margin": self.margin,
            "prompt": prompt.content,
            "chosen": chosen.content,
            "rejected": rejected.content,
            "agents": agents,
        }


def by_task(
    pairs: Sequence[PreferenceRecord], share: float, seed: int
) -> tuple[list[PreferenceRecord], list[PreferenceRecord]]:
    """Split pairs by task into training and held-out pairs, with one task or more on each side.

    Raises:
        TaskError: all pairs are of one task.
    """
    tasks = sorted({pair.task for pair in pairs})
    if len(tasks) < 2:
        raise TaskError(
            f"pairs of {len(tasks)} task(s) cannot be split into training and test; give pairs of two or more"
        )
    random.Random(stable_seed(seed, "held out")).shuffle(tasks)
    aside = set(tasks[: min(len(tasks) - 1, max(1, round(share * len(tasks))))])
    return [pair for pair in pairs if pair.task not in aside], [pair for pair in pairs if pair.task in aside]


def write(path: Path, pairs: Sequence[PreferenceRecord]) -> None:
    """Write one JSON object a line, atomically."""
    replace_text(path, "".join(json.dumps(pair.to_dict(), ensure_ascii=False) + "\n" for pair in pairs))


def read(source: str) -> list[PreferenceRecord]:
    """Read preferences from a `.jsonl`, `.json`, `.csv` or `.parquet` file, or `hf:NAME:SPLIT`.

    A slice may follow. A row has `agents` (agent -> `prompt`, `chosen`, `rejected`), as `write` makes them, or else
    `chosen` and `rejected` as texts or as lists of messages, with or without a `prompt`. `task`, `margin` and `source`
    are optional; without a task, pairs with one prompt are of one task. Rows with two equal answers are left out.

    Raises:
        TaskError: the file cannot be read, or a row is no pair; the message names the row.
    """
    if is_sample(source):
        raise TaskError("there are no sample pairs; name a file with `chosen` and `rejected`, or sample a team's")
    rows = load_tasks(source, sample=Path(), fields={}, id_field="")
    pairs = [_pair(f"{source}, {row.id}", row.data) for row in rows]
    distinct = [pair for pair in pairs if pair.chosen != pair.rejected]
    if not distinct:
        raise TaskError(f"{source!r} holds no pair of answers that differ")
    return distinct


def _pair(location: str, row: Mapping[str, Any]) -> PreferenceRecord:
    margin = row.get("margin")
    if margin is not None and not (isinstance(margin, int | float) and math.isfinite(margin)):
        raise TaskError(f"{location}: the margin is {margin!r}; give a finite number, or leave it out")
    prompts, chosen, rejected = _joint(location, row) if row.get("agents") else _plain(location, row)
    task = row.get("task")
    name = str(task) if task not in (None, "") else f"prompt-{stable_seed(*prompts.values()):x}"
    margin_value = None if margin is None else float(margin)
    return PreferenceRecord(name, prompts, chosen, rejected, margin_value, str(row.get("source") or "file"))


def _joint(location: str, row: Mapping[str, Any]) -> list[dict[str, str]]:
    """Prompts, chosen and rejected answers, by agent."""
    agents = row["agents"]
    parts = ("prompt", "chosen", "rejected")
    if not isinstance(agents, Mapping) or not all(
        isinstance(texts, Mapping) and all(isinstance(texts.get(key), str) for key in parts)
        for texts in agents.values()
    ):
        raise TaskError(f"{location}: `agents` must map each agent to the texts prompt, chosen and rejected")
    return [{str(agent): texts[key] for agent, texts in agents.items()} for key in parts]


def _plain(location: str, row: Mapping[str, Any]) -> list[dict[str, str]]:
    (opening, chosen), (other, rejected) = (_ended(location, name, row.get(name)) for name in ("chosen", "rejected"))
    given = row.get("prompt")
    if given is None and opening != other:
        raise TaskError(f"{location}: chosen and rejected must begin with the same messages")
    prompt = opening if given is None else _text_of(location, "prompt", given)
    return [{ALONE: text} for text in (prompt, chosen, rejected)]


def _ended(location: str, name: str, value: Any) -> tuple[str, str]:
    """Return the text before the last message, and the last message.

    A text is its own last message.
    """
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value):
        return _text_of(location, name, list(value)[:-1]), _text_of(location, name, list(value)[-1:])
    return "", _text_of(location, name, value)


def _text_of(location: str, name: str, value: Any) -> str:
    """Return a text, or the joined contents of messages."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence) and all(isinstance(m, Mapping) and isinstance(m.get("content"), str) for m in value):
        return "\n\n".join(message["content"] for message in value)
    raise TaskError(f"{location}: {name} is {type(value).__name__}; give a text, or messages with `role` and `content`")
