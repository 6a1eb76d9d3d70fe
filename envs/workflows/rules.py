"""Record of texts, selection of those shown to an agent, and the team's answer. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from palaver.envs.workflows.graph import Kind, Shows
from palaver.envs.workflows.votes import majority

ANSWERS = ("answer", "choice")
_VERDICT = re.compile(r"\b(approve|reject)d?\b", re.IGNORECASE)
_MARKED = re.compile(r"####[ \t]*(\d{1,9})\b")
_WHOLE = re.compile(r"(?<![\w.,/])\d{1,9}(?![\w/]|[.,]\d)")


@dataclass(frozen=True, slots=True)
class WorkflowText:
    """One text of an episode.

    Attributes:
        turn: its index.
        agent: its author.
        kind: of the stage.
        text: its words.
        key: its answer; of a choice the answer chosen, of a verdict `approve` or `reject`; "" for nothing.
        score: its score for rewards, None for talk.
        truth: its score by the right answer, where `score` goes by the majority.
    """

    turn: int
    agent: str
    kind: Kind
    text: str
    key: str = ""
    score: float | None = None
    truth: float | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> WorkflowText:
        return self


Record = Sequence[WorkflowText]


def latest(record: Record) -> dict[str, WorkflowText]:
    """Seat -> its newest answer or choice, in the order of first answers."""
    return {said.agent: said for said in record if said.kind in ANSWERS}


def standing(record: Record, final: str) -> tuple[WorkflowText, ...]:
    """The texts that are the team's current answer; its score is their mean. Nothing if there is no answer.

    By vote it is the first text that gives the majority's answer; see `votes.majority` for ties.
    """
    newest = latest(record)
    if final == "vote":
        elected = majority([said.key for said in newest.values()]).key
        return tuple(said for said in newest.values() if elected and said.key == elected)[:1]
    if final == "last":
        when = max((said.turn for said in newest.values()), default=-1)
        return tuple(said for said in newest.values() if said.turn == when)
    return (newest[final],) if final in newest else ()


def heard(record: Record, seat: str, shows: Shows, answers_only: bool) -> list[WorkflowText]:
    """Texts of the record shown to an agent, in order, before any shuffling and cutting."""
    wanted = [
        said
        for said in record
        if (said.agent != seat if shows.whose == "others" else shows.whose == "all" or said.agent in shows.whose)
        and (said.kind == "answer" or not answers_only)
    ]
    if shows.what == "last":
        return list({said.agent: said for said in wanted}.values())
    since = max((said.turn for said in record if said.agent == seat), default=-1)
    return [said for said in wanted if said.turn >= since and not (said.turn == since and said.agent == seat)]


def verdict(text: str) -> str:
    """Parse `approve` or `reject`, the later of the two words; "" if there is neither.

    >>> verdict("I would REJECT it, no: approved."), verdict("fine")
    ('approve', '')
    """
    found = _VERDICT.findall(text)
    return found[-1].lower() if found else ""


def picked(text: str, among: int) -> int | None:
    """The place, from 0, of the answer that a judge names: the whole number after the last `####`, else the last one.

    >>> picked("Answer 2 is right, not 3. #### 2", 3), picked("number 4", 3), picked("the first", 3)
    (1, None, None)
    """
    found = _MARKED.findall(text) or _WHOLE.findall(text)
    number = int(found[-1]) if found else 0
    return number - 1 if 1 <= number <= among else None
