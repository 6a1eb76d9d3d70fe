"""The watch over scores: when a run stops, and when it warns; numbers worked out by hand."""

from __future__ import annotations

import warnings

import pytest

from palaver.core import PalaverWarning, ScoringError
from palaver.envs.base.reward_monitor import RewardMonitor, correlation, parted
from palaver.scoring import Cost, Score, ScoringRequest


class Told:
    """Gives the verdicts it was given."""

    name = "told"

    def __init__(self, **about):
        self.next = []
        self.__dict__.update(about)

    def score(self, cases):
        return self.next


def watch(reward, verdicts, lengths=()):
    """Score so many cases at once; their texts have these lengths."""
    reward.next = list(verdicts)
    sizes = list(lengths) or [1] * len(reward.next)
    return [ScoringRequest("t", {}, {"a": "x" * size}) for size in sizes]


def failing(n):
    return [Score(None, failure="timeout: late", cost=Cost(calls=1))] * n


def fine(n, score=0.5):
    return [Score(score, cost=Cost(1, 2, 0.25, 1))] * n


def test_a_fifth_of_failures_is_borne_and_more_is_not():
    reward = Told()
    one = RewardMonitor(reward)
    one.score(watch(reward, [*fine(16), *failing(4)]))
    with pytest.raises(ScoringError, match=r"told could not score 5 of its last 21 cases, more than 20%; .* late"):
        one.score(watch(reward, failing(1)))


def test_few_cases_mean_nothing():
    reward = Told()
    RewardMonitor(reward).score(watch(reward, failing(19)))
    with pytest.raises(ScoringError):
        RewardMonitor(reward).score(watch(reward, failing(20)))


def test_only_recent_failures_count():
    reward = Told()
    one = RewardMonitor(reward)
    one.score(watch(reward, [*fine(81), *failing(19)]))
    one.score(watch(reward, fine(100)))
    one.score(watch(reward, [*fine(80), *failing(20)]))
    with pytest.raises(ScoringError, match="21 of its last 100"):
        one.score(watch(reward, failing(1)))


def test_a_reward_may_bring_its_own_limit():
    reward = Told(failure_limit=0.0)
    with pytest.raises(ScoringError, match="more than 0%"):
        RewardMonitor(reward).score(watch(reward, [*fine(19), *failing(1)]))
    bold = Told(failure_limit=1.0)
    RewardMonitor(bold).score(watch(bold, failing(50)))


def test_a_reward_that_breaks_its_contract_is_named():
    reward = Told()
    with pytest.raises(ScoringError, match="told gave 1 verdicts for 2 cases"):
        RewardMonitor(reward).score(watch(reward, fine(1), [1, 1]))
    for verdict in (
        Score(float("nan")),
        Score(0.5, {"c": float("inf")}),
        Score(0.5, metrics={"m": float("nan")}),
    ):
        with pytest.raises(ScoringError, match="not finite"):
            RewardMonitor(reward).score(watch(reward, [verdict]))


def test_what_was_spent_is_told_once():
    reward = Told(metrics=lambda: {"cache_hits": 0.5})
    one = RewardMonitor(reward)
    one.score(watch(reward, [*fine(3), *failing(1)]))
    assert one.measured() == {
        "cases": 4.0, "unscored": 0.25, "calls": 4.0, "tokens": 9.0, "dollars": 0.75, "cache_hits": 0.5,
    }  # fmt: skip
    assert one.measured()["cases"] == 0.0


def test_rank_correlation():
    # ranks 1 2 3 4 against 2 1 4 3: 1 - 6 (1 + 1 + 1 + 1) / (4 x 15) = 0.6
    assert correlation([(10, 0.2), (20, 0.1), (30, 0.4), (40, 0.3)]) == pytest.approx(0.6)
    assert correlation([(10, 0.2), (10, 0.3)]) == 0.0


def test_scores_that_follow_length_are_warned_of_once():
    reward = Told()
    one = RewardMonitor(reward)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one.score(watch(reward, [Score(n / 49) for n in range(49)], range(49)))
        even = RewardMonitor(reward)
        even.score(watch(reward, [Score((n % 7) / 7) for n in range(70)], range(70)))
    with pytest.warns(PalaverWarning, match=r"follow length \(rank correlation 1\.00 over the last 50 answers\)"):
        one.score(watch(reward, [Score(1.0)], [49]))
    assert one.measured()["length_correlation"] == pytest.approx(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one.score(watch(reward, [Score(2.0)], [50]))


def test_scores_that_rise_while_the_holdout_falls_are_warned_of():
    def verdicts(score, holdout):
        return [Score(score + 0.01 * (n % 2), metrics={"holdout": holdout + 0.01 * (n % 2)}) for n in range(25)]

    reward = Told()
    one = RewardMonitor(reward)
    one.score(watch(reward, verdicts(0.3, 0.6)))
    with pytest.warns(PalaverWarning, match="the team may be gaming its judge"):
        one.score(watch(reward, verdicts(0.5, 0.4)))
    both = RewardMonitor(reward)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both.score(watch(reward, verdicts(0.3, 0.6)))
        both.score(watch(reward, verdicts(0.5, 0.7)))


def test_what_is_within_the_error_is_no_parting():
    # halves of 25: means 0.5 and 0.6 with variance 0.26 (0 and 1 mixed): the error is about 0.14, so 0.1 is nothing
    first = [(float(n % 2), float(n % 2)) for n in range(25)]
    assert not parted([*first, *((score + 0.1, held - 0.1) for score, held in first)])
    assert parted([*first, *((score + 0.5, held - 0.5) for score, held in first)])
    assert not parted([*first[:20], *((score + 0.5, held - 0.5) for score, held in first[:20])])
