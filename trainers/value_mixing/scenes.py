"""From the table of a rollout to scenes and transitions. J joint steps, N trained agents, R rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palaver.core import Conversation, Message
from palaver.trainers.critic import joint_text
from palaver.trainers.table import Table
from palaver.trainers.value_mixing.encoders import Encoder
from palaver.trainers.value_mixing.replay import Scene, Transition, scene_of


@dataclass(frozen=True, slots=True)
class Acts:
    """The decisions of a rollout.

    Attributes:
        scenes: by the joint step that they follow, or by the task's place where they are the first.
        place: joint step -> where it was decided; joint steps in which no trained agent acts are left out.
        chosen: joint step -> (N,) places of its answers among the candidates.
        rows: joint step -> the rows of its answers, by number of the agent.
    """

    scenes: Mapping[str, Scene]
    place: Mapping[int, str]
    chosen: Mapping[int, Tensor]
    rows: Mapping[int, Mapping[int, int]]


def acts(table: Table, agents: Sequence[str], encoder: Encoder) -> Acts:
    """Where the team of these agents decided, from what, and for what.

    The candidates of an agent are all that were sampled for it at one point: those of sibling joint steps.
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
    features = encoder.actions(
        [(heard(table, first[row], table.agents[int(table.agent[row])]), table.utterances[row].text)
         for row in range(len(table))]
    )  # fmt: skip
    opened = {where: step for step, where in reversed(place.items())}
    states = encoder.states([joint_text(table, opened[where]) for where in found])
    scenes = {
        where: scene_of(state, [features[list(rows)] for rows in candidates])
        for (where, candidates), state in zip(found.items(), states, strict=True)
    }
    chosen = {
        step: torch.tensor(
            [list(found[where][n]).index(said[step][n]) if n in said[step] else 0 for n in range(len(agents))]
        )
        for step, where in place.items()
    }
    return Acts(scenes, place, chosen, said)


def transitions(table: Table, found: Acts, reward: Tensor, discount: float) -> list[Transition]:
    """Every joint step of the team, with what it was paid until it decided again.

    Args:
        table: of the rollout.
        found: its decisions.
        reward: (J,) of the team.
        discount: gamma, per turn.
    """
    children: dict[int, list[int]] = {}
    for step, above in enumerate(table.parent.tolist()):
        children.setdefault(above, []).append(step)

    def onward(step: int, paid: float, factor: float) -> Iterator[tuple[float, float, str | None]]:
        paid += factor * float(reward[step])
        where = table.steps[step].node
        if step not in children:
            yield paid, 0.0, None
        elif where in found.scenes:
            yield paid, factor * discount, where
        else:  # others act alone, and the team is paid for what it did before
            for child in children[step]:
                yield from onward(child, paid, factor * discount)

    return [
        Transition(found.scenes[where], found.chosen[step], paid, goes_on, found.scenes[then or where])
        for step, where in found.place.items()
        for paid, goes_on, then in onward(step, 0.0, 1.0)
    ]


def heard(table: Table, step: int, agent: str) -> Conversation:
    """What an agent had heard and said when joint step `step` was decided."""
    path = [step]
    while (above := int(table.parent[path[-1]])) >= 0:
        path.append(above)
    found: list[Message] = []
    for number in reversed(path):
        turn = table.steps[number]
        if text := turn.observations.get(agent, ""):
            told = f"{found.pop().content}\n\n" if found and found[-1].role == "user" else ""
            found.append(Message("user", told + text))  # many chat templates refuse two messages of the user in a row
        if number != step and agent in turn.utterances:
            found.append(Message("assistant", turn.utterances[agent].text))
    return tuple(found) or (Message("user", ""),)


def _place(table: Table, step: int) -> str:
    """The name of the point at which a joint step and its siblings were sampled."""
    turn = table.steps[step]
    return turn.parent or turn.node.partition("/")[0]
