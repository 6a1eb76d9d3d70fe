"""Factored values: action values of the agents, mixer, target networks, and their update."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from palaver.agents.llm.model.load import pick_device
from palaver.core import stable_seed
from palaver.trainers.config.mixer import MixerConfig
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.value_decomposition.mixers import AgentValues, Kind, mixer
from palaver.trainers.value_decomposition.replay import DecisionFeatures, Replay, TransitionBatch
from palaver.trainers.value_decomposition.targets import greedy, picked, td_loss, td_target

MAX_GRAD_NORM = 10.0


@dataclass(frozen=True, slots=True)
class Shape:
    """Shapes of the networks.

    Attributes:
        agents: N.
        features: F, of an action with its conversation.
        state: S.
        linear: True if the features are one-hot, so that a linear layer is a table.
        shared: True if all agents have one network.
    """

    agents: int
    features: int
    state: int
    linear: bool
    shared: bool


@dataclass(frozen=True, slots=True)
class MixStats:
    """Means over the updates of a step.

    Attributes:
        td_loss: mean squared TD error of Q_tot.
        q_tot: mean value of the replayed joint actions.
        target_gap: mean absolute difference of their values by the target and the live network.
        grad_norm: before clipping.
        updates: number of updates; 0 until the replay holds a batch.
        replay: joint steps in the replay.
    """

    td_loss: float = 0.0
    q_tot: float = 0.0
    target_gap: float = 0.0
    grad_norm: float = 0.0
    updates: int = 0
    replay: int = 0


class Networks(nn.Module):
    """Q_i of each agent, and the mixer."""

    def __init__(self, values: AgentValues, mixer: nn.Module) -> None:
        super().__init__()
        self.values, self.mixer = values, mixer

    def forward(self, scene: DecisionFeatures, chosen: Tensor) -> Tensor:
        """Q_tot (B,) of the chosen actions (B, N)."""
        q = picked(self.values(scene.candidates), chosen, scene.allowed)
        q_tot: Tensor = self.mixer(q, scene.state)
        return q_tot


class FactoredValues:
    """Q_i and their mixer.

    They take and return tensors in host memory, and compute on `algorithm.mixer.device`.

    Args:
        config: the section `algorithm.mixer`.
        kind: kind of the mixer.
        shape: shapes of the networks.
        seed: seed of their initial weights.

    Raises:
        PolicyError: their device is not here.
    """

    def __init__(self, config: MixerConfig, kind: Kind, shape: Shape, seed: int) -> None:
        self.config, self.device = config, pick_device(config.device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stable_seed(seed, "value mixing"))
            values = AgentValues(shape.agents, shape.features, config.hidden, shared=shape.shared, linear=shape.linear)
            mixing = mixer(kind, shape.agents, shape.state, config.embed)
        self.live = Networks(values, mixing).to(self.device)
        self.target = copy.deepcopy(self.live).requires_grad_(False)
        self.updates = 0
        parameters = list(self.live.parameters())
        self.optimizer: torch.optim.Optimizer = (
            torch.optim.RMSprop(parameters, lr=config.lr, alpha=0.99, eps=1e-5)
            if config.optimizer == "rmsprop"
            else torch.optim.Adam(parameters, lr=config.lr)
        )

    def values(self, candidates: Tensor) -> Tensor:
        """Q_i of candidates (B, N, A, F) as (B, N, A), without gradient."""
        with torch.no_grad():
            values: Tensor = self.live.values(candidates.to(self.device))
        return values.cpu()

    def total(self, q: Tensor, state: Tensor) -> Tensor:
        """Q_tot (B,) of values (B, N) in states (B, S), without gradient."""
        with torch.no_grad():
            q_tot: Tensor = self.live.mixer(q.to(self.device), state.to(self.device))
        return q_tot.cpu()

    def learn(self, replay: Replay, seed: int) -> MixStats:
        """Make the updates of one training step, on batches drawn by `seed`.

        Raises:
            NumericalError: a loss or gradient is not finite.
        """
        if len(replay) < self.config.batch:
            return MixStats(replay=len(replay))
        generator, updates = torch.Generator().manual_seed(seed), self.config.updates
        stats = torch.tensor([self.update(replay.sample(self.config.batch, generator)) for _ in range(updates)])
        loss, q_tot, gap, norm = stats.mean(dim=0).tolist()
        return MixStats(loss, q_tot, gap, norm, updates, len(replay))

    def update(self, batch: TransitionBatch) -> tuple[float, float, float, float]:
        """Make one optimiser step and update the targets; return loss, mean Q_tot, gap, grad norm.

        Raises:
            NumericalError: the loss or its gradient is not finite; the weights are as before.
        """
        batch = batch.to(self.device)
        q_tot = self.live(batch.scene, batch.chosen)
        with torch.no_grad():
            best = greedy(self.live.values(batch.then.candidates), batch.then.allowed)
            following = self.target(batch.then, best)  # Double Q-learning: chosen by the live values
            gap = (self.target(batch.scene, batch.chosen) - q_tot.detach()).abs().mean()
        loss = td_loss(q_tot, td_target(batch.reward, batch.goes_on, following))
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        norm = nn.utils.clip_grad_norm_(self.live.parameters(), MAX_GRAD_NORM)
        if not bool(torch.isfinite(loss) & torch.isfinite(norm)):
            raise NumericalError("the loss of the mixed values is not finite", [])
        self.optimizer.step()
        self.updates += 1
        if self.updates % self.config.target_every == 0:
            self.target.load_state_dict(self.live.state_dict())
        return loss.item(), q_tot.mean().item(), gap.item(), norm.item()

    def state_dict(self) -> dict[str, Any]:
        """Weights, targets, optimiser and the number of updates."""
        return {
            "live": self.live.state_dict(),
            "target": self.target.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.live.load_state_dict(state["live"])
        self.target.load_state_dict(state["target"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.updates = state["updates"]
