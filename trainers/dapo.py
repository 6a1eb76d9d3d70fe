"""DAPO: decoupled clip and dynamic sampling policy optimisation. Yu et al., arXiv 2503.14476.

    L_i = -1/(sum_g |a^(g)|) sum_g sum_t min(rho A, clip(rho, 1 - low, 1 + high) A)          A of GRPO

Differs from GRPO in four things: the upper bound is the larger one, tokens weigh alike, tasks whose samples are all
worth the same are replaced by others, and texts near the limit of tokens are punished (equation 13). There is no KL
penalty. The name sets the bounds 0.2 and 0.28, `aggregate: token` and the 16 updates of each rollout (section 4.1).
"""

from __future__ import annotations

from dataclasses import replace

from palaver.trainers.grpo import GRPO

DAPO = replace(GRPO, name="dapo", paper="arXiv 2503.14476", alone=False)
