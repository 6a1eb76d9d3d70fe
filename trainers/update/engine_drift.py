"""Check of an engine that generates with a copy of the weights: are they the trained ones?

A transfer of weights can fail without a message. Every token that the engine generated is scored by the policy that is
trained, before it learns from them (by its sampler's copy where the policy learns at the same time):

    drift = mean over tokens of |log pi_engine(token) - log pi_policy(token)|        (temperature 1, whole vocabulary)

Rounding makes it about 1e-6 in fp32 and 0.01 in bf16; other weights make it far larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from palaver.agents.llm.scoring.logprobs import FULL
from palaver.trainers.config.run import RunConfig
from palaver.trainers.rollout.batch import Batch
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.update.learner import Learner

BOUNDS = {"fp32": 1e-4, "bf16": 0.05}  # of the mean drift, by the dtype of generation


def check_engine(batch: Batch, learner: Learner, limit: float, scorer: Learner | None = None) -> tuple[Batch, float]:
    """Check the rows of one policy, and complete their log-probs at sampling.

    Args:
        batch: batch of a rollout.
        learner: of the policy.
        limit: largest mean drift, see `bound`.
        scorer: has the weights that sampled, where the learner may have later ones; None: the learner.

    Returns:
        The batch, where rows without `sample_logprobs` have those of the policy, and the mean drift.

    Raises:
        NumericalError: the drift is above the limit; its rows are those above it.
    """
    rows, scorer = batch.rows_of(learner.agents), scorer or learner
    plain = scorer.log_probs(batch, rows, FULL)
    missing = [row for row in rows if not batch.completions[row].sample_logprobs]
    drawn = scorer.log_probs(batch, missing) if missing else {}
    drifts = {row: _drift(batch.completions[row].logprobs, plain[row]) for row in rows}
    mean = float(torch.cat(list(drifts.values())).mean()) if rows else 0.0
    if not mean <= limit:
        raise NumericalError(
            f"the log-probs of {learner.policy.name!r} in vLLM differ by {mean:.2g} on average from those of the "
            f"trained weights, more than {limit:g}, so it generated with others: set another policy.engine (or raise "
            "vllm.max_drift, if rounding explains it)",
            [row for row, drift in drifts.items() if not float(drift.mean()) <= limit],
        )
    completions = list(batch.completions)
    for row in missing:
        completions[row] = replace(completions[row], sample_logprobs=tuple(drawn[row].tolist()))
    return replace(batch, completions=tuple(completions)), mean


def bound(config: RunConfig) -> float:
    """Largest mean drift of a policy: `vllm.max_drift`, or by the dtype of generation."""
    chosen = config.vllm.max_drift
    return BOUNDS[config.policy.dtype] if chosen is None else chosen


def _drift(engine: Sequence[float], policy: Tensor) -> Tensor:
    """(T,) |difference| of the log-probs of a row."""
    return (torch.tensor(engine, dtype=torch.float64) - policy.double()).abs()
