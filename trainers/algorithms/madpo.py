"""MADPO: direct preference optimisation over teams.

DPO is Rafailov et al., arXiv 2305.18290, equation 7.

    L = -log sigmoid(beta h)        h = sum_i [(log pi_i(w) - log ref_i(w)) - (log pi_i(l) - log ref_i(l))]

w and l are two joint actions on one prompt, w the one with the larger team return, and ref the frozen policies that the
run began with (`kl.reference`). beta is `kl.coef`, for DPO solves: most reward, less beta times KL(pi || ref); the name
sets the paper's 0.1. Pairs come from the groups of each step, or from a file (`algorithm.pairs.file`).

The gradient of agent i's weights is -beta sigmoid(-beta h) (grad log pi_i(w) - grad log pi_i(l)): that of REINFORCE
with beta sigmoid(-beta h) for an advantage, positive for w and negative for l, so this row takes MAGRPO's loss and puts
those weights in the place of advantages. The peer implementation has the same loss without a reference.
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import no_baseline, shared_reward
from palaver.trainers.objectives.losses import reinforce

MADPO = Algorithm("madpo", "arXiv 2305.18290", credit=shared_reward, baseline=no_baseline, loss=reinforce, pairs=True)
