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
        placement: of the score in an environment's reward.
        failure_limit: share of unscored cases above which a run stops.
    """

    component = "judge"
    most = 1.0

    def __init__(
        self,
        members: Sequence[Judge],
        holdout: Judge | None = None,
        name: str = "judge:ensemble",
        placement: RewardPlacement | None = None,
        failure_limit: float = 0.2,
    ) -> None:
        self.members, self.holdout, self.name = tuple(members), holdout, name
        self.placement, self.failure_limit = placement or RewardPlacement(), failure_limit

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
        scores = [judge.score(cases) for judge in self._all()]
        return [self._verdict(case_scores) for case_scores in zip(*scores, strict=True)]

    def compare(self, pairs: Sequence[AnswerPair]) -> list[Preference]:
        """See `Comparer.compare`: the mean of the members' preferences.

        The hold-out judge is not queried.

        Raises:
            PolicyError, ScoringError: as `Judge.compare`.
        """
        preferences = [judge.compare(pairs) for judge in self.members]
        return [_preference(pair_preferences) for pair_preferences in zip(*preferences, strict=True)]

    def metrics(self) -> dict[str, float]:
        """The means of what the judges tell of themselves."""
        judge_metrics = [judge.metrics() for judge in self._all()]
        names = dict.fromkeys(name for metrics in judge_metrics for name in metrics)
        return {name: sum(metrics.get(name, 0.0) for metrics in judge_metrics) / len(judge_metrics) for name in names}

    def _all(self) -> list[Judge]:
        return [*self.members, *([self.holdout] if self.holdout else [])]

    def _verdict(self, given: Sequence[Score]) -> Score:
        votes = given[: len(self.members)]
        cost = sum((verdict.cost for verdict in given), Cost())
        scores = [verdict.score for verdict in votes if verdict.score is not None]
        if len(scores) < len(votes):
            return Score(None, cost=cost, failure=next(verdict.failure for verdict in votes if verdict.score is None))
        mean = sum(scores) / len(scores)
        metrics = {"spread": max(scores) - min(scores)}
        if self.holdout and given[-1].score is not None:
            metrics |= {"holdout": given[-1].score, "holdout_gap": mean - given[-1].score}
        names = [name for name in votes[0].criteria if all(name in verdict.criteria for verdict in votes)]
        criteria = {name: sum(verdict.criteria[name] for verdict in votes) / len(votes) for name in names}
        return Score(mean, criteria, votes[0].reason, cost, metrics=metrics)


def _preference(given: Sequence[Preference]) -> Preference:
    cost = sum((preference.cost for preference in given), Cost())
    failed = next((preference.failure for preference in given if preference.first is None), "")
    if failed:
        return Preference(None, cost=cost, failure=failed)

    def mean(values: Sequence[float | None]) -> float:
        return sum(value for value in values if value is not None) / len(given)

    orders = (
        mean([preference.orders[0] for preference in given]),
        mean([preference.orders[1] for preference in given]),
    )
    return Preference(mean([preference.first for preference in given]), orders, given[0].reason, cost)
