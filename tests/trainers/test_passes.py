"""pass@k by its definition: the share of k-subsets of the samples that hold a right one, counted one by one."""

from __future__ import annotations

import itertools

import pytest

from palaver.episodes import Episode, Turn
from palaver.trainers.rollout.evaluation import summarize
from palaver.utils.stats.pass_at_k import pass_at_k, passes


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6])
def test_the_estimator_counts_subsets(n):
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        subsets = list(itertools.combinations(range(n), k))
        hits = sum(any(sample < c for sample in subset) for subset in subsets)
        assert pass_at_k(n, c, k) == pytest.approx(hits / len(subsets), abs=1e-12)


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [(10, 3, 1, 0.3), (10, 3, 5, 1 - 21 / 252), (200, 1, 100, 0.5), (5, 0, 5, 0.0), (5, 5, 1, 1.0), (8, 7, 2, 1.0)],
)
def test_known_values(n, c, k, expected):
    assert pass_at_k(n, c, k) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0), (3, 1, 4)])
def test_what_has_no_value(n, c, k):
    with pytest.raises(ValueError, match=r"pass@k needs"):
        pass_at_k(n, c, k)


def episode(task, *solved, stop="terminated"):
    turns = tuple(
        Turn(index, f"{task}/{index}", "", "g", {"a": 0}, {}, {}, {"a": each}, {"a": {"r": each}}, {"solved": each})
        for index, each in enumerate(solved)
    )
    return Episode("e", task, 0, turns, stop)


def test_groups_of_a_task_by_their_last_turns():
    episodes = [episode("x", 1.0, 0.0), episode("x", 0.0, 1.0), episode("x", 0.0, 0.0), episode("y", 1.0)] * 2
    found = passes(episodes)
    # x: 2 of 6 are right, y: 2 of 2; the smaller group has 2
    assert found == {"pass@1": pytest.approx((2 / 6 + 1) / 2), "pass@2": pytest.approx((1 - 6 / 15 + 1) / 2)}
    assert passes([episode("x", 1.0), episode("y", 0.0)]) == {"pass@1": 0.5}
    assert passes([]) == {}


def test_environments_that_solve_nothing_have_no_passes():
    turn = Turn(0, "n", "", "g", {}, {}, {}, {"a": 1.0}, {"a": {}}, {"words": 3.0})
    assert passes([Episode("e", "x", 0, (turn,), "terminated")]) == {}


def test_a_summary_has_them_and_leaves_out_what_was_not_scored():
    episodes = [episode("x", 1.0), episode("x", 0.0), episode("x", 1.0, stop="unscored"), episode("y", 1.0)]
    summary = summarize(episodes)
    assert (summary.n, summary.unscored) == (3, 1)
    assert summary.mean == pytest.approx((0.5 + 1.0) / 2)
    assert summary.passes == {"pass@1": pytest.approx(0.75)}
