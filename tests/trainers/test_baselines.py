"""The four estimators and their normalisations, against numbers worked out by hand."""

from __future__ import annotations

import itertools

import pytest
import torch

from palaver.trainers.algorithms.base import ALGORITHMS, algorithm
from palaver.trainers.config.run import AlgorithmConfig
from palaver.trainers.objectives.advantages import (
    group_mean_baseline,
    leave_one_out_baseline,
    max_baseline,
    no_baseline,
    normalize,
)
from palaver.trainers.objectives.losses import ppo_clip
from palaver.trainers.rollout.batch import add_advantages, make_batch
from tests.trainers.learning import episode

RETURNS = torch.tensor([1.0, 0.0, 0.0, 0.0, 5.0, 7.0], dtype=torch.float64)
GROUP = torch.tensor([0, 0, 0, 0, 1, 1])


def test_minus_mean():
    assert group_mean_baseline(RETURNS, GROUP).tolist() == [0.75, -0.25, -0.25, -0.25, -1.0, 1.0]


def test_minus_others():
    # 1 - 0; 0 - 1/3 three times; 5 - 7; 7 - 5
    expected = torch.tensor([1, -1 / 3, -1 / 3, -1 / 3, -2, 2], dtype=torch.float64)
    assert torch.allclose(leave_one_out_baseline(RETURNS, GROUP), expected)


def test_minus_max_and_nothing():
    assert max_baseline(RETURNS, GROUP).tolist() == [0, -1, -1, -1, -2, 0]
    assert no_baseline(RETURNS, GROUP).tolist() == RETURNS.tolist()


def test_a_group_of_one_has_no_others():
    assert leave_one_out_baseline(torch.tensor([3.0]), torch.tensor([0])).tolist() == [0.0]


def test_standard_deviation_population_and_unbiased():
    # the values of marl_llm.md section 1.0: [1,0,0,0] gives 1.5, -.5 unbiased and 1.732, -.577 population
    advantage = group_mean_baseline(RETURNS, GROUP)
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
    assert normalize(group_mean_baseline(returns, group), returns, group, "std").abs().max() < 1e-8


UNEVEN = (
    [(1.0, 0.0), (0.0, 0.5)],
    [(0.0, 2.0), (3.0, 0.0)],
    [(0.5, 0.0), (0.0, 0.0)],
)  # a lane's pay of a and b, by turn
AFTER_GRPO = {"grpo", "dr-grpo", "dapo", "gspo", "cispo"}
ROLLOUT_ONLY = {"c3": "marloo", "atgrpo-team": "atgrpo"}
HOW = ["none", "std", "batch", "whiten"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", ["population", "unbiased"])
def test_no_normalisation_makes_two_estimators_one(how, kind):
    """The peer's standardisation makes all four of the family equal (reference/comlrl.md, section 5, item 3); ours must
    not, nor AT-GRPO, Dr. MAS, RAE and those of critics, on two tasks of three lanes of two turns.

    `whiten` would: those that compare siblings refuse it, and it is left to those that do not. GRPO and the rows after
    it have MAGRPO's advantages, exactly, and differ in the loss; C3 has MARLOO's, and AT-GRPO by teams AT-GRPO's, and
    they differ in what is sampled.
    """
    table = make_batch([episode(str(task), lane, pay) for task in (0, 1) for lane, pay in enumerate(UNEVEN)])
    value = torch.linspace(-1, 2, len(table), dtype=torch.float64) ** 2
    found = {}
    for name in ALGORITHMS:
        row = algorithm(name)
        if row.mixer != "none" or row.pairs or row.aligned:
            continue  # until its values are learnt it compares as MAGRPO does; pairs have no advantage
        if (how == "whiten" and (row.needs_group or name == "rae")) or (row.loss is ppo_clip and row.critic != "none"):
            continue  # refused; or the estimator of IAC or MAAC with another loss
        config = AlgorithmConfig(name=name, normalize=how, std=kind)
        expected = {"none": None, "agent": torch.full_like(value, 0.25), "own": value, "joint": value.flip(0)}[
            row.critic
        ]
        found[name] = add_advantages(table, row, config, expected).advantage
    assert set(found) >= (
        {"mareinforce", "iac", "maac"} if how == "whiten" else {"marloo", "maremax", "atgrpo", "drmas"}
    )
    after = {name: found.pop(name) for name in AFTER_GRPO & set(found)}
    assert (how == "whiten") != bool(after)
    for name, same in ROLLOUT_ONLY.items() if how != "whiten" else ():
        assert torch.equal(found.pop(name), found[same])
    assert all(torch.equal(each, found["magrpo"]) for each in after.values())
    for one, other in itertools.combinations(found, 2):
        assert not torch.allclose(found[one], found[other], atol=1e-3), (one, other)


def test_marloo_is_magrpo_times_g_over_g_minus_one():
    returns = torch.randn(12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    group = torch.arange(12) // 4
    assert torch.allclose(leave_one_out_baseline(returns, group), 4 / 3 * group_mean_baseline(returns, group))
