"""CISPO: clipped importance-sampling-weight policy optimisation. MiniMax, arXiv 2506.13585.

    L_i = -1/(sum_g |a^(g)|) sum_g sum_t sg(min(rho, 1 + high)) A log pi(a_t | ...)          A of GRPO

Differs from DAPO in the loss: the weight of a token is clipped and held fixed, so that no token loses its gradient
(equation 4). There is no lower bound and no KL penalty; dynamic sampling and the penalty of length are DAPO's. The name
sets the 16 updates of each rollout (section 3.1), `aggregate: token`, and DAPO's 9 rounds of replacement. The paper
tunes the upper bound without printing it: the name sets 5, which TRL recommends after ScaleRL (arXiv 2510.13786).
"""

from __future__ import annotations

from dataclasses import replace

from palaver.trainers.algorithms.grpo import GRPO
from palaver.trainers.objectives.losses import cispo

CISPO = replace(GRPO, name="cispo", paper="arXiv 2506.13585", loss=cispo, alone=False)
