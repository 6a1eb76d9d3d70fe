"""Record of texts, selection of those shown to an agent, and the team's answer. Pure.

A key is what a text answers, equal for equal answers; "" is no answer and has no vote.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from palaver.envs.base.tasks import Shared
from palaver.envs.workflows.graph import Kind, Shows

ANSWERS = ("answer", "choice")
_VERDICT = re.compile(r"\b(approve|reject)d?\b", re.IGNORECASE)
_MARKED = re.compile(r"####[ \t]*(\d{1,9})\b")
_WHOLE = re.compile(r"(?<![\w.,/])\d{1,9}(?![\w/]|[.,]\d)")


@dataclass(frozen=True, slots=True)
class WorkflowText(Shared):
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


Record = Sequence[WorkflowText]


def latest(record: Record) -> dict[str, WorkflowText]:
    """Agent -> its newest answer or choice, in the order of first answers."""
    return {item.agent: item for item in record if item.kind in ANSWERS}


def standing(record: Record, final: str) -> tuple[WorkflowText, ...]:
    """Texts that are the team's current answer.

    Its score is their mean; none if there is no answer. By vote it is the first text that gives the majority's answer;
    see `votes.majority` for ties.
    """
    newest = latest(record)
    if final == "vote":
        elected = majority([item.key for item in newest.values()]).key
        return tuple(item for item in newest.values() if elected and item.key == elected)[:1]
    if final == "last":
        when = max((item.turn for item in newest.values()), default=-1)
        return tuple(item for item in newest.values() if item.turn == when)
    return (newest[final],) if final in newest else ()


def visible_texts(record: Record, agent: str, shows: Shows, answers_only: bool) -> list[WorkflowText]:
    """Texts of the record shown to an agent, in order, before any shuffling and cutting."""
    wanted = [
        item
        for item in record
        if (item.agent != agent if shows.whose == "others" else shows.whose == "all" or item.agent in shows.whose)
        and (item.kind == "answer" or not answers_only)
    ]
    if shows.what == "last":
        return list({item.agent: item for item in wanted}.values())
    since = max((item.turn for item in record if item.agent == agent), default=-1)
    return [item for item in wanted if item.turn >= since and not (item.turn == since and item.agent == agent)]


def verdict(text: str) -> str:
    """Parse `approve` or `reject`, the later of the two words; "" if there is neither.

    >>> verdict("I would REJECT it, no: approved."), verdict("fine")
    ('approve', '')
    """
    verdicts = _VERDICT.findall(text)
    return verdicts[-1].lower() if verdicts else ""


def picked(text: str, among: int) -> int | None:
    """Index, from 0, of the answer that a judge names.

    The whole number after the last `####`, else the last one.

    >>> picked("Answer 2 is right, not 3. #### 2", 3), picked("number 4", 3), picked("the first", 3)
    (1, None, None)
    """
    choices = _MARKED.findall(text) or _WHOLE.findall(text)
    choice = int(choices[-1]) if choices else 0
    return choice - 1 if 1 <= choice <= among else None


@dataclass(frozen=True, slots=True)
class Majority:
    """Result of a vote.

    Attributes:
        key: the answer with most votes; of several the one given first; "" if there is no answer.
        share: its votes over all who could vote, those without an answer included.
        tied: True if another answer has as many votes.
    """

    key: str
    share: float
    tied: bool


def majority(keys: Sequence[str]) -> Majority:
    """Majority vote of some agents, in their order.

    Wang et al., "Self-consistency", arXiv:2203.11171, take the most frequent answer; ties go to the answer given first.

    >>> majority(["7", "8", "", "8"])
    Majority(key='8', share=0.5, tied=False)
    >>> majority(["7", "8"])
    Majority(key='7', share=0.5, tied=True)
    """
    votes = Counter(key for key in keys if key)
    if not votes:
        return Majority("", 0.0, False)
    max_votes = max(votes.values())
    leaders = [key for key in votes if votes[key] == max_votes]  # a Counter keeps the order of first votes
    return Majority(leaders[0], max_votes / len(keys), len(leaders) > 1)


def agreed(keys: Sequence[str], share: float) -> bool:
    """Return whether at least `share` of all give one answer.

    >>> agreed(["7", "7", "8"], 0.6), agreed(["", ""], 1.0)
    (True, False)
    """
    winner = majority(keys)
    return bool(winner.key) and winner.share >= share - 1e-9


def pseudo_labels(keys: Sequence[str]) -> list[float]:
    """1 for every agent that gives the majority's answer, else 0.

    The most frequent answer is taken for right. TTRL, Zuo et al., arXiv:2504.16084. Without any answer all are 0.

    >>> pseudo_labels(["7", "8", "7", ""])
    [1.0, 0.0, 1.0, 0.0]
    """
    label = majority(keys).key
    return [float(bool(label) and key == label) for key in keys]
