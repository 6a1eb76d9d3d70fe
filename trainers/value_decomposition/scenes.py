"""Scenes and transitions of a rollout's table. J joint steps, N trained agents, R rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palaver.core import Conversation, Message
from palaver.trainers.rollout.batch import Batch
from palaver.trainers.rollout.branches import with_observation
from palaver.trainers.rollout.joint_prompt import joint_text
from palaver.trainers.value_decomposition.encoders import Encoder
from palaver.trainers.value_decomposition.replay import DecisionFeatures, Transition, scene_of


@dataclass(frozen=True, slots=True)
class Acts:
    """Decisions of a rollout.

    Attributes:
        scenes: by the node of the joint step that they follow, or by the task's index if they are the first; those
            after a cut too.
        scene_keys: joint step -> key of its scene; joint steps in which no trained agent acts are left out.
        chosen: joint step -> (N,) indices of its answers among the candidates.
        rows: joint step -> rows of its answers, by index of the agent.
        unvalued: joint steps that cut the team where none of its agents could act: the state after has no value.
    """

    scenes: Mapping[str, DecisionFeatures]
    scene_keys: Mapping[int, str]
    chosen: Mapping[int, Tensor]
    rows: Mapping[int, Mapping[int, int]]
    unvalued: Collection[int] = ()


def acts(batch: Batch, agents: Sequence[str], encoder: Encoder) -> Acts:
    """Collect the decisions of these agents: scenes, candidates and choices.

    The candidates of an agent are all its samples at one node: those of sibling joint steps, and after a cut those of
    `CutState`.
    """
    numbers = {batch.agents.index(agent): index for index, agent in enumerate(agents)}
    rows_of_step: dict[int, dict[int, int]] = {}
    for row, step in zip(batch.member_row.tolist(), batch.member_step.tolist(), strict=True):
        rows_of_step.setdefault(step, {})[numbers[int(batch.agent[row])]] = row
    scene_keys = {step: _decision_node(batch, step) for step in sorted(rows_of_step)}
    candidate_rows: dict[str, list[dict[int, None]]] = {}
    for step, where in scene_keys.items():
        candidates = candidate_rows.setdefault(where, [{} for _ in agents])
        for agent, row in rows_of_step[step].items():
            candidates[agent][row] = None
    first = {row: step for step in reversed(scene_keys) for row in rows_of_step[step].values()}
    pairs = [
        (conversation_before(batch, first[row], batch.agents[int(batch.agent[row])]), batch.completions[row].text)
        for row in range(len(batch))
    ]
    opened = {where: step for step, where in reversed(scene_keys.items())}
    texts = {where: joint_text(batch, opened[where]) for where in candidate_rows}
    cuts = _cuts(batch, agents)
    for step, answers in cuts.items():  # after the rows, whose places stay
        if any(answers):
            where = batch.steps[step].node
            texts[where], candidate_rows[where] = joint_text(batch, step, after=True), [{} for _ in agents]
            for index, name in enumerate(agents):
                conversation = conversation_before(batch, step, name, after=True)
                candidate_rows[where][index] = dict.fromkeys(range(len(pairs), len(pairs) + len(answers[index])))
                pairs += [(conversation, text) for text in answers[index]]
    features = encoder.actions(pairs)
    scenes = {
        where: scene_of(state, [features[list(rows)] for rows in candidate_rows[where]])
        for where, state in zip(texts, encoder.states(list(texts.values())), strict=True)
    }
    chosen = {
        step: torch.tensor(
            [
                list(candidate_rows[where][n]).index(rows_of_step[step][n]) if n in rows_of_step[step] else 0
                for n in range(len(agents))
            ]
        )
        for step, where in scene_keys.items()
    }
    return Acts(scenes, scene_keys, chosen, rows_of_step, {step for step, answers in cuts.items() if not any(answers)})


def _cuts(batch: Batch, agents: Sequence[str]) -> dict[int, list[list[str]]]:
    """Last joint step -> each agent's candidate answers after it, if the step cut any of them."""
    inner = set(batch.parent.tolist())
    return {
        step: [
            [completion.text for completion in turn.cut_states[agent].candidates] if agent in turn.cut_states else []
            for agent in agents
        ]
        for step, turn in enumerate(batch.steps)
        if step not in inner and any(agent in turn.cut_states for agent in agents)
    }


def transitions(batch: Batch, decisions: Acts, reward: Tensor, discount: float) -> list[Transition]:
    """Transitions of the team's joint steps, with the reward until its next decision or the end.

    Terminal states have value 0. A step that was cut leads to the scene after the cut; if none of the team could act
    there, its last decision has no target and is left out.

    Args:
        batch: table of the rollout.
        decisions: its decisions.
        reward: (J,) reward of the team.
        discount: gamma, per turn.
    """
    children: dict[int, list[int]] = {}
    for step, above in enumerate(batch.parent.tolist()):
        children.setdefault(above, []).append(step)

    def onward(step: int, collected: float, factor: float) -> Iterator[tuple[float, float, str | None]]:
        collected += factor * float(reward[step])
        where = batch.steps[step].node
        if where in decisions.scenes:
            yield collected, factor * discount, where
        elif step in decisions.unvalued:
            return
        elif step not in children:
            yield collected, 0.0, None
        else:  # others act alone, and the team still receives rewards
            for child in children[step]:
                yield from onward(child, collected, factor * discount)

    return [
        Transition(decisions.scenes[where], decisions.chosen[step], collected, goes_on, decisions.scenes[then or where])
        for step, where in decisions.scene_keys.items()
        for collected, goes_on, then in onward(step, 0.0, 1.0)
    ]


def conversation_before(batch: Batch, step: int, agent: str, after: bool = False) -> Conversation:
    """Conversation of an agent before joint step `step`; with `after`, once that step cut it."""
    path = [step]
    while (above := int(batch.parent[path[-1]])) >= 0:
        path.append(above)
    conversation: Conversation = ()
    for index in reversed(path):
        turn = batch.steps[index]
        if text := turn.observations.get(agent):
            conversation = with_observation(conversation, text, fresh=False)
        if (index != step or after) and agent in turn.completions:
            conversation = (*conversation, Message("assistant", turn.completions[agent].text))
    if after and agent in batch.steps[step].cut_states and (text := batch.steps[step].cut_states[agent].observation):
        conversation = with_observation(conversation, text, fresh=False)
    return conversation or (Message("user", ""),)


def _decision_node(batch: Batch, step: int) -> str:
    """Name of the node at which a joint step and its siblings were sampled."""
    turn = batch.steps[step]
    return turn.parent or turn.node.partition("/")[0]
