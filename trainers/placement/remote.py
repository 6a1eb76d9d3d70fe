"""Handles of policies, learners, critics and encoders on a worker in another process.

Each implements the protocol of its counterpart (`palaver.trainers.update.learner`) by calls of the worker. A batch
travels without its episodes, which no update reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

from torch import Tensor

from palaver.agents.llm.model.chat_template import Renderer
from palaver.core import Completion, Conversation, Request, Sampling, ToolSchema
from palaver.trainers.objectives.token_values import Ids
from palaver.trainers.placement.worker import PolicyFacts
from palaver.trainers.rollout.batch import Batch
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.run.memory import ModelFacts
from palaver.trainers.update.critic import CriticStats, Samples
from palaver.trainers.update.learner import Learner, ValueModel
from palaver.trainers.update.update_records import UpdateInput, UpdateStats
from palaver.trainers.value_decomposition.encoders import Encoder, Pair


class Host(Protocol):
    """Calls of a worker. Each returns its result, or raises the error that the worker met.

    Raises:
        PlacementLostError: the worker is gone, or does not answer in time.
    """

    @property
    def name(self) -> str:
        """Name of the worker."""

    def call(self, target: str, method: str, *arguments: Any, keep: str = "") -> Any:
        """See `PolicyWorker.call`."""

    def read(self, target: str, *names: str) -> tuple[Any, ...]:
        """See `PolicyWorker.read`."""

    def act_batched(self, queries: Sequence[tuple[WorkerPolicy, Request]]) -> list[list[Completion]]:
        """See `palaver.agents.base.policy.act_batched`."""

    def send(self, target: str, other: Any) -> None:
        """Send version and weights of a policy to its copy on another worker of this kind."""


class WorkerPolicy:
    """A language model on a worker; see `palaver.agents.base.policy.LanguageModel`.

    Args:
        host: trains and saves it.
        facts: of the policy.
        sampler: answers with a copy of the weights; None: the host does.

    Attributes:
        device: name of the worker that answers, so that workers answer at the same time.
    """

    def __init__(self, host: Host, facts: PolicyFacts, sampler: Host | None = None) -> None:
        self.name, self.tokenizer, self.context, self._host = facts.name, facts.tokenizer, facts.context, host
        self._sampler = sampler or host
        self._target, self.device = f"policy/{facts.name}", f"worker {self._sampler.name}"
        self._renderer = Renderer(facts.tokenizer, cast(Any, facts.chat))

    @property
    def version(self) -> int:
        """Number of updates of the weights."""
        return int(self._host.read(self._target, "version")[0])

    @property
    def shared_engine(self) -> object:
        """The worker that answers for all its policies in one batch."""
        return self._sampler

    def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """One list per request, one completion per seed."""
        return self._sampler.act_batched([(self, request) for request in requests])

    def render(self, conversation: Conversation, tools: tuple[ToolSchema, ...] = ()) -> list[int]:
        """Prompt ids of a conversation."""
        return self._renderer.ids(conversation, tools)

    def written(self, text: str) -> list[int]:
        """Token ids of an answer that somebody else has written, its end token included."""
        return self._renderer.answer(text)

    def answer_log_probs(
        self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[float]:
        """Log-probability of each answer after its prompt, given as token ids, when sampled so."""
        return list(self._host.call(self._target, "answer_log_probs", prompts, answers, sampling))

    def fits(self, request: Request) -> bool:
        """Return whether the prompt of a request fits the limits of the model."""
        return bool(self._sampler.call(self._target, "fits", request))

    def send(self) -> None:
        """Send version and weights to the worker that answers, if that is another."""
        if self._sampler is not self._host:
            self._host.send(self._target, self._sampler)

    def save(self, folder: Path | str) -> None:
        """Write model and tokenizer; the folder is shared with the worker."""
        self._host.call(self._target, "save", str(Path(folder).absolute()))


class WorkerCritic:
    """A critic on a worker; see `palaver.trainers.update.learner.ValueModel`."""

    def __init__(self, host: Host, name: str, body: WorkerPolicy) -> None:
        self._host, self.name, self.body, self._target = host, name, body, f"critic/{name}"
        self.shared, self.size = host.read(self._target, "shared", "size")

    def values(self, ids: Sequence[Ids], counts: Sequence[int] = ()) -> Tensor:
        """(S,) values, without gradient."""
        return cast(Tensor, self._host.call(self._target, "values", ids, counts))

    def update(self, samples: Samples, step: int) -> CriticStats:
        """Train on the samples."""
        return cast(CriticStats, self._host.call(self._target, "update", samples, step))

    def stats(self, samples: Samples) -> CriticStats:
        """Statistics of an update."""
        return cast(CriticStats, self._host.call(self._target, "stats", samples))

    def state_dict(self) -> dict[str, Any]:
        """State of weights, optimiser and normalisation."""
        return dict(self._host.call(self._target, "state_dict"))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._host.call(self._target, "load_state_dict", state)


class WorkerFeatures(Encoder):
    """An encoder with a policy's weights on a worker."""

    def __init__(self, host: Host, target: str) -> None:
        self._host, self._target = host, target
        self.state, self.action, self.one_hot, self.held = host.read(target, "state", "action", "one_hot", "held")

    def states(self, texts: Sequence[str]) -> Tensor:
        """(n, S)."""
        return cast(Tensor, self._host.call(self._target, "states", texts))

    def actions(self, pairs: Sequence[Pair]) -> Tensor:
        """(n, F)."""
        return cast(Tensor, self._host.call(self._target, "actions", pairs))

    def state_dict(self) -> dict[str, Any]:
        """State of the copy of the weights."""
        return dict(self._host.call(self._target, "state_dict"))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._host.call(self._target, "load_state_dict", state)


def worker_learners(loaded: Sequence[tuple[Host, Sequence[PolicyFacts]]]) -> list[WorkerLearner]:
    """Learners of workers, with their samplers where these are apart, which get the weights now.

    Args:
        loaded: workers with the facts of their policies.
    """
    placed = [(host, facts) for host, policies in loaded for facts in policies]
    samplers = {facts.name: (host, facts) for host, facts in placed if facts.samples}
    learners = [WorkerLearner(host, facts, samplers.get(facts.name)) for host, facts in placed if not facts.samples]
    for learner in learners:
        learner.send_weights()
    return learners


class WorkerLearner:
    """A learner on a worker; see `palaver.trainers.update.learner.Learner`.

    Args:
        host: trains the policy.
        facts: of the policy.
        sampler: host and facts of its sampler, where that is apart.
    """

    def __init__(self, host: Host, facts: PolicyFacts, sampler: tuple[Host, PolicyFacts] | None = None) -> None:
        self.policy, self.agents = WorkerPolicy(host, facts, sampler and sampler[0]), facts.agents
        self.sampling, self.coef = facts.sampling, facts.coef
        self._host, self._facts, self._target = host, facts.model, f"learner/{facts.name}"
        self.sampler: Learner = self
        if sampler is not None:
            self.sampler = WorkerLearner(*sampler)
            both = facts.model.weights + sampler[1].model.weights
            self._facts = replace(facts.model, weights=both)

    def facts(self) -> ModelFacts:
        """Numbers that the memory of the run is estimated from."""
        return self._facts

    def probe(self, prompt_tokens: int, answer_tokens: int, rows: int) -> None:
        """Run the largest backward pass of a step and discard it."""
        self._host.call(self._target, "probe", prompt_tokens, answer_tokens, rows)

    def update(self, work: UpdateInput) -> UpdateStats:
        """Update the policy.

        Raises:
            NumericalError: loss or gradient is not finite.
        """
        try:
            return cast(UpdateStats, self._host.call(self._target, "update", work.own_rows()))
        except NumericalError as error:
            raise NumericalError(str(error), [work.rows[row] for row in error.rows]) from error

    def log_probs(self, batch: Batch, rows: Sequence[int], sampling: Sampling | None = None) -> dict[int, Tensor]:
        """Row -> (T,) log-probs under the policy; default: as it samples."""
        return self._score("log_probs", batch, rows, sampling)

    def reference_log_probs(self, batch: Batch, rows: Sequence[int]) -> dict[int, Tensor]:
        """Row -> (T,) log-probs under the reference; empty without one."""
        return self._score("reference_log_probs", batch, rows)

    def follow(self, step: int, coef: float) -> None:
        """Set the KL coefficient, and advance the reference after update `step`."""
        self.coef = coef
        self._host.call(self._target, "follow", step, coef)

    def send_weights(self) -> None:
        """Send the present weights to the sampler, where it is apart."""
        self.policy.send()

    def make_critic(self, name: str) -> ValueModel:
        """Make a critic on this policy's trunk, or on a copy of it."""
        self._host.call(self._target, "make_critic", name, keep=f"critic/{name}")
        return WorkerCritic(self._host, name, self.policy)

    def make_features(self) -> Encoder:
        """Make an encoder with a copy of this policy's weights."""
        self._host.call(self._target, "make_features", keep="features")
        return WorkerFeatures(self._host, "features")

    def pull_state(self) -> dict[str, Any]:
        """State of the KL coefficient and the reference."""
        return dict(self._host.call(self._target, "pull_state"))

    def load_pull(self, state: Mapping[str, Any] | None) -> None:
        """Restore what `pull_state` returned."""
        self._host.call(self._target, "load_pull", state)
        (self.coef,) = self._host.read(self._target, "coef")

    def collect(self) -> None:
        """Nothing: a worker holds whole models."""

    def save_optimizer(self, path: Path) -> None:
        """Write the state of the optimiser; the folder is shared with the worker."""
        self._host.call(self._target, "save_optimizer", path.absolute())

    def _score(self, method: str, batch: Batch, rows: Sequence[int], *more: Any) -> dict[int, Tensor]:
        found = self._host.call(self._target, method, batch.only(rows), range(len(rows)), *more)
        return {rows[row]: values for row, values in found.items()}
