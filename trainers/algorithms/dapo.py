"""DAPO: decoupled clip and dynamic sampling policy optimisation.

Yu et al., arXiv 2503.14476.

    L_i = -1/(sum_g |a^(g)|) sum_g sum_t min(rho A, clip(rho, 1 - low, 1 + high) A)          A of GRPO

Differs from GRPO in four things: the upper bound is the larger one, all tokens have equal weight, tasks whose samples
have equal returns are replaced by others (`algorithm.resample`), and texts near the token limit are penalised
(`algorithm.overlong`, equation 13). There is no KL penalty. The name sets the bounds 0.2 and 0.28, `aggregate: token`,
the 16 updates of each rollout (section 4.1) and 9 rounds of replacement: the authors' script draws 10 batches at most.
The cache of the penalty, 4,096 of 20,480 tokens there, goes with the limit of tokens and is the recipe's.
"""

from __future__ import annotations

from dataclasses import replace

from palaver.trainers.algorithms.grpo import GRPO

DAPO = replace(GRPO, name="dapo", paper="arXiv 2503.14476", alone=False)
