"""MAAC: actors with one critic for the team.

CoMLRL (arXiv 2508.04652, section 5) after Lowe et al., arXiv 1706.02275.

    A = G - V(h_1, ..., h_N)        L_i = -E[ A sum_t log pi_i(a_t | h_i, a_<t) ]

The input of the critic is the joint conversation, labelled by agent, once a joint step: its gradient counts each
transition once, however many agents took part. The name sets what CoMLRL does: `gae_lambda: 0`, which is TD(0), and
advantages standardised over the batch.
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import shared_reward, value_baseline
from palaver.trainers.objectives.losses import reinforce

MAAC = Algorithm(
    "maac",
    "arXiv 1706.02275",
    credit=shared_reward,
    baseline=value_baseline,
    loss=reinforce,
    critic="joint",
    needs_group=False,
)
