"""Credits with numbers by hand."""

from __future__ import annotations

import torch

from palaver.trainers.value_decomposition.mixers import Monotonic, added
from palaver.trainers.value_decomposition.targets import counterfactual

Q = torch.tensor([[[1.0, 2.0, 6.0], [4.0, 0.0, 0.0]], [[1.0, 2.0, 6.0], [4.0, 0.0, 0.0]]])
ALLOWED = torch.tensor([[[True, True, True], [True, True, False]]] * 2)
CHOSEN = torch.tensor([[0, 0], [2, 1]])


def test_of_a_sum_it_is_the_value_less_the_mean_of_the_agents_own():
    """Agent 0: candidates 1, 2, 6, mean 3: -2 and 3. Agent 1: candidates 4 and 0, mean 2: 2 and -2."""
    found = counterfactual(Q, ALLOWED, CHOSEN, torch.zeros(2, 1), lambda q, _: added(q))
    assert found.tolist() == [[-2.0, 2.0], [3.0, -2.0]]


def test_of_a_product_it_depends_on_what_the_other_did():
    """Q_tot = q0 q1. (1, 4): 4 less the mean of 4, 8, 24 = -8; 4 less the mean of 4, 0 = 2. (6, 0): 0 and 0 - 12."""
    found = counterfactual(Q, ALLOWED, CHOSEN, torch.zeros(2, 1), lambda q, _: q[:, 0] * q[:, 1])
    assert found.tolist() == [[-8.0, 2.0], [0.0, -12.0]]


def test_who_may_not_act_is_given_nothing_and_counts_as_zero():
    """Q_tot = q0 + 10 q1 with q1 = 0 where the second may not act: 1 - 3 = -2."""
    allowed = torch.tensor([[[True, True, True], [False, False, False]]])
    found = counterfactual(Q[:1], allowed, CHOSEN[:1], torch.zeros(1, 1), lambda q, _: q[:, 0] + 10 * q[:, 1])
    assert found.tolist() == [[-2.0, 0.0]]


def test_under_a_monotonic_mixer_the_better_of_two_own_answers_is_never_given_less():
    torch.manual_seed(0)
    net = Monotonic(2, 3, 8, 8)
    q, state = torch.randn(50, 2, 4), torch.randn(50, 3)
    allowed, other = torch.ones(50, 2, 4, dtype=torch.bool), torch.zeros(50, dtype=torch.long)
    with torch.no_grad():
        each = [
            counterfactual(q, allowed, torch.stack([torch.full_like(other, k), other], 1), state, net)[:, 0]
            for k in range(4)
        ]
    given, own = torch.stack(each, 1), q[:, 0]
    for a in range(4):
        for b in range(4):
            assert bool(((own[:, a] < own[:, b]) | (given[:, a] >= given[:, b] - 1e-5)).all())
