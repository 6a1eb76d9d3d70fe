"""The losses of cloning, one equation each, and their sum with its metrics.

B battles of S decisions with A slots; what is unknown is masked. A slot of `MISSING` (-1) gives the policy no gradient,
padding gives none at all.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from palaver.trainers.behaviour_cloning.config import BCConfig
from palaver.trainers.behaviour_cloning.students import StudentOutputs

ILLEGAL = -1e9  # finite, so that a row without a legal slot (padding) has a finite gradient


def log_policy(scores: Tensor, mask: Tensor) -> Tensor:
    """log pi (..., A) over the legal actions, from scores (..., A).

    Scores of illegal actions (mask False) count as -1e9.
    """
    return scores.float().masked_fill(~mask, ILLEGAL).log_softmax(-1)


def taken(logp: Tensor, slot: Tensor) -> Tensor:
    """log pi of what was played, (...): of logp (..., A) at slot (...), 0 where it is missing."""
    return logp.gather(-1, slot.clamp_min(0)[..., None])[..., 0].masked_fill(slot < 0, 0.0)


def advised(logp: Tensor, advice: Tensor) -> Tensor:
    """sum_a q(a) log pi(a), (...): minus the cross-entropy.

    Of logp (..., A) to a coach's q (..., A). It is learnt as what the coach played is (Ross, Gordon and Bagnell, A
    Reduction of Imitation Learning and Structured Prediction to No-Regret Online Learning, 2011), with q for the one
    action. 0 where q is, for there is no label.
    """
    return (advice * logp.masked_fill(advice == 0, 0.0)).sum(-1)


def weights(
    kind: Literal["clone", "filter", "weigh"],
    advantage: Tensor,
    beta: float = 1.0,
    low: float = 0.0,
    high: float = 100.0,
) -> Tensor:
    """f(A) of E[f(A) log pi(a | s)], in the shape of A.

    clone: 1, behaviour cloning. filter: 1{A > 0}, and weigh: exp(beta A) within [low, high]: the two forms of critic
    regularised regression (Wang et al., Critic Regularized Regression, 2020; the second is also advantage
    weighted regression, Peng et al. 2019, with 1 / beta for its temperature), as they were used on
    battles (Grigsby et al., Human-Level Competitive Pokémon via Scalable Offline RL with Transformers, 2025).
    """
    if kind == "clone":
        return torch.ones_like(advantage)
    if kind == "filter":
        return (advantage > 0).to(advantage)
    return (beta * advantage).clamp_max(80.0).exp().clamp(low, high)  # exp(80) is still finite in single precision


def policy_loss(logp: Tensor, weight: Tensor, known: Tensor) -> Tensor:
    """-sum f(A) log pi(a | s) / n over the n decisions that are known.

    All arguments are (B, S). The loss is 0 where none is known.
    """
    return -(logp * weight * known).sum() / known.sum().clamp_min(1)


def entropy(logp: Tensor, mask: Tensor) -> Tensor:
    """-sum_a pi(a) log pi(a) over legal slots, (...), of logp (..., A)."""
    return -(logp.exp() * logp.masked_fill(~mask, 0.0)).sum(-1)


def returns(reward: Tensor, real: Tensor, discount: float) -> Tensor:
    """G_t = r_t + gamma G_{t+1}, (B, S), of rewards (B, S); 0 in padding."""
    return traced(reward, torch.zeros_like(reward), real, discount, 1.0)


def traced(reward: Tensor, value: Tensor, real: Tensor, discount: float, trace: float) -> Tensor:
    """Lambda-returns G_t = r_t + gamma ((1 - lambda) V_{t+1} + lambda G_{t+1}), (B, S).

    0 in padding. Sutton and Barto, Reinforcement Learning, second edition, equation 12.18 for state values; after the
    last decision there is nothing. With lambda = 1 it is the return, with 0 the target of one step.

    Args:
        reward: (B, S) between a decision and the next.
        value: (B, S) of the states V_t in which the decisions were made.
        real: (B, S).
        discount: gamma.
        trace: lambda.
    """
    targets = torch.zeros_like(reward)
    after = reward.new_zeros(reward.shape[0])
    for step in range(reward.shape[1] - 1, -1, -1):
        is_real = real[:, step]
        targets[:, step] = torch.where(is_real, reward[:, step] + discount * after, 0.0)
        after = torch.where(is_real, (1 - trace) * value[:, step] + trace * targets[:, step], 0.0)
    return targets


def symlog(x: Tensor) -> Tensor:
    """sign(x) log(|x| + 1) (Hafner et al., 2023).

    D. Hafner et al., Mastering Diverse Domains through World Models.
    """
    return x.sign() * x.abs().log1p()


def symexp(x: Tensor) -> Tensor:
    """The inverse of `symlog`."""
    return x.sign() * x.abs().expm1()


def two_hot(target: Tensor, bins: int, span: float) -> Tensor:
    """Two-hot encoding: weights of the two nearest bins (Hafner et al. 2023), (..., bins).

    The bins are spread evenly over [-span, span]; a target (...) beyond an end is that end.
    """
    position = (target.clamp(-span, span) + span) / (2 * span) * (bins - 1)
    low = position.floor().clamp_max(bins - 2).long()
    high = (position - low)[..., None]
    zero = torch.zeros(*target.shape, bins, device=target.device)
    return zero.scatter(-1, low[..., None], 1 - high).scatter(-1, low[..., None] + 1, high)


def expected(values: Tensor, span: float) -> Tensor:
    """Prediction of a value head (...): win probability sigmoid(v), or with Q bins a return.

    The return is symexp of the mean bin, the inverse of learning symlog with `two_hot`.
    """
    if values.shape[-1] == 1:
        return values[..., 0].float().sigmoid()
    bins = torch.linspace(-span, span, values.shape[-1], device=values.device)
    return symexp((values.float().softmax(-1) * bins).sum(-1))


def value_loss(values: Tensor, target: Tensor, real: Tensor, span: float) -> Tensor:
    """Mean cross-entropy over real decisions of values (B, S, Q) with targets (B, S).

    With one output between the chance of winning and the result; with Q bins between them and symlog(G), two-hot.
    """
    if values.shape[-1] == 1:
        losses = F.binary_cross_entropy_with_logits(values[..., 0].float(), target, reduction="none")
    else:
        hot = two_hot(symlog(target), values.shape[-1], span)
        losses = -(hot * values.float().log_softmax(-1)).sum(-1)
    return (losses * real).sum() / real.sum().clamp_min(1)


def judge(outputs: StudentOutputs, config: BCConfig, span: float) -> tuple[Tensor, dict[str, float]]:
    """The loss, policy + value_coef value - entropy_coef entropy, and its parts.

    Returns:
        the loss, and: `nll` and `accuracy` (share of decisions whose best-scored slot was played, or where a coach
        was asked is its best) of all known decisions, `kept` (share of them that the weights leave above 0), `weight`
        (their mean), `advantage` (the mean of return less value), `value_loss`, `entropy`, `decisions`; sums are means
        over decisions. What a coach has advised counts instead of what was played, and with weight 1.
    """
    logp = log_policy(outputs.scores, outputs.mask)
    asked = outputs.advice.sum(-1) > 0
    known = ((outputs.slot >= 0) | asked) & outputs.real
    best = torch.where(asked, outputs.advice.argmax(-1), outputs.slot)
    learnt = torch.where(asked, advised(logp, outputs.advice), taken(logp, outputs.slot))
    weight, value_metrics = torch.ones_like(learnt), {}
    value = learnt.new_zeros(())
    if outputs.values is not None:
        reward, discount = _reward_and_discount(outputs, config)
        target = returns(reward, outputs.real, discount)
        predicted = expected(outputs.values.detach(), span)
        led = target if config.trace == 1 else traced(reward, predicted, outputs.real, discount, config.trace)
        advantage = led - predicted
        weight = weights(config.loss, advantage, config.beta, *config.clip).masked_fill(asked, 1.0)
        value = value_loss(outputs.values, target, outputs.real, span)
        value_metrics = {"value_loss": value, "advantage": _mean(advantage, known)}
    spread = _mean(entropy(logp, outputs.mask), known)
    loss = policy_loss(learnt, weight, known) + config.value_coef * value - config.entropy * spread
    right = (logp.detach().argmax(-1) == best).float()
    metrics = {
        "loss": loss,
        "nll": -_mean(learnt, known),
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
    last = outputs.real & ~F.pad(outputs.real[:, 1:], (0, 1))
    return last * outputs.result[:, None], 1.0


def _mean(numbers: Tensor, known: Tensor) -> Tensor:
    return (numbers * known).sum() / known.sum().clamp_min(1)
