"""Which joint actions are compared, by hand."""

from __future__ import annotations

import pytest

from palaver.core import ConfigError
from palaver.trainers.config.loading import parse
from palaver.trainers.config.preferences import PairsConfig, choose

VALUES = [2.0, 0.0, 3.0, 2.0]


def test_all_pairs_but_ties():
    assert choose(VALUES, PairsConfig(), 0) == [(0, 1), (2, 0), (2, 1), (2, 3), (3, 1)]


def test_the_best_against_the_worst():
    assert choose(VALUES, PairsConfig(select="extremes"), 0) == [(2, 1)]
    assert choose([1.0, 1.0], PairsConfig(select="extremes"), 0) == []


def test_a_gap_is_the_least_difference():
    assert choose(VALUES, PairsConfig(gap=2.0), 0) == [(0, 1), (2, 1), (3, 1)]
    assert choose(VALUES, PairsConfig(select="extremes", gap=3.5), 0) == []


def test_at_most_so_many_drawn_by_the_seed():
    few = [choose(VALUES, PairsConfig(most=2), seed) for seed in (0, 0, 1, 2, 3)]
    assert few[0] == few[1]
    assert len({tuple(pairs) for pairs in few}) > 1
    assert all(len(pairs) == 2 and set(pairs) <= set(choose(VALUES, PairsConfig(), 0)) for pairs in few)


@pytest.mark.parametrize("values", [[], [1.0]])
@pytest.mark.parametrize("select", ["all", "extremes"])
def test_nothing_to_compare(values, select):
    assert choose(values, PairsConfig(select=select), 0) == []


def test_a_bad_choice_is_refused():
    with pytest.raises(ConfigError, match=r"algorithm.pairs.select"):
        parse({"algorithm": {"name": "madpo", "pairs": {"select": "best"}}})
    with pytest.raises(ConfigError, match="Did you mean 'most'"):
        parse({"algorithm": {"name": "madpo", "pairs": {"mots": 2}}})
