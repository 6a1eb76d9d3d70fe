"""Returns on values, value losses and running moments, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from palaver.trainers.objectives.advantages import tree_returns
from palaver.trainers.objectives.lambda_returns import ValueNorm, lambda_returns, value_loss, whiten

NAN = math.nan


def column(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)[:, None]


def chain(reward: torch.Tensor, value: torch.Tensor, discount: float, decay: float) -> list[float]:
    steps = torch.arange(len(reward))
    return lambda_returns(reward, value, steps - 1, steps, discount, decay)[:, 0].tolist()


def test_td0_on_a_chain_of_two():
    """marl_llm.md, section 1.8: r = [0, 1], V = [.3, .6], discount .9 gives targets [.54, 1] and A = [.24, .4]."""
    target = chain(column(0.0, 1.0), column(0.3, 0.6), 0.9, 0.0)
    assert target == pytest.approx([0.54, 1.0])
    assert [g - v for g, v in zip(target, (0.3, 0.6), strict=True)] == pytest.approx([0.24, 0.4])


@pytest.mark.parametrize("decay", [0.0, 0.5, 1.0])
def test_a_single_state_has_nothing_behind_it(decay):
    assert chain(column(1.0), column(0.4), 0.9, decay) == [1.0], "A = 1 - .4 = .6"


def test_generalised_advantages_on_a_chain_of_three():
    """r = 1, 0, 2; V = .5, .4, 1; gamma = lambda = .5. TD errors .7, .1, 1; advantages .7 + .25 * .35, .35, 1."""
    target = chain(column(1.0, 0.0, 2.0), column(0.5, 0.4, 1.0), 0.5, 0.5)
    assert [g - v for g, v in zip(target, (0.5, 0.4, 1.0), strict=True)] == pytest.approx([0.7875, 0.35, 1.0])


def test_decay_one_is_the_discounted_return_whatever_the_values():
    # 2; 0 + .5 * 2; 1 + .5 * 1
    assert chain(column(1.0, 0.0, 2.0), column(9.0, -7.0, 5.0), 0.5, 1.0) == [1.5, 1.0, 2.0]


def test_discount_zero_pays_each_turn_for_itself():
    assert chain(column(1.0, 0.0, 2.0), column(9.0, -7.0, 5.0), 0.0, 0.5) == [1.0, 0.0, 2.0]


TREE = {"parent": torch.tensor([-1, 0, 0, 2, -1]), "turn": torch.tensor([0, 1, 1, 2, 0])}


def test_a_tree_takes_the_mean_over_children():
    """Leaf 3: 8. Step 2: 4 + .5 (.5 * 5 + .5 * 8) = 7.25. Step 1: 2. Root: 1 + .5 * mean(1.5, .5 * 3 + .5 * 7.25)."""
    reward, value = column(1, 2, 4, 8, 6), column(0.5, 1, 3, 5, 100)
    got = lambda_returns(reward, value, TREE["parent"], TREE["turn"], 0.5, 0.5)
    assert got[:, 0].tolist() == pytest.approx([2.65625, 2.0, 7.25, 8.0, 6.0])


def test_decay_one_on_a_tree_is_its_return():
    generator = torch.Generator().manual_seed(0)
    reward, value = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    value[2, 1] = NAN
    expected = tree_returns(reward, TREE["parent"], TREE["turn"], 0.7)
    assert torch.allclose(lambda_returns(reward, value, TREE["parent"], TREE["turn"], 0.7, 1.0), expected)


def test_an_agent_that_waits_between_decisions_counts_only_its_decisions():
    """It acts, waits, acts. Seen as two decisions: reward 1 + .5 * 2 = 2, then discount .25 on .75 * 4 + .25 * 3.

    While it waits it has 2 + .5 * 3 coming.
    """
    assert chain(column(1.0, 2.0, 3.0), column(0.5, NAN, 4.0), 0.5, 0.25) == pytest.approx([2.9375, 3.5, 3.0])


@pytest.mark.parametrize("decay", [0.0, 0.3, 1.0])
def test_an_agent_that_never_acts_again_gets_what_it_is_paid(decay):
    # 1 + .5 * 2 + .25 * 4
    assert chain(column(1.0, 2.0, 4.0), column(9.0, NAN, NAN), 0.5, decay)[0] == 3.0


def test_an_agent_that_waits_first_and_agents_do_not_mix():
    """Agent 0 waits at the root; agent 1 acts everywhere. gamma .5, lambda 0.

    Agent 0: root 1 + .5 * G_1 = 1 + .5 * 2 (it is at a leaf, G = r). Agent 1: 10 + .5 * V_1 = 10 + .5 * 6.
    """
    reward = torch.tensor([[1.0, 10.0], [2.0, 20.0]], dtype=torch.float64)
    value = torch.tensor([[NAN, 5.0], [7.0, 6.0]], dtype=torch.float64)
    got = lambda_returns(reward, value, torch.tensor([-1, 0]), torch.tensor([0, 1]), 0.5, 0.0)
    assert got.tolist() == [[2.0, 13.0], [2.0, 20.0]]


def test_one_child_waits_and_its_sibling_acts():
    """Children of the root: step 1 (r 2, V 1), step 2 where the agent waits (r 4) before step 3 (r 8, V 5).

    gamma = lambda = .5. Step 2: V 4 + .5 * 5 = 6.5, G 4 + .5 * 8 = 8. Root: 1 + .5 * mean(.5 * 1 + .5 * 2, 7.25).
    """
    reward, value = column(1, 2, 4, 8, 6), column(0.5, 1, NAN, 5, NAN)
    got = lambda_returns(reward, value, TREE["parent"], TREE["turn"], 0.5, 0.5)
    assert got[:, 0].tolist() == pytest.approx([1 + 0.5 * (1.5 + 7.25) / 2, 2.0, 8.0, 8.0, 6.0])


VALUE, TARGET, OLD = torch.tensor([1.0, 3.0, 0.0]), torch.tensor([2.0, 0.0, 0.0]), torch.tensor([0.5, 1.0, 2.0])


def test_value_loss_is_half_the_square():
    assert value_loss(VALUE, TARGET, OLD, None, None).tolist() == [0.5, 4.5, 0.0]


def test_value_clip_takes_the_worse_of_the_two():
    """Clipped values .7, 1.2, 1.8: halves of squares .845, .72, 1.62."""
    value = VALUE.clone().requires_grad_()
    loss = value_loss(value, TARGET, OLD, 0.2, None)
    assert loss.tolist() == pytest.approx([0.845, 4.5, 1.62])
    loss.sum().backward()
    assert value.grad.tolist() == [0.0, 3.0, 0.0], "a value that has moved as far as it may has no gradient"


def test_huber_is_linear_beyond_its_width():
    """Errors -1, 3, 0 at width 2: 1/2, 2 (3 - 1), 0. Clipped errors -1.3, 1.2, 1.8 at width 1: .8, .7, 1.3."""
    assert value_loss(VALUE, TARGET, OLD, None, 2.0).tolist() == [0.5, 4.0, 0.0]
    assert value_loss(VALUE, TARGET, OLD, 0.2, 1.0).tolist() == pytest.approx([0.8, 2.5, 1.3])


def test_whiten_shifts_and_scales_each_part_alone():
    """1, 2, 3: mean 2, deviation sqrt(2/3). 10, 30: mean 20, deviation 10. Equal ones are 0."""
    advantage = torch.tensor([1.0, 10.0, 2.0, 30.0, 3.0, 7.0, 7.0], dtype=torch.float64)
    got = whiten(advantage, torch.tensor([0, 1, 0, 1, 0, 2, 2]), 3)
    end = 1.5**0.5
    assert got.tolist() == pytest.approx([-end, -1.0, 0.0, 1.0, end, 0.0, 0.0])


def test_value_norm_on_its_first_batch():
    """marl_llm.md, section 1.2: 1, 2, 3, 4 gives mean 2.5, variance 1.25."""
    norm = ValueNorm()
    values = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    assert norm.normalize(values).tolist() == values.tolist(), "nothing is known yet"
    norm.update(float(values.sum()), float(values.square().sum()), 4)
    assert norm.mean == pytest.approx(2.5)
    assert norm.std**2 == pytest.approx(1.25)
    assert norm.normalize(values).tolist() == pytest.approx([-1.3416, -0.4472, 0.4472, 1.3416], abs=1e-4)
    assert norm.denormalize(norm.normalize(values)).tolist() == pytest.approx(values.tolist())


def test_value_norm_forgets():
    """beta .5: m = .5 * 1.25 + .5 * 0 = .625, q = .5 * 3.75 = 1.875, d = .75."""
    norm = ValueNorm(beta=0.5)
    norm.update(10.0, 30.0, 4)
    norm.update(0.0, 0.0, 2)
    assert norm.mean == pytest.approx(0.625 / 0.75)
    assert norm.std**2 == pytest.approx(1.875 / 0.75 - (0.625 / 0.75) ** 2)


def test_value_norm_has_a_floor_and_takes_no_empty_batch():
    norm = ValueNorm()
    norm.update(6.0, 12.0, 3)  # 2, 2, 2
    assert norm.mean == pytest.approx(2.0)
    assert norm.std == pytest.approx(0.1)
    norm.update(0.0, 0.0, 0)
    assert norm.mean == pytest.approx(2.0)


def gae(reward, value, after, discount, decay):
    """Advantages of a chain, sum_l (gamma lambda)^l delta_{t+l}; `after` is the value behind its end."""
    value = np.append(value, after)
    delta = reward + discount * value[1:] - value[:-1]
    return [sum((discount * decay) ** n * d for n, d in enumerate(delta[t:])) for t in range(len(reward))]


@pytest.mark.parametrize("decay", [0.0, 0.37, 1.0])
def test_a_chain_that_was_cut_is_gae_with_the_value_behind_it(decay):
    draw = np.random.default_rng(4)
    reward, value = draw.normal(size=6), draw.normal(size=6)
    boot = torch.zeros(6, 1, dtype=torch.float64)
    for after in (0.0, 2.5):
        boot[-1] = after
        steps = torch.arange(6)
        got = lambda_returns(column(*reward), column(*value), steps - 1, steps, 0.9, decay, boot)
        assert (got[:, 0].numpy() - value).tolist() == pytest.approx(gae(reward, value, after, 0.9, decay), abs=1e-9)


def test_a_cut_of_one_turn_by_hand():
    """1 + .5 * 3 whatever lambda is; an end is worth its reward."""
    for decay in (0.0, 0.5, 1.0):
        step = torch.tensor([0])
        assert lambda_returns(column(1), column(9), step - 1, step, 0.5, decay, column(3)).item() == 2.5
        assert lambda_returns(column(1), column(9), step - 1, step, 0.5, decay, column(0)).item() == 1.0


@pytest.mark.parametrize("decay", [0.0, 0.37, 1.0])
def test_a_tree_with_leaves_that_were_cut_and_leaves_that_ended(decay):
    """Each root's return is the mean over its leaves of the chain that leads to it, for two agents apart.

    Roots 0 and 4. Below 0: leaf 1, and 2 with leaf 3. For agent 0 leaves 1 and 3 were cut, for agent 1 leaf 4.
    """
    draw = np.random.default_rng(8)
    reward, value = draw.normal(size=(5, 2)), draw.normal(size=(5, 2))
    boot = np.array([[0, 0], [1.7, 0], [0, 0], [-0.6, 0], [0, 2.2]])
    got = lambda_returns(
        *map(torch.tensor, (reward, value)), TREE["parent"], TREE["turn"], 0.8, decay, torch.tensor(boot)
    ).numpy()
    for agent in (0, 1):

        def chain_to(path, agent=agent):
            return gae(reward[path, agent], value[path, agent], boot[path[-1], agent], 0.8, decay)

        root = (chain_to([0, 1])[0] + chain_to([0, 2, 3])[0]) / 2
        expected = [root, chain_to([1])[0], *chain_to([2, 3]), chain_to([4])[0]]
        assert got[:, agent] - value[:, agent] == pytest.approx(expected, abs=1e-9)


def test_an_agent_that_waits_when_it_is_cut_has_what_comes_behind_the_cut():
    """It acts, then waits and is cut: 1 + .5 * (2 + .5 * 6) for every lambda; while it waits 2 + .5 * 6."""
    steps, boot = torch.arange(2), column(0, 6)
    for decay in (0.0, 0.25, 1.0):
        got = lambda_returns(column(1, 2), column(0.5, NAN), steps - 1, steps, 0.5, decay, boot)
        assert got[:, 0].tolist() == pytest.approx([3.5, 5.0], abs=1e-9)
