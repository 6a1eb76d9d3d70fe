"""Interface of environments and judges: cases and pairs in, verdicts and preferences out.

Environments take a `Reward`, judges and reward models implement it: neither side knows the other. A failed verdict has
a reason in `failure` and no score: it is *unscored*, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of scoring: prompt tokens, completion tokens, US dollars, calls."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    dollars: float = 0.0
    calls: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.dollars + other.dollars,
            self.calls + other.calls,
        )


@dataclass(frozen=True, slots=True)
class ScoringRequest:
    """One joint action to be scored.

    Attributes:
        task: id of the task.
        observations: agent -> all its observations when it acted.
        completions: agent -> its completion; only agents that could act. Untrusted text.
        turn: 0 for the first turn.
        group: key shared by the cases that are compared with each other; "" if there is nothing to compare with.
        reference: a known good answer, "" if there is none.
    """

    task: str
    observations: Mapping[str, str]
    completions: Mapping[str, str]
    turn: int = 0
    group: str = ""
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """Score of a case by a judge.

    Attributes:
        score: usually from 0 to 1; None if scoring failed.
        criteria: named scores that make up the score.
        reason: the judge's explanation. Untrusted text.
        cost: cost of the verdict, failed attempts included.
        failure: why there is no score: `transport`, `timeout`, `rate limit`, `refusal`, `unparseable`, `out of menu`,
            `budget`, `alone` (a case without another to compare it with), with details after a colon; "" if there is
            one.
        metrics: named metrics in addition to the score.
    """

    score: float | None
    criteria: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    cost: Cost = field(default_factory=Cost)
    failure: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """Two answers to one prompt. Both are untrusted text."""

    prompt: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Preference:
    """Preference of a judge between the answers of a pair.

    Attributes:
        first: probability that the first is better, mean over both orders of presentation; None if scoring failed.
        orders: the same with the first presented first, and with the second presented first.
        reason: the judge's explanation. Untrusted text.
        cost: cost of the preference.
        failure: as in `Score`.
    """

    first: float | None
    orders: tuple[float | None, float | None] = (None, None)
    reason: str = ""
    cost: Cost = field(default_factory=Cost)
    failure: str = ""


@dataclass(frozen=True, slots=True)
class RewardPlacement:
    """Combination of a score with the environment's reward; may be an attribute of a reward.

    Attributes:
        own: role of the environment's own reward: `replaced` by the score, added to it (`added`), or a `gate`: below
            the threshold no score is computed and the reward is 0.
        weight: factor of the score.
        gate: threshold of the own reward of a turn (mean over agents) at which the score is computed.
        when: `each` turn, or only the `last` of an episode.
    """

    own: Literal["replaced", "added", "gate"] = "replaced"
    weight: float = 1.0
    gate: float = 0.0
    when: Literal["each", "last"] = "each"


@runtime_checkable
class Reward(Protocol):
    """Reward function of joint actions; `score` is called with a whole batch of cases."""

    name: str

    def score(self, cases: Sequence[ScoringRequest]) -> list[Score]:
        """Return one verdict per case, in order; a failure is a verdict without a score, not raised."""
        ...


@runtime_checkable
class Comparer(Protocol):
    """Pairwise comparison of answers, for a whole batch of pairs."""

    name: str

    def compare(self, pairs: Sequence[AnswerPair]) -> list[Preference]:
        """Return one preference per pair, in order; a failure has no probability and is not raised."""
        ...
