"""Advantage Alignment, for agents with rewards of their own. Duque et al., 2406.14662.

    A*_i,t = A_i,t + beta (sum_(k<t) gamma^(t-k) A_i,k) sum_(j != i) A_j,t
    A_i,t  = R_i,t - mean of the other episodes' R_i,t at turn t       R_i,t: discounted reward-to-go of its own rewards

An action that helps another agent is reinforced where the past was better than usual for oneself, and discouraged where
it was worse: reciprocity, without a model of how the other agent learns. The name sets `turns: independent` (chains),
`discount: 0.96` and `beta: 2`, those of the authors' code for language models (arXiv 2511.19405), which takes rewards
that are divided by their largest; here `normalize: batch` divides A.
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import individual_reward, leave_one_out_baseline
from palaver.trainers.objectives.losses import reinforce

ADALIGN = Algorithm(
    "adalign",
    "arXiv 2406.14662",
    credit=individual_reward,
    baseline=leave_one_out_baseline,
    loss=reinforce,
    aligned=True,
)
