"""Worker of a placement: the policies of one host, with all that touches their models.

Arguments and results of its calls are plain data. An error of the user's is returned as a value, so that no transport
needs to know how to carry an exception.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import palaver
from palaver.agents.base.policy import act_batched
from palaver.core import Completion, PalaverError, Request, Sampling
from palaver.trainers.config.placement import workers
from palaver.trainers.config.run import RunConfig
from palaver.trainers.placement.in_process import load_learners, load_samplers
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.run.memory import ModelFacts


@dataclass(frozen=True, slots=True)
class Failure:
    """Error of a call.

    Attributes:
        kind: class of the error.
        message: its message.
        rows: rows at fault of a `NumericalError`.
    """

    kind: type[PalaverError]
    message: str
    rows: tuple[int, ...] = ()

    def error(self) -> PalaverError:
        """The error itself."""
        return NumericalError(self.message, self.rows) if self.kind is NumericalError else self.kind(self.message)


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """Constant facts of a policy on a worker.

    Attributes:
        name: name of the policy.
        agents: agents that it is trained for.
        tokenizer: tokenizer of transformers.
        chat: how conversations are rendered.
        context: maximum number of tokens that the model reads.
        sampling: sampling parameters.
        coef: KL coefficient.
        model: numbers that the memory is estimated from.
        samples: True on a worker that samples with copies of the weights.
    """

    name: str
    agents: tuple[str, ...]
    tokenizer: Any
    chat: str
    context: float
    sampling: Sampling
    coef: float
    model: ModelFacts
    samples: bool = False


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """Setup of a worker.

    Attributes:
        config: config of the run.
        name: name of the worker that trains the policies.
        agents: agents whose policies are on this worker.
        start: checkpoint to start from.
        threads: torch threads.
        paths: folders that modules are imported from.
        samples: True if it samples with copies of the weights that another worker trains.
    """

    config: RunConfig
    name: str
    agents: tuple[str, ...]
    start: Path | None
    threads: int
    paths: tuple[str, ...] = ()
    samples: bool = False

    @property
    def worker(self) -> str:
        """Name of this worker."""
        return f"sampler of {self.name}" if self.samples else self.name

    @property
    def resources(self) -> dict[str, float]:
        """Resources of this worker, as Ray names them."""
        return self.config.placement.resources(self.name, sampler=self.samples)


def worker_setups(
    config: RunConfig, agents: Sequence[str], start: Path | None, threads: int, paths: tuple[str, ...] = ()
) -> list[WorkerSetup]:
    """Setups of the workers of a run: those that train, then samplers if they are apart."""
    placed = workers(config.team, agents)
    setups = [WorkerSetup(config, name, members, start, threads, paths) for name, members in placed.items()]
    return setups + ([replace(setup, samples=True) for setup in setups] if config.placement.apart else [])


def on_host(value: Any) -> Any:
    """The same mappings, lists and tuples with tensors in host memory.

    >>> on_host({"a": [torch.ones(1)], "b": 2})
    {'a': [tensor([1.])], 'b': 2}
    """
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: on_host(item) for key, item in value.items()}
    return type(value)(map(on_host, value)) if type(value) in (list, tuple) else value


class PolicyWorker:
    """Policies of one host with their learners, references, critics and encoders.

    Objects that a call makes are kept under a key, as `critic/joint`.

    Args:
        setup: setup of the worker.
    """

    def __init__(self, setup: WorkerSetup) -> None:
        sys.path += [path for path in setup.paths if path not in sys.path]
        torch.set_num_threads(setup.threads)
        self._setup, self._objects = setup, dict[str, Any]()

    def load(self) -> list[PolicyFacts] | Failure:
        """Load the policies, and return their facts."""
        config, setup = self._setup.config, self._setup
        distributed = Distributed(config.device, config.policy.dtype)
        load = load_samplers if setup.samples else load_learners
        try:
            learners = load(config, palaver.spec(config.env.id), setup.agents, distributed, setup.start)
        except PalaverError as error:
            return Failure(type(error), str(error))
        facts = []
        for learner in learners:
            policy, name = learner.policy, learner.policy.name
            self._objects |= {f"learner/{name}": learner, f"policy/{name}": policy}
            facts.append(
                PolicyFacts(
                    name, learner.agents, policy.tokenizer, policy.options.chat, policy.context, learner.sampling,
                    learner.coef, learner.facts(), setup.samples,
                )
            )  # fmt: skip
        return facts

    def act(self, queries: Sequence[tuple[str, Request]]) -> list[list[Completion]] | Failure:
        """Answer requests of policies, given by name, in one batch."""
        try:
            return act_batched([(self._objects[f"policy/{name}"], request) for name, request in queries])
        except PalaverError as error:
            return Failure(type(error), str(error))

    def sent_weights(self, target: str) -> Any:
        """Version and weights of a policy."""
        return self._objects[target].sent_weights()

    def take_weights(self, target: str, sent: Any) -> None:
        """Give a policy what `sent_weights` returned on the worker that trains it."""
        self._objects[target].take_weights(sent)

    def call(self, target: str, method: str, *arguments: Any, keep: str = "") -> Any:
        """Call a method of an object; return its result, or keep it under the key `keep`."""
        try:
            result = getattr(self._objects[target], method)(*arguments)
        except PalaverError as error:
            return Failure(type(error), str(error), tuple(getattr(error, "rows", ())))
        if not keep:
            return on_host(result)
        self._objects[keep] = result
        return None

    def read(self, target: str, *names: str) -> tuple[Any, ...]:
        """Attributes of an object."""
        return tuple(getattr(self._objects[target], name) for name in names)
