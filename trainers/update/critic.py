"""Critics: an LM's trunk with a linear value head, read at the last tokens of a sequence.

The input of an `own` critic is the conversation of its agent; that of a `joint` critic the observations and completions
of all, labelled by agent. A value of a completion is read at the last token of that conversation. For values of tokens
the completion is appended, and they are read at as many of the last positions as the completion has tokens
(`token_values.token_reads`). The LM head is never computed, the value head only where a value is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from palaver.agents.llm.model.load import pick_device
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.scoring.logprobs import token_batches
from palaver.agents.llm.scoring.packing import padded
from palaver.core import stable_seed
from palaver.trainers.config.run import RunConfig
from palaver.trainers.objectives.lambda_returns import ValueNorm, value_loss
from palaver.trainers.objectives.token_values import Ids
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.errors import NumericalError

Read = tuple[Ids, int]  # a sequence, and the number of its last positions where values are read


@dataclass(frozen=True, slots=True)
class Samples:
    """Training data of a critic: n sequences with S values, their targets and old values.

    Attributes:
        ids: n token sequences; equal ones are computed once.
        target: (S,) in returns, sequence by sequence.
        old: (S,) in returns, likewise.
        counts: values of each sequence; empty is one each.
    """

    ids: Sequence[Ids]
    target: Tensor
    old: Tensor
    counts: Sequence[int] = ()

    @property
    def reads(self) -> list[Read]:
        """The n sequences, each with the number of its values."""
        return _reads(self.ids, self.counts)

    @property
    def places(self) -> list[range]:
        """The n ranges of S that hold the values of a sequence."""
        counts = [count for _, count in self.reads]
        return [range(end - count, end) for end, count in zip(accumulate(counts), counts, strict=True)]


@dataclass(frozen=True, slots=True)
class CriticStats:
    """Statistics of a critic update.

    Attributes:
        loss: mean over values, of normalised ones where they are normalised.
        grad_norm: before clipping; where the trunk is shared, of the output alone.
        explained: 1 - variance of (target - value) / variance of target, before the update; nan for equal targets.
    """

    loss: float
    grad_norm: float
    explained: float


class Critic:
    """Critic V(conversation).

    Args:
        body: policy whose trunk it starts from, or shares if `critic.model` is `shared`, and whose tokenizer it uses.
        name: name in checkpoints and errors.
        config: config of the run.
        distributed: device and processes.

    Raises:
        PolicyError: the device that `critic.devices` names is not here.
    """

    def __init__(self, body: LLMPolicy, name: str, config: RunConfig, distributed: Distributed) -> None:
        self.body, self.name, self.config, self.distributed = body, name, config.critic, distributed
        device = pick_device(config.critic.devices.get(name, str(body.device)))
        self.trunk = None if config.critic.model == "shared" else body.critic_trunk(name, device)
        width = body.model.config.get_text_config().hidden_size
        self.seed, self.micro_tokens = config.seed, config.train.pass_tokens(device.type)
        self.head = nn.Linear(width, 1, device=device, dtype=torch.float32)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.norm = ValueNorm(config.critic.beta) if config.critic.normalize else None
        self.max_grad_norm = config.optim.max_grad_norm
        self.optimizer = torch.optim.AdamW(
            self.parameters(), lr=config.critic.lr, betas=config.optim.betas, weight_decay=config.optim.weight_decay
        )

    def parameters(self) -> list[nn.Parameter]:
        """Trained parameters: its head, and its trunk unless that is a policy's."""
        return [*(self.trunk.parameters() if self.trunk else ()), *self.head.parameters()]

    @property
    def device(self) -> torch.device:
        """Device of its weights."""
        return self.head.weight.device

    @property
    def size(self) -> int:
        """Number of trained parameters."""
        return sum(p.numel() for p in self.parameters())

    @property
    def shared(self) -> bool:
        """True if the critic shares the policy's trunk."""
        return self.trunk is None

    def values(self, ids: Sequence[Ids], counts: Sequence[int] = ()) -> Tensor:
        """(S,) float64 values in returns, without gradient, sequence by sequence.

        Args:
            ids: n token sequences; equal ones are computed once.
            counts: values of each, read at that many of its last positions; empty is one each.
        """
        reads = _reads(ids, counts)
        known: dict[Read, list[float]] = {}
        with torch.no_grad(), self._reading() as trunk:
            for batch in self._batches(list(dict.fromkeys(reads))):
                value, ends = self._forward(trunk, batch).tolist(), accumulate(count for _, count in batch)
                known |= {read: value[end - read[1] : end] for end, read in zip(ends, batch, strict=True)}
        values = torch.tensor([value for sequence in reads for value in known[sequence]], dtype=torch.float64)
        return self.norm.denormalize(values) if self.norm else values

    def update(self, samples: Samples, step: int) -> CriticStats:
        """Train for `critic.epochs` over the samples, with one optimiser step per minibatch.

        Raises:
            NumericalError: the loss or its gradient is not finite; the weights are as before that minibatch.
        """
        self.take_in(samples)
        for epoch in range(self.config.epochs):
            generator = torch.Generator().manual_seed(stable_seed(self.seed, self.name, step, epoch))
            order = torch.randperm(len(samples.ids), generator=generator)
            for minibatch in order.tensor_split(self.config.minibatches):
                if not self.distributed.all_sum(float(len(minibatch)))[0]:
                    continue  # on every process alike: they must take the same number of steps
                self.learn(chosen_samples(samples, minibatch.tolist()))
        return self.stats(samples)

    def take_in(self, samples: Samples) -> None:
        """Begin an update: move the normalisation of targets, once per batch of rollouts."""
        self.losses, self.grad_norm = list[float](), 0.0
        if self.norm:
            sums = float(samples.target.sum()), float(samples.target.square().sum()), float(len(samples.target))
            self.norm.update(*self.distributed.all_sum(*sums))

    def learn(self, samples: Samples) -> None:
        """Make one optimiser step; of the head alone where the trunk is shared."""
        self.losses.append(self.backward(samples))
        self.grad_norm = self.step()

    def stats(self, samples: Samples) -> CriticStats:
        """Statistics of an update, of these samples."""
        explained = _explained(samples.target, samples.old)
        return CriticStats(sum(self.losses) / max(1, len(self.losses)), self.grad_norm, explained)

    def backward(self, samples: Samples) -> float:
        """Add the gradient of the mean loss over the samples of all processes, and return that mean.

        Raises:
            NumericalError: the loss is not finite, on any process.
        """
        target, old = samples.target.float(), samples.old.float()
        if self.norm:
            target, old = self.norm.normalize(target), self.norm.normalize(old)
        known = torch.stack([target, old])
        places: dict[Read, list[range]] = {}
        for read, span in zip(samples.reads, samples.places, strict=True):
            places.setdefault(read, []).append(span)
        total_count = max(1.0, self.distributed.all_sum(float(len(target)))[0])
        scale = (1.0 if not self.shared else self.config.coef) / total_count
        costs: list[Tensor] = []
        with self._reading() as trunk:
            for batch in self._batches(list(places)):
                value, ends = self._forward(trunk, batch), accumulate(count for _, count in batch)
                row = [
                    at for end, read in zip(ends, batch, strict=True) for _ in places[read] for at in _last(end, read)
                ]
                indices = [at for read in batch for span in places[read] for at in span]
                targets, olds = known[:, indices].to(self.device)  # chosen in host memory, moved together
                cost = value_loss(value[row], targets, olds, self.config.clip, self.config.huber).sum()
                self.distributed.accelerator.backward(cost * scale)
                costs.append(cost.detach())
        loss = 0.0
        for number in torch.stack(costs).tolist() if costs else ():  # read at once: to read is to wait for a GPU
            loss += number
        faults, summed = self.distributed.all_sum(float(not math.isfinite(loss)), loss)
        if faults:
            self.optimizer.zero_grad(set_to_none=True)
            raise NumericalError(f"the loss of the critic {self.name!r} is not finite", [])
        return summed / total_count

    def step(self) -> float:
        """Make one optimiser step, and return the gradient's norm before clipping."""
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        norm = self.distributed.clip_grad_norm(parameters, self.max_grad_norm)
        if not math.isfinite(norm):
            self.optimizer.zero_grad(set_to_none=True)
            raise NumericalError(f"the gradient of the critic {self.name!r} is not finite", [])
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def state_dict(self) -> dict[str, Any]:
        """State of weights, optimiser and normalisation."""
        return {
            "head": self.head.state_dict(),
            "trunk": self.trunk.state_dict() if self.trunk else {},
            "optimizer": self.optimizer.state_dict(),
            "norm": [self.norm.m, self.norm.q, self.norm.d] if self.norm else [],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.head.load_state_dict(state["head"])
        if self.trunk:
            self.trunk.load_state_dict(state["trunk"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.norm:
            self.norm.m, self.norm.q, self.norm.d = state["norm"]

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """Context with the decoder that is this critic's trunk."""
        if self.trunk:
            with self.trunk.active() as trunk:
                yield trunk
        else:
            with self.body.active() as model:
                yield model.base_model

    def _forward(self, trunk: Any, batch: Sequence[Read]) -> Tensor:
        """(S,) predictions, normalised if `norm` is set; causal attention ignores right padding."""
        device = self.device
        ids = torch.from_numpy(padded([ids for ids, _ in batch])).to(device)
        row = torch.from_numpy(np.repeat(np.arange(len(batch)), [count for _, count in batch])).to(device)
        position = torch.tensor([at for read in batch for at in _last(len(read[0]), read)], device=device)
        with self.distributed.autocast():
            hidden = trunk(input_ids=ids, use_cache=False)[0]
        values: Tensor = self.head(hidden[row, position].float())[:, 0]
        return values

    def _batches(self, reads: list[Read]) -> list[list[Read]]:
        """Batches, long sequences first, of at most `micro_tokens` padded tokens (or one sequence)."""
        ordered = sorted(reads, key=lambda read: (-len(read[0]), read))
        return list(token_batches(ordered, [len(read[0]) for read in ordered], self.micro_tokens))


def _reads(ids: Sequence[Ids], counts: Sequence[int]) -> list[Read]:
    return list(zip(ids, counts or [1] * len(ids), strict=True))


def _last(end: int, read: Read) -> range:
    """Positions of the values of a sequence that ends before `end`."""
    return range(end - read[1], end)


def chosen_samples(samples: Samples, chosen: Sequence[int]) -> Samples:
    """Training data of these sequences alone."""
    reads, places = samples.reads, samples.places
    flat = [position for index in chosen for position in places[index]]
    counts = [reads[index][1] for index in chosen]
    return Samples([samples.ids[index] for index in chosen], samples.target[flat], samples.old[flat], counts)


def _explained(target: Tensor, value: Tensor) -> float:
    if len(target) < 2 or float(target.var()) < 1e-12:
        return math.nan
    return 1.0 - float((target - value).var() / target.var())
