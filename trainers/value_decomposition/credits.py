"""Credit of an agent's answer. One function is one equation.

Axes: J joint steps, N agents, A actions, R rows.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Mix = Callable[[Tensor, Tensor], Tensor]  # (J, N) values, (J, S) states -> (J,) value of the joint action


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
    may = allowed.any(dim=-1)
    chosen_q = torch.where(may, q.gather(-1, chosen[..., None])[..., 0], torch.zeros_like(q[..., 0]))
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
