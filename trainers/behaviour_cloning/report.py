"""Loss and metrics of a batch of scored battles."""

from __future__ import annotations

import torch
from torch import Tensor

from palaver.trainers.behaviour_cloning import losses
from palaver.trainers.behaviour_cloning.config import BCConfig
from palaver.trainers.behaviour_cloning.pupils import StudentOutputs


def judge(found: StudentOutputs, config: BCConfig, span: float) -> tuple[Tensor, dict[str, float]]:
    """The loss, policy + value_coef value - entropy_coef entropy, and its parts.

    Returns:
        the loss, and: `nll` and `accuracy` (share of decisions whose best-scored slot was played, or where a coach
        was asked is its best) of all known decisions, `kept` (share of them that the weights leave above 0), `weight`
        (their mean), `advantage` (the mean of return less value), `value_loss`, `entropy`, `decisions`; sums are means
        over decisions. What a coach has advised counts instead of what was played, and with weight 1.
    """
    logp = losses.log_policy(found.scores, found.mask)
    asked = found.advice.sum(-1) > 0
    known = ((found.slot >= 0) | asked) & found.real
    best = torch.where(asked, found.advice.argmax(-1), found.slot)
    taken = torch.where(asked, losses.advised(logp, found.advice), losses.taken(logp, found.slot))
    weight, said = torch.ones_like(taken), {}
    value = taken.new_zeros(())
    if found.values is not None:
        reward, discount = _paid(found, config)
        target = losses.returns(reward, found.real, discount)
        said_before = losses.expected(found.values.detach(), span)
        led = target if config.trace == 1 else losses.traced(reward, said_before, found.real, discount, config.trace)
        advantage = led - said_before
        weight = losses.weights(config.loss, advantage, config.beta, *config.clip).masked_fill(asked, 1.0)
        value = losses.value_loss(found.values, target, found.real, span)
        said = {"value_loss": value, "advantage": _mean(advantage, known)}
    spread = _mean(losses.entropy(logp, found.mask), known)
    loss = losses.policy_loss(taken, weight, known) + config.value_coef * value - config.entropy * spread
    right = (logp.detach().argmax(-1) == best).float()
    told = {
        "loss": loss,
        "nll": -_mean(taken, known),
        "accuracy": _mean(right, known),
        "weight": _mean(weight, known),
        "kept": _mean((weight > 0).float(), known),
        "entropy": spread,
        "decisions": known.sum(),
        **said,
    }
    return loss, {name: float(number.detach()) for name, number in told.items()}


def faulty(found: StudentOutputs) -> list[int]:
    """The battles of the batch whose scores or values are not finite."""
    parts = [found.scores] + ([] if found.values is None else [found.values])
    bad = torch.stack([~part.isfinite().flatten(1).all(1) for part in parts]).any(0)
    return [int(n) for n in bad.nonzero()[:, 0]]


def _paid(found: StudentOutputs, config: BCConfig) -> tuple[Tensor, float]:
    """Rewards (B, S) and discount of what the value head says: the battle's result is a reward of its end."""
    if config.value == "return":
        return found.reward, config.discount
    last = found.real & ~torch.nn.functional.pad(found.real[:, 1:], (0, 1))
    return last * found.result[:, None], 1.0


def _mean(numbers: Tensor, known: Tensor) -> Tensor:
    return (numbers * known).sum() / known.sum().clamp_min(1)
