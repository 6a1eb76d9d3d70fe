"""Targets of values. One function is one equation. Axes: B joint steps, N agents, A actions."""

from __future__ import annotations

import torch
from torch import Tensor


def greedy(q: Tensor, allowed: Tensor) -> Tensor:
    """argmax over the allowed actions; 0 for an agent that has none.

    (B, N, A), (B, N, A) -> (B, N).
    """
    return q.masked_fill(~allowed, -torch.inf).argmax(dim=-1)


def picked(q: Tensor, chosen: Tensor, allowed: Tensor) -> Tensor:
    """Values of chosen actions, 0 for an agent that may not act.

    (B,N,A), (B,N), (B,N,A) -> (B,N).
    """
    chosen_q = q.gather(-1, chosen[..., None])[..., 0]
    return torch.where(allowed.any(dim=-1), chosen_q, torch.zeros_like(chosen_q))


def td_target(reward: Tensor, goes_on: Tensor, following: Tensor) -> Tensor:
    """y = r + gamma Q_tot'(s', argmax Q(s', .)), (B,) each.

    Double Q-learning (arXiv 1509.06461): the argmax is that of the live values, and Q_tot' is the target's.

    Args:
        reward: reward of the team.
        goes_on: gamma, or 0 if the episode ended.
        following: the target network's value of the next scene.
    """
    return reward + goes_on * following


def td_loss(q_tot: Tensor, target: Tensor) -> Tensor:
    """() mean of (y - Q_tot)^2 over joint steps.

    QMIX, arXiv 1803.11485, equation 6, divided by the batch.
    """
    return (target.detach() - q_tot).square().mean()


def epsilon(first: float, last: float, steps: int, step: int) -> float:
    """Probability of a random action in step 1, 2, ...

    It is linear from `first` to `last` in `steps`.

    >>> [round(epsilon(1.0, 0.2, 3, step), 2) for step in (1, 2, 3, 9)]
    [1.0, 0.6, 0.2, 0.2]
    """
    done = min(1.0, (step - 1) / max(1, steps - 1)) if steps > 1 else 1.0
    return first + (last - first) * done
