"""Targets of values, and credit of an answer. One function is one equation.

Axes: B or J joint steps, N agents, A actions.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Mix = Callable[[Tensor, Tensor], Tensor]  # (J, N) values, (J, S) states -> (J,) value of the joint action


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


def counterfactual(q: Tensor, allowed: Tensor, chosen: Tensor, state: Tensor, mix: Mix) -> Tensor:
    """Counterfactual advantage D_i = Q_tot(s, a) - (1 / A_i) sum_b Q_tot(s, (b, a_-i)).

    COMA, Foerster et al., arXiv 1705.08926, equation 4, with Q_tot as the critic and the mean over sampled candidates
    in place of the expectation under the policy.

    Args:
        q: (J, N, A) values of all candidates.
        allowed: (J, N, A).
        chosen: (J, N) indices of the answers.
        state: (J, S).
        mix: the mixer.

    Returns:
        (J, N), 0 for an agent that could not act.
    """
    may, chosen_q = allowed.any(dim=-1), picked(q, chosen, allowed)
    base, credits = mix(chosen_q, state), []
    for agent in range(q.shape[1]):
        others = [
            mix(torch.cat([chosen_q[:, :agent], q[:, agent, action, None], chosen_q[:, agent + 1 :]], dim=1), state)
            for action in range(q.shape[2])
        ]
        weight = allowed[:, agent].to(q.dtype)
        mean = (torch.stack(others, dim=1) * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)
        credits.append(torch.where(may[:, agent], base - mean, torch.zeros_like(base)))
    return torch.stack(credits, dim=1)
