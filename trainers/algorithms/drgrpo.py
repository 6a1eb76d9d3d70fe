"""Dr. GRPO: GRPO without its two divisions. Liu et al., arXiv 2503.20783.

    A_i^(g) = R^(g) - mean_h R^(h)
    L_i = -1/G sum_g 1/M sum_t min(rho A, clip(rho, 1 - eps, 1 + eps) A)

with M the maximum tokens of a text. The standard deviation of the group makes questions that are almost always
or almost never solved weigh more, and the mean over a text makes long wrong answers cheap: both are left out. The name
sets what the paper's table 6 states: the constant M (`aggregate: fixed`), no division, clip 0.2, one pass.
"""

from __future__ import annotations

from dataclasses import replace

from palaver.trainers.algorithms.grpo import GRPO

DRGRPO = replace(GRPO, name="dr-grpo", paper="arXiv 2503.20783", alone=False)
