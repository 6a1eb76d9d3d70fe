"""Scenes and transitions of a rollout's table. J joint steps, N trained agents, R rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palaver.core import Conversation, Message
from palaver.trainers.rollout.batch import Batch
from palaver.trainers.update.critic import joint_text
from palaver.trainers.value_decomposition.encoders import Encoder
from palaver.trainers.value_decomposition.replay import DecisionFeatures, Transition, scene_of


@dataclass(frozen=True, slots=True)
class Acts:
    """Decisions of a rollout.

    Attributes:
        scenes: by the node of the joint step that they follow, or by the task's index if they are the first; those
            after a cut too.
        place: joint step -> key of its scene; joint steps in which no trained agent acts are left out.
        chosen: joint step -> (N,) indices of its answers among the candidates.
        rows: joint step -> rows of its answers, by index of the agent.
        unvalued: joint steps that cut the team where none of its agents could act: the state after has no value.
    """

    scenes: Mapping[str, DecisionFeatures]
    place: Mapping[int, str]
    chosen: Mapping[int, Tensor]
    rows: Mapping[int, Mapping[int, int]]
    unvalued: Collection[int] = ()


def acts(table: Batch, agents: Sequence[str], encoder: Encoder) -> Acts:
    """Collect the decisions of these agents: scenes, candidates and choices.

    The candidates of an agent are all its samples at one node: those of sibling joint steps, and after a cut those of
    `Ahead`.
    """
    numbers = {table.agents.index(agent): number for number, agent in enumerate(agents)}
    said: dict[int, dict[int, int]] = {}
    for row, step in zip(table.member_row.tolist(), table.member_step.tolist(), strict=True):
        said.setdefault(step, {})[numbers[int(table.agent[row])]] = row
    place = {step: _place(table, step) for step in sorted(said)}
    found: dict[str, list[dict[int, None]]] = {}
    for step, where in place.items():
        candidates = found.setdefault(where, [{} for _ in agents])
        for agent, row in said[step].items():
            candidates[agent][row] = None
    first = {row: step for step in reversed(place) for row in said[step].values()}
    pairs = [
        (heard(table, first[row], table.agents[int(table.agent[row])]), table.completions[row].text)
        for row in range(len(table))
    ]
    opened = {where: step for step, where in reversed(place.items())}
    texts = {where: joint_text(table, opened[where]) for where in found}
    cuts = _cuts(table, agents)
    for step, answers in cuts.items():  # after the rows, whose places stay
        if any(answers):
            where = table.steps[step].node
            texts[where], found[where] = joint_text(table, step, after=True), [{} for _ in agents]
            for number, name in enumerate(agents):
                told = heard(table, step, name, after=True)
                found[where][number] = dict.fromkeys(range(len(pairs), len(pairs) + len(answers[number])))
                pairs += [(told, text) for text in answers[number]]
    features = encoder.actions(pairs)
    scenes = {
        where: scene_of(state, [features[list(rows)] for rows in found[where]])
        for where, state in zip(texts, encoder.states(list(texts.values())), strict=True)
    }
    chosen = {
        step: torch.tensor(
            [list(found[where][n]).index(said[step][n]) if n in said[step] else 0 for n in range(len(agents))]
        )
        for step, where in place.items()
    }
    return Acts(scenes, place, chosen, said, {step for step, answers in cuts.items() if not any(answers)})


def _cuts(table: Batch, agents: Sequence[str]) -> dict[int, list[list[str]]]:
    """Last joint step -> each agent's candidate answers after it, if the step cut any of them."""
    inner = set(table.parent.tolist())
    return {
        step: [
            [said.text for said in turn.cut_states[agent].candidates] if agent in turn.cut_states else []
            for agent in agents
        ]
        for step, turn in enumerate(table.steps)
        if step not in inner and any(agent in turn.cut_states for agent in agents)
    }


def transitions(table: Batch, found: Acts, reward: Tensor, discount: float) -> list[Transition]:
    """Transitions of the team's joint steps, with the reward until its next decision or the end.

    Terminal states have value 0. A step that was cut leads to the scene after the cut; if none of the team could act
    there, its last decision has no target and is left out.

    Args:
        table: table of the rollout.
        found: its decisions.
        reward: (J,) reward of the team.
        discount: gamma, per turn.
    """
    children: dict[int, list[int]] = {}
    for step, above in enumerate(table.parent.tolist()):
        children.setdefault(above, []).append(step)

    def onward(step: int, paid: float, factor: float) -> Iterator[tuple[float, float, str | None]]:
        paid += factor * float(reward[step])
        where = table.steps[step].node
        if where in found.scenes:
            yield paid, factor * discount, where
        elif step in found.unvalued:
            return
        elif step not in children:
            yield paid, 0.0, None
        else:  # others act alone, and the team still receives rewards
            for child in children[step]:
                yield from onward(child, paid, factor * discount)

    return [
        Transition(found.scenes[where], found.chosen[step], paid, goes_on, found.scenes[then or where])
        for step, where in found.place.items()
        for paid, goes_on, then in onward(step, 0.0, 1.0)
    ]


def heard(table: Batch, step: int, agent: str, after: bool = False) -> Conversation:
    """Conversation of an agent before joint step `step`; with `after`, once that step cut it."""
    path = [step]
    while (above := int(table.parent[path[-1]])) >= 0:
        path.append(above)
    found: list[Message] = []

    def read(text: str) -> None:
        if text:
            told = f"{found.pop().content}\n\n" if found and found[-1].role == "user" else ""
            found.append(Message("user", told + text))  # many chat templates refuse two messages of the user in a row

    for number in reversed(path):
        turn = table.steps[number]
        read(turn.observations.get(agent, ""))
        if (number != step or after) and agent in turn.completions:
            found.append(Message("assistant", turn.completions[agent].text))
    if after and agent in table.steps[step].cut_states:
        read(table.steps[step].cut_states[agent].observation)
    return tuple(found) or (Message("user", ""),)


def _place(table: Batch, step: int) -> str:
    """Name of the node at which a joint step and its siblings were sampled."""
    turn = table.steps[step]
    return turn.parent or turn.node.partition("/")[0]
