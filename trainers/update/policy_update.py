"""Update of one policy: model, optimiser, and the gradient of the loss over its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from palaver.agents.llm.model.load import checkpoint_gradients, compile_layers
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.scoring.logprobs import response_logprobs, response_scores
from palaver.core import Sampling, stable_seed
from palaver.trainers.config.run import OptimConfig, RunConfig
from palaver.trainers.objectives.kl import penalty
from palaver.trainers.objectives.losses import LossInputs, approximate_kl, token_weights
from palaver.trainers.rollout.batch import Batch, sampled
from palaver.trainers.run import checkpoint
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.run.memory import ModelFacts, model_facts
from palaver.trainers.update.critic import Critic, chosen_samples
from palaver.trainers.update.reference_model import Reference, reference_of, restore_reference
from palaver.trainers.update.update_records import (
    NO_CORRECTION,
    Correction,
    MicroBatchSums,
    UpdateInput,
    UpdateStats,
    UpdateSums,
    correction,
    micro_batches,
    padded_rows,
    share_out_masked,
    token_advantages,
    token_places,
)
from palaver.trainers.value_decomposition.encoders import FrozenFeatures

if TYPE_CHECKING:
    from palaver.trainers.update.shards import Shards


def learning_rate_schedule(config: OptimConfig, step: int, steps: int) -> float:
    """Learning rate of `step`: linear warm-up, then constant, linear or cosine decay to 0."""
    if step <= config.warmup:
        return config.lr * step / (config.warmup + 1)
    progress = (step - 1 - config.warmup) / max(1, steps - config.warmup)
    if config.schedule == "linear":
        return config.lr * (1 - progress)
    if config.schedule == "cosine":
        return config.lr * 0.5 * (1 + math.cos(math.pi * progress))
    return config.lr


class PolicyUpdater:
    """One policy with its optimiser and reference, and the agents that it acts for.

    Args:
        policy: its fp32 weights are trained; its samplers are refreshed after an update.
        agents: agents that share the policy.
        config: config of the run.
        distributed: device and processes.
        reference: the model of `kl.reference: model:NAME`, which all share; the other references are made of the policy
            as it is now.
        shards: collective operations of a sharded policy.

    Attributes:
        coef: KL coefficient of this step.
        reference: reference of the KL penalty, or None.
        critic: critic that shares the policy's trunk, or None.
    """

    def __init__(
        self,
        policy: LLMPolicy,
        agents: Sequence[str],
        config: RunConfig,
        distributed: Distributed,
        reference: Any = None,
        shards: Shards | None = None,
    ) -> None:
        self.policy, self.agents, self.config, self.distributed = policy, tuple(agents), config, distributed
        self.model: Any = policy.model
        if config.train.gradient_checkpointing:
            checkpoint_gradients(self.model)
        if config.train.compile:
            compile_layers(self.model)
        optim, self.shards = config.optim, shards
        self.optimizer = torch.optim.AdamW(
            policy.parameters(), lr=optim.lr, betas=optim.betas, weight_decay=optim.weight_decay,
            fused=self.shards is None, foreach=None if self.shards is None else False,
        )  # fmt: skip
        self.pass_tokens = config.train.pass_tokens(next(self.model.parameters()).device.type)
        agent = config.agent(policy.name)
        self.sampling = agent.sampling()  # log-probs are of the distribution that is sampled
        self.reference_sampling = replace(self.sampling, top_p=1.0, top_k=0)
        self.max_tokens = agent.max_tokens
        self.coef = config.kl.coef
        self.reference: Reference | None = reference_of(policy, config, reference) if self.coef > 0 else None
        self.critic: Critic | None = None

    @property
    def sampler(self) -> PolicyUpdater:
        """The learner itself, whose policy samples."""
        return self

    def facts(self) -> ModelFacts:
        """Numbers that the memory of the run is estimated from."""
        reference = () if self.reference is None else (self.reference.held, self.reference.shared)
        return model_facts(self.config, self.policy, *reference)

    def make_critic(self, name: str) -> Critic:
        """Make a critic on a copy of this policy's trunk, or on the trunk itself (`critic.model`)."""
        critic = Critic(self.policy, name, self.config, self.distributed)
        if critic.shared:
            self.critic = critic
        return critic

    def make_features(self) -> FrozenFeatures:
        """Make an encoder with a copy of this policy's weights."""
        return FrozenFeatures(self.policy, self.pass_tokens, self.config.algorithm.mixer)

    def update(self, work: UpdateInput) -> UpdateStats:
        """Update the policy in one or more passes over the rows, of one or more optimiser steps.

        Agents that share the policy are one batch: gradients are scaled by their completions together. Rows without a
        gradient (advantage 0, no KL, no entropy) are counted in the mean and left out of the pass.

        Raises:
            NumericalError: loss or gradient is not finite; the weights are as before that optimiser step.
        """
        a, rate = self.config.algorithm, learning_rate_schedule(self.config.optim, work.step, self.config.train.steps)
        work = replace(work, correction=self._correction(work))
        paying = [row for row in work.rows if self._has_gradient(work, row)]
        count = int(self.distributed.all_sum(len(paying))[0])
        weighed = self._weighed(work.correction)
        stats = UpdateStats(0.0, 0.0, 0.0, work.correction.drift, 0.0, 0, count, rate, 0.0, *weighed)
        if work.trunk is not None and self.critic is not None:
            self.critic.take_in(work.trunk)
        elif count == 0:
            return stats
        weights, total = self._weights(work)
        stepped = False
        try:
            for epoch in range(a.epochs):
                sums, norm = UpdateSums(), 0.0
                for minibatch in self._minibatches(work, epoch):
                    minibatch_sums = self._gradient(work, minibatch, weights, total)
                    norm = self._step(rate, minibatch)
                    stepped = True
                    sums = _sum_of(sums, minibatch_sums)
                tokens = max(1.0, sums.tokens)
                drift = stats.drift if epoch else max(sums.drift, stats.drift)
                stats = UpdateStats(
                    sums.loss, norm, sums.kl / tokens, drift, sums.moved / tokens, epoch + 1, count, rate,
                    sums.entropy / tokens, *weighed,
                )  # fmt: skip
                if a.target_kl is not None and epoch and stats.moved > a.target_kl:
                    break
        finally:
            if stepped:  # also before an error: what generates must not lag behind the weights
                self.policy.refresh()
        return stats

    def log_probs(self, batch: Batch, rows: Sequence[int], sampling: Sampling | None = None) -> dict[int, Tensor]:
        """Row -> (T,) log-probs under the policy, in host memory; default: as it samples."""
        with self.policy.active() as model:
            return self._log_probs(model, batch, rows, sampling or self.sampling)

    def _log_probs(self, model: Any, batch: Batch, rows: Sequence[int], sampling: Sampling) -> dict[int, Tensor]:
        logps: dict[int, Tensor] = {}
        with torch.no_grad(), self.distributed.autocast():
            batches = micro_batches(batch, rows, self.pass_tokens)
            passes = batches if self.shards is None else self.shards.passes(model, batches, sampling)
            for micro_batch in passes:
                completions = [batch.completions[row] for row in micro_batch]
                prompts, answers = [u.prompt_ids for u in completions], [u.token_ids for u in completions]
                logp = response_logprobs(model, prompts, answers, sampling)[0].cpu()  # one wait, not one a row
                logps |= {row: v[: len(answer)] for row, v, answer in zip(micro_batch, logp, answers, strict=True)}
        return logps

    def reference_log_probs(self, batch: Batch, rows: Sequence[int]) -> dict[int, Tensor]:
        """Row -> (T,) log-probs of its completion under the reference; empty without one.

        The reference has the temperature of the policy and the whole vocabulary: KL(pi || pi_ref) is infinite where a
        truncated reference lacks a token.
        """
        if self.reference is None:
            return {}
        with self.reference.active() as model:
            return self._log_probs(model, batch, rows, self.reference_sampling)

    def follow(self, step: int, coef: float) -> None:
        """Set the KL coefficient of the next step, and advance the reference after update `step`."""
        self.coef = coef
        if self.reference is not None:
            self.reference.advance(step)

    def send_weights(self) -> None:
        """Nothing: the policy samples itself."""

    def collect(self) -> None:
        """Gather what a checkpoint holds on the main process; nothing where it is whole."""
        if self.shards is not None:
            self.shards.collect(self.policy, self.optimizer, self.reference)

    def save_optimizer(self, path: Path) -> None:
        """Write the state of the optimiser."""
        checkpoint.save_state(self.optimizer.state_dict() if self.shards is None else self.shards.collected, path)

    def restore(self, folder: Path) -> None:
        """Restore the optimiser and the policy's version from a checkpoint, not its weights."""
        checkpoint.load_optimizer(folder, self.policy.name, self.optimizer)
        if self.shards is not None:
            self.shards.spread(self.optimizer)
        self.policy.version = checkpoint.version_of(folder, self.policy.name)

    def pull_state(self) -> dict[str, Any]:
        """State of the KL coefficient and the reference; empty without a reference."""
        return {} if self.reference is None else {"coef": self.coef, "reference": self.reference.state_dict()}

    def load_pull(self, state: Mapping[str, Any] | None) -> None:
        """Restore what `pull_state` returned."""
        if self.reference is not None:
            self.coef = restore_reference(self.reference, state, self.policy.name)

    def _correction(self, work: UpdateInput) -> Correction:
        """Correction by the weights before any step, for a pass without gradient if in use."""
        a = self.config.algorithm
        if a.old == "sampler" and a.mask is None:
            return NO_CORRECTION
        rows = [row for row in work.rows if a.mask is not None or self._has_gradient(work, row)]
        return correction(self.log_probs(work.batch, rows), sampled(work.batch, rows), a)

    def _weighed(self, correction: Correction) -> tuple[float | None, float | None]:
        """Mean correction weight and share of masked tokens, or None where not in use."""
        a = self.config.algorithm
        if a.old == "sampler" and a.mask is None:
            return None, None
        weight, left, tokens = self.distributed.all_sum(*correction.sums)
        return weight / max(1.0, left), None if a.mask is None else 1 - left / max(1.0, tokens)

    def _has_gradient(self, work: UpdateInput, row: int) -> bool:
        a, kl = self.config.algorithm, self.config.kl
        if a.mask is not None and work.correction.masks(row):
            return False
        in_loss = kl.place == "loss" and kl.coef > 0 and bool(work.reference)
        return in_loss or a.entropy > 0 or row in work.extra or work.batch.teaches(row)

    def _minibatches(self, work: UpdateInput, epoch: int) -> list[list[int]]:
        """Split the rows into the minibatches of a pass; a single minibatch keeps their order."""
        count = self.config.algorithm.minibatches
        if count == 1:
            return [list(work.rows)]
        seed = stable_seed(self.config.seed, "minibatches", self.policy.name, work.step, epoch)
        order = torch.randperm(len(work.rows), generator=torch.Generator().manual_seed(seed))
        return [[work.rows[index] for index in chunk.tolist()] for chunk in order.tensor_split(count)]

    def _weights(self, work: UpdateInput) -> tuple[dict[int, float], float]:
        """Row -> weight of each of its tokens, and the number of rows over all processes."""
        lengths = [len(work.batch.completions[row].token_ids) for row in work.rows]
        steps = 0 if work.batch.action_row is None else int((~work.batch.is_action[list(work.rows)]).sum())
        total, actions = self.distributed.all_sum(float(len(work.rows)), float(len(work.rows) - steps))
        even = [1.0 / max(1.0, actions)] * len(work.rows)
        row_weights = even if work.weight is None else work.weight[list(work.rows)].tolist()
        if self.config.algorithm.mask is not None:
            lengths = [work.correction.length(row, n) for row, n in zip(work.rows, lengths, strict=True)]
            row_weights = share_out_masked(work, row_weights, self.distributed.all_sum)
        by_token = sum(weight * length for weight, length in zip(row_weights, lengths, strict=True))
        weight, tokens = self.distributed.all_sum(sum(row_weights), by_token)
        how, mean = self.config.algorithm.aggregate, weight / tokens if tokens else 0.0
        per_token = token_weights(row_weights, lengths, how, mean, self.max_tokens)
        return dict(zip(work.rows, per_token, strict=True)), total

    def _gradient(
        self, work: UpdateInput, rows: Sequence[int], weights: Mapping[int, float], total: float
    ) -> UpdateSums:
        """Compute this process's gradient of the loss over all rows, estimated from a minibatch.

        Args:
            work: inputs of the step.
            rows: minibatch of this process.
            weights: row -> weight of each of its tokens in the loss over all rows.
            total: rows of all processes.

        Raises:
            NumericalError: the loss is not finite on any process; raised on all, which would otherwise wait for it.
        """
        self.optimizer.zero_grad(set_to_none=True)
        scale = total / max(1.0, self.distributed.all_sum(float(len(rows)))[0])  # a part represents all rows
        paying = [row for row in rows if self._has_gradient(work, row)]
        parts: list[MicroBatchSums] = []
        with self.policy.active() as model:
            batches = micro_batches(work.batch, paying, self.pass_tokens)
            passes = batches if self.shards is None else self.shards.passes(model, batches, self.sampling)
            for micro_batch in passes:
                parts.append(self._backward(model, work, micro_batch, [scale * weights[row] for row in micro_batch]))
        sums, fault = _read_sums(parts)
        local_sums = sums.loss, sums.kl, sums.moved, sums.tokens, sums.entropy
        faults, loss, kl, moved, count, entropy = self.distributed.all_sum(float(fault is not None), *local_sums)
        if faults:
            where = " on another process" if fault is None else ""
            raise NumericalError(f"the loss of {self.policy.name!r} is not finite{where}", fault or [])
        if work.trunk is not None and self.critic is not None:
            places = {row: place for place, row in enumerate(work.rows)}
            self.critic.learn(chosen_samples(work.trunk, [places[row] for row in rows]))
        return UpdateSums(loss, kl, moved, count, sums.drift, entropy)

    def _backward(self, model: Any, work: UpdateInput, rows: Sequence[int], weights: Sequence[float]) -> MicroBatchSums:
        """Add the gradient of one micro-batch; nothing is read from a GPU, which would wait for it."""
        batch, a = work.batch, self.config.algorithm
        completions = [batch.completions[row] for row in rows]
        prompts, answers = [u.prompt_ids for u in completions], [u.token_ids for u in completions]
        with self.distributed.autocast():
            scores = response_scores(model, prompts, answers, self.sampling, entropy=a.entropy > 0)
        logp, mask = scores.logprobs, scores.mask
        sampler = padded_rows([torch.tensor(u.sample_logprobs, dtype=logp.dtype) for u in completions], logp)
        fixed, truncate = work.correction, None if a.old == "learner" else a.truncate
        old = padded_rows([fixed.old[row] for row in rows], logp) if fixed.old else sampler
        kept = mask & padded_rows([fixed.kept[row] for row in rows], logp).bool() if fixed.kept else mask
        places = token_places(work, rows, logp)
        advantage = token_advantages(batch, rows, logp.shape[1]).to(logp)
        if work.extra:
            advantage = advantage + padded_rows([work.extra[row] for row in rows], logp)
        inputs = LossInputs(advantage, old, mask, a.ratio, a.clip, a.dual_clip, truncate, a.correction)
        per_token = work.loss(logp, inputs)
        if fixed.weight:
            per_token = padded_rows([fixed.weight[row] for row in rows], logp) * per_token
        if work.factor is not None:
            per_token = work.factor[list(rows)].to(logp)[:, None] * per_token
        kl = torch.zeros_like(logp)
        if work.reference:
            reference = padded_rows([work.reference[row] for row in rows], logp)
            kl = penalty(logp, reference, mask, self.config.kl)
            if self.config.kl.place == "loss":
                per_token = per_token + self.coef * kl
        spread = torch.zeros_like(logp) if scores.entropy is None else scores.entropy
        per_token = per_token - a.entropy * spread
        weight = torch.tensor(weights, dtype=logp.dtype, device=logp.device)[:, None] * kept
        value = torch.where(kept, per_token * weight, 0.0).sum()
        moved = approximate_kl(logp.detach(), old, kept)
        self.distributed.accelerator.backward(value)
        drift = torch.where(mask, (logp.detach() - sampler).abs(), 0.0).max()
        kl_sum, entropy = (each.detach().flatten()[places].sum() for each in (kl, spread))
        return MicroBatchSums(rows, len(places), torch.stack([value.detach(), kl_sum, moved, drift, entropy]))

    def _step(self, rate: float, rows: Sequence[int]) -> float:
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        clip = self.distributed.clip_grad_norm if self.shards is None else self.shards.clip_grad_norm
        norm = clip(parameters, self.config.optim.max_grad_norm)
        if not math.isfinite(norm):
            raise NumericalError(f"the gradient of {self.policy.name!r} is not finite", rows)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def probe(self, prompt_tokens: int, answer_tokens: int, rows: int) -> None:
        """Run the largest backward pass of a step and discard it, so that lack of memory shows now.

        Prompts differ, so that no computation is shared; Adam's moments are not yet allocated.

        Args:
            prompt_tokens: tokens of the longest initial prompt.
            answer_tokens: maximum tokens of an answer.
            rows: maximum completions of one step.
        """
        count = max(1, min(rows, self.pass_tokens // (prompt_tokens + answer_tokens)))
        prompts, answers = [[row % 2] * prompt_tokens for row in range(count)], [[0] * answer_tokens] * count
        with self.policy.active() as model:
            with self.distributed.autocast():
                logp, _ = response_logprobs(model, prompts, answers, self.sampling)
            torch.autograd.backward(logp.sum() * 0.0)
        if self.reference is not None:
            with self.reference.active() as model, self.distributed.autocast():
                response_logprobs(model, prompts, answers, self.sampling)
        self.optimizer.zero_grad(set_to_none=True)
        if self.policy.device.type == "cuda":
            torch.cuda.synchronize(self.policy.device)


def _read_sums(parts: Sequence[MicroBatchSums]) -> tuple[UpdateSums, Sequence[int] | None]:
    """Read the sums at once, and add them; also the rows of the first loss that is not finite."""
    sums, fault = UpdateSums(), None
    numbers = torch.stack([part.sums for part in parts]).tolist() if parts else []
    for part, (loss, kl, moved, drift, entropy) in zip(parts, numbers, strict=True):
        sums = _sum_of(sums, UpdateSums(loss, kl, moved * part.tokens, part.tokens, drift, entropy))
        fault = part.rows if fault is None and not math.isfinite(loss) else fault
    return sums, fault


def _sum_of(a: UpdateSums, b: UpdateSums) -> UpdateSums:
    drift, entropy = max(a.drift, b.drift), a.entropy + b.entropy
    return UpdateSums(a.loss + b.loss, a.kl + b.kl, a.moved + b.moved, a.tokens + b.tokens, drift, entropy)
