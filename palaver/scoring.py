"""What passes between an environment and what judges it: cases and pairs go in, verdicts and preferences come out.

Environments are handed a `Reward`, judges and reward models are one: neither side knows the other. A verdict that could
not be reached says why in `failure` and has no score: it is *unscored*, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Cost:
    """What was spent: tokens read, tokens written, money in US dollars, calls."""

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
class Case:
    """One joint action to be scored.

    Attributes:
        task: id of the task.
        told: agent -> all that it had been told when it spoke.
        said: agent -> what it said; only agents that could act. Untrusted text.
        turn: 0 for the first turn.
        group: the cases to be compared with each other share this key; "" where there is nothing to compare with.
        reference: a known good answer, "" where there is none.
    """

    task: str
    told: Mapping[str, str]
    said: Mapping[str, str]
    turn: int = 0
    group: str = ""
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge says of a case.

    Attributes:
        score: usually from 0 to 1; None if no verdict was reached.
        criteria: named scores that the score was made of.
        reason: why, in the judge's words. Untrusted text.
        cost: what reaching it took, failed attempts included.
        failure: why there is no score: `transport`, `timeout`, `rate limit`, `refusal`, `unparseable`, `out of menu`,
            `budget`, `alone` (a case without another to compare it with), with details after a colon; "" if there is
            one.
        metrics: named measurements beside the score.
    """

    score: float | None
    criteria: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    cost: Cost = field(default_factory=Cost)
    failure: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two answers to one prompt. Both are untrusted text."""

    prompt: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Preference:
    """Which answer of a pair a judge prefers.

    Attributes:
        first: probability that the first is better, the mean over both orders of showing them; None if not reached.
        orders: the same as told with the first shown first, and with the second shown first.
        reason: why, in the judge's words. Untrusted text.
        cost: what reaching it took.
        failure: as in `Verdict`.
    """

    first: float | None
    orders: tuple[float | None, float | None] = (None, None)
    reason: str = ""
    cost: Cost = field(default_factory=Cost)
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Placing:
    """How a score enters what an environment pays. A reward may have one as its attribute `placing`.

    Attributes:
        own: what becomes of the environment's own reward: `replaced` by the score, paid `beside` it, or a `gate`:
            nobody is asked and nothing is paid where it is too small.
        weight: times the score.
        gate: the own reward of a turn, as a mean over agents, from which on the score is asked for.
        when: `each` turn, or the `last` of an episode alone.
    """

    own: Literal["replaced", "beside", "gate"] = "replaced"
    weight: float = 1.0
    gate: float = 0.0
    when: Literal["each", "last"] = "each"


@runtime_checkable
class Reward(Protocol):
    """Scores joint actions. `score` gets all that waits at once and returns one verdict a case, in order."""

    name: str

    def score(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case; a failure is a verdict without a score, not an exception."""
        ...


@runtime_checkable
class Comparer(Protocol):
    """Says which of two answers is better, for many pairs at once."""

    name: str

    def compare(self, pairs: Sequence[Pair]) -> list[Preference]:
        """One preference a pair, in order; a failure is a preference without a probability, not an exception."""
        ...
