"""Loss and metrics of a batch of scored battles."""

from __future__ import annotations

import torch
from torch import Tensor

from palaver.trainers.behaviour_cloning import losses
from palaver.trainers.behaviour_cloning.config import BCConfig
from palaver.trainers.behaviour_cloning.students import StudentOutputs


def judge(outputs: StudentOutputs, config: BCConfig, span: float) -> tuple[Tensor, dict[str, float]]:
    """The loss, policy + value_coef value - entropy_coef entropy, and its parts.

    Returns:
        the loss, and: `nll` and `accuracy` (share of decisions whose best-scored slot was played, or where a coach
        was asked is its best) of all known decisions, `kept` (share of them that the weights leave above 0), `weight`
        (their mean), `advantage` (the mean of return less value), `value_loss`, `entropy`, `decisions`; sums are means
        over decisions. What a coach has advised counts instead of what was played, and with weight 1.
    """
    logp = losses.log_policy(outputs.scores, outputs.mask)
    advised = outputs.advice.sum(-1) > 0
    known = ((outputs.slot >= 0) | advised) & outputs.real
    best = torch.where(advised, outputs.advice.argmax(-1), outputs.slot)
    taken = torch.where(advised, losses.advised(logp, outputs.advice), losses.taken(logp, outputs.slot))
    weight, value_metrics = torch.ones_like(taken), {}
    value = taken.new_zeros(())
    if outputs.values is not None:
        reward, discount = _reward_and_discount(outputs, config)
        target = losses.returns(reward, outputs.real, discount)
        predicted = losses.expected(outputs.values.detach(), span)
        led = target if config.trace == 1 else losses.traced(reward, predicted, outputs.real, discount, config.trace)
        advantage = led - predicted
        weight = losses.weights(config.loss, advantage, config.beta, *config.clip).masked_fill(advised, 1.0)
        value = losses.value_loss(outputs.values, target, outputs.real, span)
        value_metrics = {"value_loss": value, "advantage": _mean(advantage, known)}
    spread = _mean(losses.entropy(logp, outputs.mask), known)
    loss = losses.policy_loss(taken, weight, known) + config.value_coef * value - config.entropy * spread
    right = (logp.detach().argmax(-1) == best).float()
    metrics = {
        "loss": loss,
        "nll": -_mean(taken, known),
        "accuracy": _mean(right, known),
        "weight": _mean(weight, known),
        "kept": _mean((weight > 0).float(), known),
        "entropy": spread,
        "decisions": known.sum(),
        **value_metrics,
    }
    return loss, {name: float(metric.detach()) for name, metric in metrics.items()}


def faulty(outputs: StudentOutputs) -> list[int]:
    """The battles of the batch whose scores or values are not finite."""
    parts = [outputs.scores] + ([] if outputs.values is None else [outputs.values])
    bad = torch.stack([~tensor.isfinite().flatten(1).all(1) for tensor in parts]).any(0)
    return [int(n) for n in bad.nonzero()[:, 0]]


def _reward_and_discount(outputs: StudentOutputs, config: BCConfig) -> tuple[Tensor, float]:
    """Rewards (B, S) and discount of the value head's target.

    The battle's result is a reward at its end.
    """
    if config.value == "return":
        return outputs.reward, config.discount
    last = outputs.real & ~torch.nn.functional.pad(outputs.real[:, 1:], (0, 1))
    return last * outputs.result[:, None], 1.0


def _mean(numbers: Tensor, known: Tensor) -> Tensor:
    return (numbers * known).sum() / known.sum().clamp_min(1)
