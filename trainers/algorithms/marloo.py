"""MARLOO: multi-agent REINFORCE leave-one-out.

Ahmadian et al., arXiv 2402.14740, with the team return.

    A_i^(g) = R^(g) - (1/(G-1)) sum_{h != g} R^(h)  =  G/(G-1) * A_MAGRPO

Differs from MAGRPO in the baseline: the mean of the other samples, which does not contain the sample itself and so
leaves the gradient unbiased. With the same learning rate its step is G/(G-1) times MAGRPO's.
"""

from __future__ import annotations

from dataclasses import replace

from palaver.trainers.algorithms.magrpo import MAGRPO
from palaver.trainers.objectives.advantages import leave_one_out_baseline

MARLOO = replace(MAGRPO, name="marloo", paper="arXiv 2402.14740", baseline=leave_one_out_baseline)
