"""What fills a seat: anything that reads conversations and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from palaver.core import Request, Utterance


@runtime_checkable
class Policy(Protocol):
    """Answers conversations.

    `act` gets every conversation that waits for this policy, whichever episode or agent it comes from, and returns one
    list per request with one utterance per seed, in order. The seed alone fixes the draw: the same conversation,
    sampling and seed give the same text whatever else is asked in the same call (of a language model in fp32: with
    fewer digits a sum depends on the batch it is computed in).
    """

    name: str

    def act(self, requests: Sequence[Request]) -> list[list[Utterance]]:
        """One list per request, one utterance per seed."""
        ...
