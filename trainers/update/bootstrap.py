"""Values of the states after cuts: the bootstrap of returns whose episode did not terminate.

Pardo et al., "Time limits in reinforcement learning", arXiv 1712.00378, section 4: an end by a limit that is no part of
the task is not the end of the return. Axes: J joint steps, N agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from palaver.trainers.objectives.token_values import speaker_label
from palaver.trainers.rollout.batch import Table
from palaver.trainers.update.critic import Critic, joint_ids_after, own_ids_after
from palaver.trainers.update.policy_update import Learner


def bootstrap(
    table: Table, critics: Mapping[str, Critic], learners: Sequence[Learner], by_token: bool
) -> Tensor | None:
    """(J, N) the value of each agent's state after a joint step that cut it, 0 elsewhere.

    An own critic reads the prompt that the agent would have answered next, a joint one the joint conversation with the
    last utterances and observations, and the agent's label where its tokens have values (`by_token`). None where no
    critic is there or nothing was cut.

    Raises:
        PolicyError: what a critic has to read does not fit the context of its model.
    """
    cuts = [(step, agent) for step, turn in enumerate(table.steps) for agent in turn.ahead]
    if not critics or not cuts:
        return None
    found = torch.zeros_like(table.reward)

    def put(places: Sequence[tuple[int, str]], values: Tensor) -> None:
        for (step, agent), value in zip(places, values.tolist(), strict=True):
            found[step, table.agents.index(agent)] = value

    if "joint" in critics:
        critic = critics["joint"]
        ids = joint_ids_after(table, [step for step, _ in cuts], critic.body)
        if by_token:
            ids = [(*each, *speaker_label(agent, critic.body)) for each, (_, agent) in zip(ids, cuts, strict=True)]
        put(cuts, critic.values(ids))
        return found
    for learner in learners:
        mine = [(step, agent) for step, agent in cuts if agent in learner.agents]
        states = [table.steps[step].ahead[agent].conversation for step, agent in mine]
        put(mine, critics[learner.policy.name].values(own_ids_after(states, learner.policy)))
    return found
