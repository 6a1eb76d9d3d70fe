"""GSPO: group sequence policy optimisation. Zheng et al., arXiv 2507.18071.

    s^(g) = exp( 1/|a^(g)| sum_t (log pi - log pi_old) )
    L_i = -1/G sum_g min(s A, clip(s, 1 - low, 1 + high) A)          A of GRPO

Differs from GRPO in the ratio: one for the whole text, the geometric mean of those of its tokens, on which the clip
acts. The name sets that (`ratio: turn`), the bounds 3e-4 and 4e-4 and the four minibatches of section 5.1, and GRPO's
normalisation; with `aggregate: mean` each text counts once.
"""

from __future__ import annotations

from dataclasses import replace

from palaver.trainers.algorithms.grpo import GRPO

GSPO = replace(GRPO, name="gspo", paper="arXiv 2507.18071", alone=False)
