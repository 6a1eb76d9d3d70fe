"""Ensemble of judges, with an optional hold-out judge that detects reward hacking."""

from __future__ import annotations

from collections.abc import Sequence

from palaver.agents.judges.judge import Judge
from palaver.scoring import AnswerPair, Cost, Preference, RewardPlacement, Score, ScoringRequest


class Ensemble:
    """The mean of its members' scores.

    A case that a member could not score is scored by none. The metrics of a verdict hold `spread`, the largest
    difference between members, and where there is a judge held out its score `holdout` and `holdout_gap`, the mean less
    that score.

    Args:
        members: whose mean counts.
        holdout: is queried, and does not count; its failure loses nothing.
        name: of the reward.
        placing: of the score in an environment's reward.
        failure_limit: share of unscored cases above which a run stops.
    """

    component = "judge"
    most = 1.0

    def __init__(
        self,
        members: Sequence[Judge],
        holdout: Judge | None = None,
        name: str = "judge:ensemble",
        placing: RewardPlacement | None = None,
        failure_limit: float = 0.2,
    ) -> None:
        self.members, self.holdout, self.name = tuple(members), holdout, name
        self.placing, self.failure_limit = placing or RewardPlacement(), failure_limit

    def ready(self) -> None:
        """Load every model.

        Raises:
            PolicyError: one does not exist or cannot be loaded.
        """
        for judge in self._all():
            judge.ready()

    def score(self, cases: Sequence[ScoringRequest]) -> list[Score]:
        """See `Reward.score`.

        Raises:
            PolicyError, ConfigError, ScoringError: as `Judge.score`.
        """
        found = [judge.score(cases) for judge in self._all()]
        return [self._verdict(each) for each in zip(*found, strict=True)]

    def compare(self, pairs: Sequence[AnswerPair]) -> list[Preference]:
        """See `Comparer.compare`: the mean of the members' preferences; the hold-out judge is not queried.

        Raises:
            PolicyError, ScoringError: as `Judge.compare`.
        """
        found = [judge.compare(pairs) for judge in self.members]
        return [_preference(each) for each in zip(*found, strict=True)]

    def metrics(self) -> dict[str, float]:
        """The means of what the judges tell of themselves."""
        told = [judge.metrics() for judge in self._all()]
        names = dict.fromkeys(name for each in told for name in each)
        return {name: sum(each.get(name, 0.0) for each in told) / len(told) for name in names}

    def _all(self) -> list[Judge]:
        return [*self.members, *([self.holdout] if self.holdout else [])]

    def _verdict(self, given: Sequence[Score]) -> Score:
        own = given[: len(self.members)]
        cost = sum((verdict.cost for verdict in given), Cost())
        scores = [verdict.score for verdict in own if verdict.score is not None]
        if len(scores) < len(own):
            return Score(None, cost=cost, failure=next(verdict.failure for verdict in own if verdict.score is None))
        mean = sum(scores) / len(scores)
        metrics = {"spread": max(scores) - min(scores)}
        if self.holdout and given[-1].score is not None:
            metrics |= {"holdout": given[-1].score, "holdout_gap": mean - given[-1].score}
        names = [name for name in own[0].criteria if all(name in verdict.criteria for verdict in own)]
        criteria = {name: sum(verdict.criteria[name] for verdict in own) / len(own) for name in names}
        return Score(mean, criteria, own[0].reason, cost, metrics=metrics)


def _preference(given: Sequence[Preference]) -> Preference:
    cost = sum((each.cost for each in given), Cost())
    failed = next((each.failure for each in given if each.first is None), "")
    if failed:
        return Preference(None, cost=cost, failure=failed)

    def mean(values: Sequence[float | None]) -> float:
        return sum(value for value in values if value is not None) / len(given)

    orders = (mean([each.orders[0] for each in given]), mean([each.orders[1] for each in given]))
    return Preference(mean([each.first for each in given]), orders, given[0].reason, cost)
