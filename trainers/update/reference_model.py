"""What a policy is pulled to: weights that stand still, or follow some updates behind.

Scoring with a reference leaves everything as it was: modes of modules, selected adapters, the state of the generators.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from palaver.agents.llm.model.eval_mode import evaluating
from palaver.agents.llm.model.snapshot import Frozen
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.core import ConfigError
from palaver.trainers.config.run import RunConfig


class Reference:
    """A model that stands still, and belongs to others.

    Args:
        opened: yields the model that computes as the reference.
        device: where it computes.
        shared: the model, where it is there for the references alone.
    """

    def __init__(
        self, opened: Callable[[], AbstractContextManager[Any]], device: torch.device, shared: Any = None
    ) -> None:
        self._opened, self.device, self.shared = opened, device, shared

    @contextmanager
    def active(self) -> Iterator[Any]:
        """The model, in evaluation mode and without gradient; afterwards all is as it was."""
        generators = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(generators), torch.no_grad(), self._opened() as model, evaluating(model):
            yield model

    def advance(self, step: int) -> None:
        """Tell it that update `step` of the policy has been made."""

    @property
    def held(self) -> int:
        """Numbers that it alone keeps on its device."""
        return 0

    def state_dict(self) -> dict[str, Any]:
        """What the next step depends on, in host memory."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""


class Copy(Reference):
    """A copy of the policy's weights, which may be taken anew.

    Args:
        frozen: the copy.
        device: where it computes.
        step: the update after which the weights are taken once more; None never does.
        lag: updates that the copy follows the policy behind; 0 lets it stand.
    """

    def __init__(self, frozen: Frozen, device: torch.device, step: int | None = None, lag: int = 0) -> None:
        super().__init__(frozen.active, device)
        self.frozen, self.step, self.lag = frozen, step, lag
        self.ahead: deque[dict[str, Tensor]] = deque()  # weights it will come to, in host memory

    def advance(self, step: int) -> None:
        """Take the weights of the policy, or what they were `lag` updates ago, where it is time."""
        if step == self.step:
            self.frozen.take()
        if self.lag:
            now = _on_host(self.frozen, apart=True)
            self.frozen.take()
            self.ahead.append(_on_host(self.frozen, apart=True))
            self.frozen.load_state_dict(self.ahead.popleft() if len(self.ahead) > self.lag else now)

    @property
    def held(self) -> int:
        """The copy; on a CPU also the weights that it will come to, which are in host memory."""
        copies = 1 + (self.lag if self.device.type == "cpu" else 0)
        return copies * sum(weight.numel() for weight in self.frozen.state_dict().values())

    def state_dict(self) -> dict[str, Any]:
        """All weights it has and will come to."""
        return {"weights": _on_host(self.frozen), "ahead": list(self.ahead)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.frozen.load_state_dict(state["weights"])
        self.ahead = deque(state["ahead"])


def reference_of(policy: LLMPolicy, config: RunConfig, given: Any = None) -> Reference:
    """What `kl.reference` means for a policy as it is now, at the start of the run.

    Args:
        policy: that is pulled.
        config: of the run.
        given: the model of `model:NAME_OR_FOLDER`, which all policies share.

    Raises:
        PolicyError: a stored adapter cannot be read, or is not for the policy's base.
    """
    kind, told = config.kl.named
    if given is not None:
        return Reference(lambda: nullcontext(given), next(given.parameters()).device, given)
    if kind in ("base", "adapter"):
        from palaver.agents.llm.policies.lora_policy import AdapterPolicy

        assert isinstance(policy, AdapterPolicy)  # see contradictions.py
        return Reference(policy.base, policy.device) if kind == "base" else Copy(policy.stored(told), policy.device)
    frozen = policy.freeze()
    if kind == "step":
        return Copy(frozen, policy.device, step=int(told))
    lag = int(told) if kind == "lag" else 0
    return Copy(frozen, policy.device, lag=lag if lag < config.train.steps else 0)  # so far behind it stands still


def refuse_own(config: RunConfig, folder: Path) -> None:
    """Refuse to pull a run to an adapter of its own, which moves, and goes when the checkpoint does.

    Raises:
        ConfigError: `kl.reference: adapter:PATH` lies in the run's folder.
    """
    kind, told = config.kl.named
    if config.kl.coef > 0 and kind == "adapter" and Path(told).expanduser().resolve().is_relative_to(folder.resolve()):
        raise ConfigError(
            f"kl.reference: {told!r} lies in this run's own folder, whose checkpoints come and go: "
            "set kl.reference=step:N or lag:N, or copy the adapter elsewhere"
        )


def held(references: Iterable[Reference | None]) -> int:
    """Numbers that references keep on their devices; what they share counts once."""
    each = [one for one in references if one is not None]
    shared = {id(one.shared): one.shared for one in each if one.shared is not None}
    sizes: list[int] = [p.numel() for model in shared.values() for p in model.parameters()]
    return sum(one.held for one in each) + sum(sizes)


def _on_host(frozen: Frozen, *, apart: bool = False) -> dict[str, Tensor]:
    """The weights in host memory; `apart` from the copy's own, which will change."""
    return {name: weight.detach().to("cpu", copy=apart) for name, weight in frozen.state_dict().items()}
