"""AT-GRPO: agent- and turn-wise grouped policy optimisation. Zhao et al., arXiv 2510.11062.

    R_i = r_team + r_i        A_i^(g) = (R_i^(g) - mean_h R_i^(h)) / std_h R_i^(h)        loss of PPO

A group is what one agent said at one turn in answer to one prompt: every turn G candidates are sampled in the same
state, and the episode goes on from the best of them. Nobody is paid for what comes after. Differs from MAGRPO in the
credit, the clipped ratio and the settings that the name sets: `turns: best`, `discount: 0` (both the paper's sampling),
`normalize: std`, `std: unbiased` (the divisor of the authors' code).
"""

from __future__ import annotations

from palaver.trainers.algorithm import Algorithm
from palaver.trainers.baselines import minus_mean
from palaver.trainers.credit import both
from palaver.trainers.losses import clipped

ATGRPO = Algorithm("atgrpo", "arXiv 2510.11062", credit=both, baseline=minus_mean, loss=clipped)
