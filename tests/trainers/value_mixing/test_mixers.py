"""The mixers against sums written by hand in numpy, and what makes them fit for decentralised choice."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from palaver.trainers.value_decomposition.mixers import AdditiveMixer, AgentValues, Monotonic, added, mixer, monotonic
from tests.closeness import assert_values_close


def test_vdn_is_the_sum():
    assert added(torch.tensor([[1.0, 2.0, -4.0], [0.5, 0.0, 0.0]])).tolist() == [-1.0, 0.5]
    assert AdditiveMixer()(torch.tensor([[1.0, 2.0]]), torch.zeros(1, 3)).tolist() == [3.0]
    assert isinstance(mixer("sum", 2, 3, 4), AdditiveMixer)
    assert isinstance(mixer("monotonic", 2, 3, 4), Monotonic)


def test_qmix_by_hand():
    """Q = (1, -2), |W1| = [[1, 2], [3, 0.5]], b1 = (0.5, -1): hidden = (1 - 6 + 0.5, 2 - 1 - 1) = (-4.5, 0).

    ELU(-4.5) = exp(-4.5) - 1 = -0.988891, ELU(0) = 0; |wf| = (2, 3), v = 0.25: 2 * -0.988891 + 0.25 = -1.727782.
    """
    one = monotonic(
        torch.tensor([[1.0, -2.0]]), torch.tensor([[[1.0, -2.0], [-3.0, 0.5]]]), torch.tensor([[0.5, -1.0]]),
        torch.tensor([[-2.0, 3.0]]), torch.tensor([0.25]),
    )  # fmt: skip
    assert one.tolist() == pytest.approx([-1.727782], abs=1e-6)


def _numpy_layers(net: nn.Module, x: np.ndarray) -> np.ndarray:
    for layer in net:
        x = np.maximum(x, 0) if isinstance(layer, nn.ReLU) else _numpy(layer, x)
    return x


def _numpy(layer: nn.Module, x: np.ndarray) -> np.ndarray:
    return x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()


def test_qmix_is_what_numpy_makes_of_its_weights():
    torch.manual_seed(3)
    net = Monotonic(agents=3, state=5, embed=4, hidden=6)
    q, state = torch.randn(7, 3), torch.randn(7, 5)
    s = state.numpy()
    w1 = np.abs(_numpy_layers(net.w1, s)).reshape(7, 3, 4)
    hidden = np.stack([q.numpy()[b] @ w1[b] for b in range(7)]) + _numpy(net.b1, s)
    hidden = np.where(hidden > 0, hidden, np.exp(np.minimum(hidden, 0)) - 1)
    expected = (hidden * np.abs(_numpy_layers(net.wf, s))).sum(axis=1) + _numpy_layers(net.v, s)[:, 0]
    assert net(q, state).detach().numpy() == pytest.approx(expected, abs=1e-5)


def test_no_agent_can_lower_the_team_by_raising_itself():
    torch.manual_seed(0)
    for seed in range(5):
        torch.manual_seed(seed)
        net = Monotonic(agents=4, state=6, embed=8, hidden=16)
        q, state = 3 * torch.randn(200, 4), 3 * torch.randn(200, 6)
        q.requires_grad_()
        (slope,) = torch.autograd.grad(net(q, state).sum(), q)
        assert bool((slope >= 0).all())
        assert bool((slope > 0).any())


def test_unit_weights_make_vdn_of_qmix():
    """Where the hidden value is positive ELU changes nothing: 1 * (q1 + q2) + 0."""
    q = torch.tensor([[1.0, 2.5], [0.25, 4.0]])
    ones, none = torch.ones(2, 2, 1), torch.zeros(2, 1)
    assert monotonic(q, ones, none, torch.ones(2, 1), torch.zeros(2)).tolist() == added(q).tolist()


def test_the_worth_of_a_state_shifts_the_team_and_no_choice():
    torch.manual_seed(1)
    net = Monotonic(agents=2, state=3, embed=4, hidden=5)
    q, state = torch.randn(6, 2), torch.randn(1, 3).expand(6, -1)
    before = net(q, state).detach()
    with torch.no_grad():
        net.v[2].bias.add_(2.5)
    assert_values_close(net(q, state), before + 2.5)


@pytest.mark.parametrize("linear", [True, False])
def test_values_of_agents_with_networks_of_their_own_and_with_one(linear):
    torch.manual_seed(0)
    x = torch.randn(1, 1, 3, 4).expand(5, 2, -1, -1)  # both agents see the same
    apart = AgentValues(2, 4, 8, shared=False, linear=linear)
    one = AgentValues(2, 4, 8, shared=True, linear=linear)
    with torch.no_grad():
        for number, p in enumerate([*apart.parameters(), *one.parameters()]):
            p.copy_(torch.randn(p.shape, generator=torch.Generator().manual_seed(number)))
    assert apart(x).shape == one(x).shape == (5, 2, 3)
    assert_values_close(one(x)[:, 0], one(x)[:, 1])
    assert not torch.allclose(apart(x)[:, 0], apart(x)[:, 1])


def test_a_table_begins_at_zero_and_holds_a_number_for_each_feature():
    table = AgentValues(1, 3, 8, shared=False, linear=True)
    assert table(torch.eye(3)[None, None]).tolist() == [[[0.0, 0.0, 0.0]]]
    with torch.no_grad():
        table.nets[0].weight.copy_(torch.tensor([[4.0, 5.0, 6.0]]))
    assert table(torch.eye(3)[None, None]).tolist() == [[[4.0, 5.0, 6.0]]]
