"""The four estimators and their normalisations, against numbers worked out by hand."""

from __future__ import annotations

import itertools

import pytest
import torch

from palaver.trainers.algorithm import ROWS, algorithm
from palaver.trainers.baselines import minus_max, minus_mean, minus_others, normalize, nothing

RETURNS = torch.tensor([1.0, 0.0, 0.0, 0.0, 5.0, 7.0], dtype=torch.float64)
GROUP = torch.tensor([0, 0, 0, 0, 1, 1])
EQUAL_GROUPS = torch.tensor([0, 0, 0, 1, 1, 1])


def test_minus_mean():
    assert minus_mean(RETURNS, GROUP).tolist() == [0.75, -0.25, -0.25, -0.25, -1.0, 1.0]


def test_minus_others():
    # 1 - 0; 0 - 1/3 three times; 5 - 7; 7 - 5
    expected = torch.tensor([1, -1 / 3, -1 / 3, -1 / 3, -2, 2], dtype=torch.float64)
    assert torch.allclose(minus_others(RETURNS, GROUP), expected)


def test_minus_max_and_nothing():
    assert minus_max(RETURNS, GROUP).tolist() == [0, -1, -1, -1, -2, 0]
    assert nothing(RETURNS, GROUP).tolist() == RETURNS.tolist()


def test_a_group_of_one_has_no_others():
    assert minus_others(torch.tensor([3.0]), torch.tensor([0])).tolist() == [0.0]


def test_standard_deviation_population_and_unbiased():
    # the values of marl_llm.md section 1.0: [1,0,0,0] gives 1.5, -.5 unbiased and 1.732, -.577 population
    advantage = minus_mean(RETURNS, GROUP)
    unbiased = normalize(advantage, RETURNS, GROUP, "std", "unbiased")
    population = normalize(advantage, RETURNS, GROUP, "std", "population")
    assert torch.allclose(unbiased[:4], torch.tensor([1.5, -0.5, -0.5, -0.5], dtype=torch.float64))
    root3 = 3**0.5
    assert torch.allclose(population[:4], torch.tensor([root3] + 3 * [-1 / root3], dtype=torch.float64))


def test_batch_scale_is_the_pooled_standard_deviation_of_returns():
    # squares about the group means: 9 + 9 + 1 + 1 = 20; over 4 rows 5, over 4 - 2 rows 10
    returns = torch.tensor([3.0, -3.0, 4.0, 6.0], dtype=torch.float64)
    group = torch.tensor([0, 0, 1, 1])
    assert torch.allclose(normalize(returns, returns, group, "batch"), returns / 5**0.5)
    assert torch.allclose(normalize(returns, returns, group, "batch", "unbiased"), returns / 10**0.5)


def test_equal_rewards_are_not_blown_up():
    returns = torch.tensor([1.0, 1.0 + 1e-9, 1.0], dtype=torch.float64)
    group = torch.zeros(3, dtype=torch.long)
    assert normalize(minus_mean(returns, group), returns, group, "std").abs().max() < 1e-8


@pytest.mark.parametrize("how", ["none", "std", "batch"])
@pytest.mark.parametrize("kind", ["population", "unbiased"])
@pytest.mark.parametrize("group", [GROUP, EQUAL_GROUPS])
def test_no_normalisation_makes_two_estimators_one(how, kind, group):
    """The peer's standardisation makes all four equal (reference/comlrl.md, section 5, item 3); ours must not."""
    advantages = {}
    for name in ROWS:
        row = algorithm(name)
        if row.critic != "none":
            continue
        advantages[name] = normalize(row.baseline(RETURNS, group), RETURNS, group, how, kind)
    for one, other in itertools.combinations(advantages, 2):
        assert not torch.allclose(advantages[one], advantages[other], atol=1e-3), (one, other)


def test_marloo_is_magrpo_times_g_over_g_minus_one():
    returns = torch.randn(12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    group = torch.arange(12) // 4
    assert torch.allclose(minus_others(returns, group), 4 / 3 * minus_mean(returns, group))
