"""AT-GRPO: agent- and turn-wise grouped policy optimisation. Zhao et al., arXiv 2510.11062.

    R_i = r_team + r_i        A_i^(g) = (R_i^(g) - mean_h R_i^(h)) / std_h R_i^(h)        loss of PPO

A group is the set of one agent's answers at one turn to one prompt. The agents of a turn come one after the other: G
candidates of an agent are compared in one state, and the best by the agent's own reward is kept before the next agent's
are compared. Returns are rewards of one turn. Differs from MAGRPO in the credit, the clipped ratio and the settings
that the name sets: `turns: by_agent`, `discount: 0` (both the paper's sampling), `normalize: std`, `std: unbiased` (the
divisor of the authors' code).

`ATGRPO_TEAM` compares joint actions by the team's reward, all agents at once (`turns: best`): the advantage of an
agent's candidate depends on its partners' candidates.
"""

from __future__ import annotations

from dataclasses import replace

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import group_mean_baseline, mixed_reward
from palaver.trainers.objectives.losses import ppo_clip

ATGRPO = Algorithm("atgrpo", "arXiv 2510.11062", credit=mixed_reward, baseline=group_mean_baseline, loss=ppo_clip)
ATGRPO_TEAM = replace(ATGRPO, name="atgrpo-team")
