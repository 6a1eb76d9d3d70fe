"""IAC: independent actor-critic.

CoMLRL (arXiv 2508.04652, section 5) after Foerster et al., arXiv 1705.08926.

    A_i = G_i - V_i(h_i)        L_i = -E[ A_i sum_t log pi_i(a_t | h_i, a_<t) ]        G: TD(0), r + discount V_i(h')

Every agent has a critic of its own conversation. One update a rollout, no ratio. Differs from MAAC in the input of the
critic, and from IPPO in that samples are used once. The name sets what CoMLRL does: `gae_lambda: 0`, which is
TD(0), and advantages standardised over the batch.
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import shared_reward, value_baseline
from palaver.trainers.objectives.losses import reinforce

IAC = Algorithm(
    "iac",
    "arXiv 1705.08926",
    credit=shared_reward,
    baseline=value_baseline,
    loss=reinforce,
    critic="own",
    needs_group=False,
)
