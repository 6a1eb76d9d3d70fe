"""Bootstrap values of the states after cuts, for returns of episodes that did not terminate.

Pardo et al., "Time limits in reinforcement learning", arXiv 1712.00378, section 4: a time limit that is no part of the
task does not end the return. Axes: J joint steps, N agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from palaver.trainers.objectives.token_values import speaker_label
from palaver.trainers.rollout.batch import Batch
from palaver.trainers.rollout.joint_prompt import joint_ids_after, own_ids_after
from palaver.trainers.update.critic import Critic
from palaver.trainers.update.policy_update import PolicyUpdater


def bootstrap(
    batch: Batch, critics: Mapping[str, Critic], learners: Sequence[PolicyUpdater], by_token: bool
) -> Tensor | None:
    """(J, N) value of each agent's state after a joint step that cut it, 0 elsewhere.

    The input of an own critic is the prompt that the agent would have answered next; that of a joint critic the joint
    conversation with the last completions and observations, and with `by_token` the agent's label. None if there is no
    critic or nothing was cut.

    Raises:
        PolicyError: the input of a critic does not fit the context of its model.
    """
    cuts = [(step, agent) for step, turn in enumerate(batch.steps) for agent in turn.cut_states]
    if not critics or not cuts:
        return None
    bootstrap_values = torch.zeros_like(batch.reward)

    def put(places: Sequence[tuple[int, str]], values: Tensor) -> None:
        for (step, agent), value in zip(places, values.tolist(), strict=True):
            bootstrap_values[step, batch.agents.index(agent)] = value

    if "joint" in critics:
        critic = critics["joint"]
        ids = joint_ids_after(batch, [step for step, _ in cuts], critic.body)
        if by_token:
            ids = [(*prompt, *speaker_label(agent, critic.body)) for prompt, (_, agent) in zip(ids, cuts, strict=True)]
        put(cuts, critic.values(ids))
        return bootstrap_values
    for learner in learners:
        mine = [(step, agent) for step, agent in cuts if agent in learner.agents]
        states = [batch.steps[step].cut_states[agent].conversation for step, agent in mine]
        put(mine, critics[learner.policy.name].values(own_ids_after(states, learner.policy)))
    return bootstrap_values
