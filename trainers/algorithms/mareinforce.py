"""MAREINFORCE: multi-agent REINFORCE. Williams 1992, with the team return.

    A_i^(g) = R^(g)

Differs from MAGRPO in the baseline: there is none. Unbiased with the most variance; a group of one is enough. With
rewards that are never negative every sampled text is pushed up, the better ones more.
"""

from __future__ import annotations

from dataclasses import replace

from palaver.trainers.algorithms.magrpo import MAGRPO
from palaver.trainers.objectives.advantages import no_baseline

MAREINFORCE = replace(MAGRPO, name="mareinforce", paper="Williams 1992", baseline=no_baseline, needs_group=False)
