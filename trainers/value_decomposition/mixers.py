"""Mixers of the agents' action values to the joint value. Axes: B joint steps, N agents."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import elu

Kind = Literal["sum", "monotonic"]


def added(q: Tensor) -> Tensor:
    """Q_tot = sum_i Q_i, (B, N) -> (B,). VDN: Sunehag et al., arXiv 1706.05296, equation 2."""
    return q.sum(dim=-1)


def monotonic(q: Tensor, w1: Tensor, b1: Tensor, wf: Tensor, v: Tensor) -> Tensor:
    """Q_tot = ELU(q |W1| + b1) |wf| + v, monotonic in each Q_i. QMIX (arXiv 1803.11485).

    Rashid et al., figure 2. Q_tot does not fall where a Q_i rises.

    Args:
        q: (B, N) values of the chosen actions.
        w1: (B, N, E) weights of either sign.
        b1: (B, E).
        wf: (B, E) weights of either sign.
        v: (B,) state-dependent bias.

    Returns:
        (B,).
    """
    hidden = elu(torch.einsum("bn,bne->be", q, w1.abs()) + b1)
    return (hidden * wf.abs()).sum(dim=-1) + v


class AdditiveMixer(nn.Module):
    """Mixer of VDN, independent of the state."""

    def forward(self, q: Tensor, state: Tensor) -> Tensor:  # noqa: ARG002 - every mixer has the same two arguments
        """(B, N) and (B, S) -> (B,)."""
        return added(q)


class Monotonic(nn.Module):
    """Mixer of QMIX, whose weights are hypernetworks of the state.

    Args:
        agents: N.
        state: S, width of the state.
        embed: E.
        hidden: hidden width of the networks that make W1 and wf.
    """

    def __init__(self, agents: int, state: int, embed: int, hidden: int = 64) -> None:
        super().__init__()
        self.agents, self.embed = agents, embed
        self.w1 = nn.Sequential(nn.Linear(state, hidden), nn.ReLU(), nn.Linear(hidden, agents * embed))
        self.b1 = nn.Linear(state, embed)
        self.wf = nn.Sequential(nn.Linear(state, hidden), nn.ReLU(), nn.Linear(hidden, embed))
        self.v = nn.Sequential(nn.Linear(state, embed), nn.ReLU(), nn.Linear(embed, 1))

    def forward(self, q: Tensor, state: Tensor) -> Tensor:
        """(B, N) and (B, S) -> (B,)."""
        w1 = self.w1(state).view(-1, self.agents, self.embed)
        return monotonic(q, w1, self.b1(state), self.wf(state), self.v(state)[:, 0])


def mixer(kind: Kind, agents: int, state: int, embed: int) -> nn.Module:
    """Make the mixer of an algorithm."""
    return AdditiveMixer() if kind == "sum" else Monotonic(agents, state, embed)


class AgentValues(nn.Module):
    """Q_i of every candidate action, with one network per agent, or one for all.

    Args:
        agents: N.
        features: F, width of an action's features, which include the agent's conversation.
        hidden: width of the two hidden layers.
        shared: True for one network of all agents, which must differ by their conversations.
        linear: True for a single linear layer with weights 0: on one-hot features a table.
    """

    def __init__(self, agents: int, features: int, hidden: int, *, shared: bool, linear: bool) -> None:
        super().__init__()
        self.agents = agents
        self.nets = nn.ModuleList(_net(features, hidden, linear) for _ in range(1 if shared else agents))

    def forward(self, candidates: Tensor) -> Tensor:
        """(B, N, A, F) -> (B, N, A)."""
        if len(self.nets) == 1:
            one: Tensor = self.nets[0](candidates)[..., 0]
            return one
        parts = [net(candidates[:, n])[..., 0] for n, net in enumerate(self.nets)]
        return torch.stack(parts, dim=1)


def _net(features: int, hidden: int, linear: bool) -> nn.Module:
    if linear:
        table = nn.Linear(features, 1, bias=False)
        nn.init.zeros_(table.weight)
        return table
    return nn.Sequential(
        nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
    )
