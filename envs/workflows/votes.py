"""Majorities. Pure.

A key is what a text answers, equal for equal answers; "" is no answer and has no vote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


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
