"""A reward for short answers."""

from __future__ import annotations

from collections.abc import Sequence

from palaver.scoring import Score, ScoringRequest


class Brevity:
    """1 if all answers of a joint action together have at most `limit` words, else 0."""

    name = "brevity"
    component = "brevity"
    most = 1.0

    def __init__(self, limit: str = "4") -> None:
        self.limit = int(limit)

    def score(self, cases: Sequence[ScoringRequest]) -> list[Score]:
        return [Score(float(words(case) <= self.limit)) for case in cases]


def words(case: ScoringRequest) -> int:
    """Number of words of a joint action."""
    return sum(len(text.split()) for text in case.completions.values())


def silence(case: ScoringRequest) -> float:
    """Less the number of words: a reward as a function."""
    return -float(words(case))
