"""Calls between the training loop and what touches a model.

The loop, the updater and the advantage estimators use these protocols alone. `PolicyUpdater` and `Critic` implement
them in this process, `palaver.trainers.placement` in others. Arguments and results are plain data: batches, numbers,
texts, tensors in host memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from palaver.agents.base.policy import LanguageModel
from palaver.core import Sampling
from palaver.trainers.objectives.token_values import Ids
from palaver.trainers.rollout.batch import Batch
from palaver.trainers.run.memory import ModelFacts
from palaver.trainers.update.critic import CriticStats, Samples
from palaver.trainers.update.update_records import UpdateInput, UpdateStats
from palaver.trainers.value_decomposition.encoders import Encoder


class ValueModel(Protocol):
    """A critic; see `palaver.trainers.update.critic.Critic`."""

    name: str

    @property
    def body(self) -> LanguageModel:
        """Policy whose tokens it reads."""

    @property
    def shared(self) -> bool:
        """True if it shares the policy's trunk."""

    @property
    def size(self) -> int:
        """Number of trained parameters."""

    def values(self, ids: Sequence[Ids], counts: Sequence[int] = ()) -> Tensor:
        """(S,) values, without gradient, sequence by sequence."""

    def update(self, samples: Samples, step: int) -> CriticStats:
        """Train on the samples."""

    def stats(self, samples: Samples) -> CriticStats:
        """Statistics of an update."""

    def state_dict(self) -> dict[str, Any]:
        """State that the next step depends on."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""


class Learner(Protocol):
    """Updater of one policy; see `palaver.trainers.update.policy_update.PolicyUpdater`.

    Attributes:
        agents: agents that the policy acts for.
        sampling: sampling parameters of the policy.
        coef: KL coefficient of this step.
    """

    agents: tuple[str, ...]
    sampling: Sampling
    coef: float

    @property
    def policy(self) -> LanguageModel:
        """The policy."""

    @property
    def sampler(self) -> Learner:
        """Learner whose weights sample: itself, or a copy (`placement.samplers`)."""

    def facts(self) -> ModelFacts:
        """Numbers that the memory of the run is estimated from."""

    def probe(self, prompt_tokens: int, answer_tokens: int, rows: int) -> None:
        """Run the largest backward pass of a step and discard it."""

    def update(self, work: UpdateInput) -> UpdateStats:
        """Update the policy."""

    def log_probs(self, batch: Batch, rows: Sequence[int], sampling: Sampling | None = None) -> dict[int, Tensor]:
        """Row -> (T,) log-probs under the policy, in host memory; default: as it samples."""

    def reference_log_probs(self, batch: Batch, rows: Sequence[int]) -> dict[int, Tensor]:
        """Row -> (T,) log-probs under the reference, in host memory; empty without one."""

    def follow(self, step: int, coef: float) -> None:
        """Set the KL coefficient, and advance the reference after update `step`."""

    def send_weights(self) -> None:
        """Send the present weights to the sampler, where it is a copy."""

    def make_critic(self, name: str) -> ValueModel:
        """Make a critic on this policy's trunk, or on a copy of it."""

    def make_features(self) -> Encoder:
        """Make an encoder with a copy of this policy's weights."""

    def pull_state(self) -> dict[str, Any]:
        """State of the KL coefficient and the reference."""

    def load_pull(self, state: Mapping[str, Any] | None) -> None:
        """Restore what `pull_state` returned."""

    def collect(self) -> None:
        """Gather what a checkpoint holds on the main process; called on every process."""

    def save_optimizer(self, path: Path) -> None:
        """Write the state of the optimiser."""
