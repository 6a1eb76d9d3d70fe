"""A policy with its optimiser: what turns rows of the table into one step of the weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from palaver.agents.llm.logprob import response_logprobs
from palaver.agents.llm.policy import LLMPolicy
from palaver.core import PalaverError
from palaver.trainers.algorithm import Loss
from palaver.trainers.config import OptimConfig, RunConfig
from palaver.trainers.losses import KL, token_weights
from palaver.trainers.table import Table
from palaver.trainers.world import World


class NumericalError(PalaverError):
    """A loss or gradient that is not finite. Carries the rows at fault."""

    def __init__(self, message: str, rows: Sequence[int]) -> None:
        super().__init__(message)
        self.rows = list(rows)


@dataclass(frozen=True, slots=True)
class Stats:
    """What one update did.

    Attributes:
        loss: the weighted sum of token losses, KL included.
        grad_norm: before clipping.
        kl: mean over trained tokens of the estimate that `kl.estimator` names, 0 without a reference.
        drift: largest |log-prob now - log-prob at sampling| over this process's tokens; rounding only on fresh data.
        rows: utterances that paid anything.
        lr: of this step.
    """

    loss: float
    grad_norm: float
    kl: float
    drift: float
    rows: int
    lr: float


def learning_rate(config: OptimConfig, step: int, steps: int) -> float:
    """The rate of step `step` of 1..`steps`: linear warm-up, then constant, or linear or cosine to 0 after the last."""
    if step <= config.warmup:
        return config.lr * step / (config.warmup + 1)
    progress = (step - 1 - config.warmup) / max(1, steps - config.warmup)
    if config.schedule == "linear":
        return config.lr * (1 - progress)
    if config.schedule == "cosine":
        return config.lr * 0.5 * (1 + math.cos(math.pi * progress))
    return config.lr


class Learner:
    """One model, one optimiser, and the agents it speaks for.

    Args:
        policy: whose fp32 weights are trained; its samplers are refreshed after a step.
        agents: who share it.
        config: of the run.
        world: device and processes.
    """

    def __init__(self, policy: LLMPolicy, agents: Sequence[str], config: RunConfig, world: World) -> None:
        self.policy, self.agents, self.config, self.world = policy, tuple(agents), config, world
        self.model: Any = policy.model
        if config.train.gradient_checkpointing:
            _checkpoint_gradients(self.model)
        optim = config.optim
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=optim.lr, betas=optim.betas, weight_decay=optim.weight_decay, fused=True
        )
        self.pass_tokens = config.train.pass_tokens(next(self.model.parameters()).device.type)
        self.reference: Any = None
        if config.kl.coef > 0:
            self.reference = copy.deepcopy(self.model).eval().requires_grad_(False)

    def update(self, table: Table, loss: Loss, step: int) -> Stats:
        """One optimiser step on this policy's rows of the table.

        Agents that share the policy are one batch: gradients are scaled by their utterances together. Rows that pay
        nothing (advantage 0, no KL) are counted in the mean and left out of the pass.

        Raises:
            NumericalError: loss or gradient is not finite; the weights are as before.
        """
        mine = table.rows_of(self.agents)
        lengths = [len(table.utterances[row].token_ids) for row in mine]
        paying = [row for row in mine if self.reference is not None or table.advantage[row] != 0]
        rate = learning_rate(self.config.optim, step, self.config.train.steps)
        rows, tokens, count_paying = map(int, self.world.total(len(mine), sum(lengths), len(paying)))
        if count_paying == 0:
            return Stats(0.0, 0.0, 0.0, 0.0, 0, rate)
        weights = dict(zip(mine, token_weights(lengths, self.config.algorithm.aggregate, rows, tokens), strict=True))
        value, kl, count, drift = self._gradient(table, paying, loss, weights)
        norm = self._step(rate, paying)
        return Stats(value, norm, kl / max(1.0, count), drift, count_paying, rate)

    def _gradient(
        self, table: Table, rows: Sequence[int], loss: Loss, weights: Mapping[int, float]
    ) -> tuple[float, float, float, float]:
        """Leave this process's gradient on the parameters; loss, summed KL and tokens of all, largest drift of its own.

        Raises:
            NumericalError: on every process, where a loss is not finite on one: the others would wait for it forever.
        """
        self.optimizer.zero_grad(set_to_none=True)
        totals = [0.0, 0.0, 0.0]
        drift = 0.0
        fault: NumericalError | None = None
        for batch in micro_batches(table, rows, self.pass_tokens):
            try:
                part, kl, gap = self._backward(table, batch, loss, [weights[row] for row in batch])
            except NumericalError as error:
                fault = error
                break
            tokens = sum(len(table.utterances[row].token_ids) for row in batch)
            totals = [sum(pair) for pair in zip(totals, (part, kl, tokens), strict=True)]
            drift = max(drift, gap)
        faults, value, kl_sum, count = self.world.total(float(fault is not None), *totals)
        if faults:
            raise fault or NumericalError(f"the loss of {self.policy.name!r} is not finite on another process", [])
        return value, kl_sum, count, drift

    def _backward(
        self, table: Table, batch: Sequence[int], loss: Loss, weights: Sequence[float]
    ) -> tuple[float, float, float]:
        """Add one micro-batch's gradient; its loss, summed KL and largest drift."""
        said = [table.utterances[row] for row in batch]
        prompts, answers = [u.prompt_ids for u in said], [u.token_ids for u in said]
        with self.world.autocast():
            logp, mask = response_logprobs(self.model, prompts, answers)
        advantage = table.advantage[list(batch)].to(logp)
        per_token = loss(logp, advantage)
        kl = torch.zeros_like(logp)
        if self.reference is not None:
            with torch.no_grad(), self.world.autocast():
                reference, _ = response_logprobs(self.reference, prompts, answers)
            kl = KL[self.config.kl.estimator](logp, reference)
            per_token = per_token + self.config.kl.coef * kl
        weight = torch.tensor(weights, dtype=logp.dtype, device=logp.device)[:, None] * mask
        value = torch.where(mask.bool(), per_token * weight, 0.0).sum()
        if not bool(torch.isfinite(value)):
            raise NumericalError(f"the loss of {self.policy.name!r} is not finite", batch)
        self.world.accelerator.backward(value)
        kept = mask.bool()
        at_sampling = _padded([u.logprobs for u in said], logp)
        drift = (logp.detach() - at_sampling)[kept].abs().max().item() if kept.any() else 0.0
        return value.item(), kl.detach()[kept].sum().item(), drift

    def _step(self, rate: float, rows: Sequence[int]) -> float:
        parameters = list(self.model.parameters())
        self.world.sum_gradients(parameters)
        limit = self.config.optim.max_grad_norm
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, limit if limit > 0 else math.inf))
        if not math.isfinite(norm):
            raise NumericalError(f"the gradient of {self.policy.name!r} is not finite", rows)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.policy.refresh()
        return norm

    def probe(self, prompt_tokens: int, answer_tokens: int, rows: int) -> None:
        """Run the largest backward pass a step can ask for and throw it away: what does not fit fails at once.

        Prompts differ, so that no computation is shared; Adam's moments are not there yet.

        Args:
            prompt_tokens: of the longest opening.
            answer_tokens: at most.
            rows: utterances of one step, at most.
        """
        count = max(1, min(rows, self.pass_tokens // (prompt_tokens + answer_tokens)))
        prompts = [[row % 2] * prompt_tokens for row in range(count)]
        answers = [[0] * answer_tokens] * count
        end = next(iter(self.model.parameters()))
        with self.world.autocast():
            logp, _ = response_logprobs(self.model, prompts, answers)
            if self.reference is not None:
                with torch.no_grad():
                    response_logprobs(self.reference, prompts, answers)
        torch.autograd.backward(logp.sum() * 0.0)
        self.optimizer.zero_grad(set_to_none=True)
        if end.device.type == "cuda":
            torch.cuda.synchronize(end.device)


def _checkpoint_gradients(model: Any) -> None:
    """Recompute activations in the backward pass, and change nothing else.

    transformers does so only in modules in training mode, where dropout would be on as well: the policy would be
    trained at other log-probs than it was sampled with. So only the modules that ask are switched, without dropout.
    """
    model.gradient_checkpointing_enable()
    for module in model.modules():
        if getattr(module, "gradient_checkpointing", False):
            module.training = True
            for name, value in vars(module).items():
                if "drop" in name and isinstance(value, float):
                    setattr(module, name, 0.0)


def micro_batches(table: Table, rows: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Rows with one prompt together, long prompts first, at most `most_tokens` padded tokens each (or one row)."""
    said = table.utterances
    length = {row: len(said[row].prompt_ids) + len(said[row].token_ids) for row in rows}
    longest = 0
    batch: list[int] = []
    for row in sorted(rows, key=lambda row: (-len(said[row].prompt_ids), said[row].prompt_ids, row)):
        longest = max(longest, length[row])
        if batch and longest * (len(batch) + 1) > most_tokens:
            yield batch
            batch, longest = [], length[row]
        batch.append(row)
    if batch:
        yield batch


def _padded(values: Sequence[Sequence[float]], like: Tensor) -> Tensor:
    """(R, T) of `like`'s shape, zeros where a row is shorter."""
    out = torch.zeros_like(like, requires_grad=False)
    for row, numbers in enumerate(values):
        out[row, : len(numbers)] = torch.tensor(numbers, dtype=like.dtype, device=like.device)
    return out
