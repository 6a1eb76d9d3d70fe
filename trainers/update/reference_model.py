"""Reference models of the KL penalty: fixed weights, or weights that lag behind.

Scoring with a reference has no side effects on modes of modules, selected adapters or random generators.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from palaver.agents.llm.model.inference_copy import FrozenCopy, evaluating
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.core import CheckpointError, ConfigError
from palaver.trainers.config.run import RunConfig


class Reference:
    """A fixed reference model, owned by another object.

    Args:
        opened: yields the reference model.
        device: its device.
        shared: the model, if it is held for the references alone.
    """

    def __init__(
        self, opened: Callable[[], AbstractContextManager[Any]], device: torch.device, shared: Any = None
    ) -> None:
        self._opened, self.device, self.shared = opened, device, shared

    @contextmanager
    def active(self) -> Iterator[Any]:
        """Context with the model in evaluation mode, without gradient; restores all state on exit."""
        generators = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(generators), torch.no_grad(), self._opened() as model, evaluating(model):
            yield model

    def advance(self, step: int) -> None:
        """Called after update `step` of the policy."""

    @property
    def held(self) -> int:
        """Number of weights that it alone holds on its device."""
        return 0

    def state_dict(self) -> dict[str, Any]:
        """State that the next step depends on, in host memory."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""


class Copy(Reference):
    """A copy of the policy's weights, which may be refreshed.

    Args:
        frozen: the copy.
        device: its device.
        step: the update after which the copy is refreshed once; None: never.
        lag: updates by which the copy lags behind the policy; 0: it is fixed.
        every: updates after which the copy is refreshed again and again; 0: never.
    """

    def __init__(
        self, frozen: FrozenCopy, device: torch.device, step: int | None = None, lag: int = 0, every: int = 0
    ) -> None:
        super().__init__(frozen.active, device)
        self.frozen, self.step, self.lag, self.every = frozen, step, lag, every
        self.future_weights: deque[dict[str, Tensor]] = deque()  # in host memory

    def advance(self, step: int) -> None:
        """Refresh the copy with the weights of the policy, or with those of `lag` updates ago."""
        if step == self.step or (self.every and step % self.every == 0):
            self.frozen.take()
        if self.lag:
            now = _on_host(self.frozen, copied=True)
            self.frozen.take()
            self.future_weights.append(_on_host(self.frozen, copied=True))
            self.frozen.load_state_dict(self.future_weights.popleft() if len(self.future_weights) > self.lag else now)

    @property
    def held(self) -> int:
        """Weights of the copy; on a CPU also its future weights, which are in host memory."""
        copies = 1 + (self.lag if self.device.type == "cpu" else 0)
        return copies * sum(weight.numel() for weight in self.frozen.state_dict().values())

    def state_dict(self) -> dict[str, Any]:
        """Current and future weights."""
        return {"weights": _on_host(self.frozen), "ahead": list(self.future_weights)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.frozen.load_state_dict(state["weights"])
        self.future_weights = deque(state["ahead"])


def reference_of(policy: LLMPolicy, config: RunConfig, given: Any = None) -> Reference:
    """Make the reference of a policy from `kl.reference`, at the start of the run.

    Args:
        policy: policy with the KL penalty.
        config: config of the run.
        given: the model of `model:NAME_OR_FOLDER`, which all policies share.

    Raises:
        PolicyError: a stored adapter cannot be read, or is not for the policy's base.
    """
    kind, argument = config.kl.named
    if given is not None:
        return Reference(lambda: nullcontext(given), next(given.parameters()).device, given)
    if kind in ("base", "adapter"):
        from palaver.agents.llm.policies.lora_policy import AdapterPolicy

        assert isinstance(policy, AdapterPolicy)  # see trainers/checks.py
        return Reference(policy.base, policy.device) if kind == "base" else Copy(policy.stored(argument), policy.device)
    frozen = policy.freeze()
    if kind == "step":
        return Copy(frozen, policy.device, step=int(argument))
    if kind == "every":
        return Copy(frozen, policy.device, every=int(argument))
    lag = int(argument) if kind == "lag" else 0
    return Copy(frozen, policy.device, lag=lag if lag < config.train.steps else 0)  # longer than the run: fixed


def restore_reference(reference: Reference, state: Mapping[str, Any] | None, name: str) -> float:
    """Restore the reference of the policy `name` from a checkpoint; return the KL coefficient.

    Raises:
        CheckpointError: the state is missing.
    """
    if not state:
        raise CheckpointError(
            f"the checkpoint lacks the reference of {name!r}, so an older Palaver wrote it; start the run again"
        )
    reference.load_state_dict(state["reference"])
    return float(state["coef"])


def refuse_own(config: RunConfig, folder: Path) -> None:
    """Refuse an adapter of the run's own folder as reference, whose checkpoints come and go.

    Raises:
        ConfigError: `kl.reference: adapter:PATH` lies in the run's folder.
    """
    kind, argument = config.kl.named
    if config.kl.coef == 0 or kind != "adapter":
        return
    if Path(argument).expanduser().resolve().is_relative_to(folder.resolve()):
        raise ConfigError(
            f"kl.reference: {argument!r} lies in this run's own folder, whose checkpoints come and go: "
            "set kl.reference=step:N or lag:N, or copy the adapter elsewhere"
        )


def _on_host(frozen: FrozenCopy, *, copied: bool = False) -> dict[str, Tensor]:
    """Weights in host memory; `copied` forces a copy, for those of `frozen` will change."""
    return {name: weight.detach().to("cpu", copy=copied) for name, weight in frozen.state_dict().items()}
