"""Joint actions of one turn: combinations of the agents' candidates."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from palaver.trainers.rollout.branches import Branch, cut_off


@dataclass(frozen=True, slots=True)
class Pick:
    """One joint action of candidates.

    Attributes:
        label: last part of the name of its joint step, numbers with dots between them.
        index: agent -> index of its candidate, for every agent that acts.
        compared: agents whose candidates this joint action compares; the texts of the others are context.
        aside: True if it is an alternative to the joint action that the episode takes.
    """

    label: str
    index: Mapping[str, int]
    compared: tuple[str, ...]
    aside: bool = False


def aligned(agents: Sequence[str], width: int) -> list[Pick]:
    """Candidates paired by index: `width` joint actions, one if no agent acts."""
    return [Pick(str(k), dict.fromkeys(agents, k), tuple(agents)) for k in range(width if agents else 1)]


def crossed(agents: Sequence[str], width: int) -> list[Pick]:
    """All width^N combinations."""
    combinations = itertools.product(range(width), repeat=len(agents))
    return [
        Pick(".".join(map(str, choice)) or "0", dict(zip(agents, choice, strict=True)), tuple(agents))
        for choice in combinations
    ]


def swept(agents: Sequence[str], position: int, width: int, index: Mapping[str, int]) -> list[Pick]:
    """All candidates of agent `position`, with the others' in `index`.

    AT-GRPO, arXiv 2510.11062.
    """
    if not agents:
        return aligned(agents, width)
    agent = agents[position]
    return [Pick(f"{position}.{k}", {**index, agent: k}, (agent,)) for k in range(width)]


def counterfactual(agents: Sequence[str], width: int) -> list[Pick]:
    """The first candidates, and all changes of one agent's candidate. C3, arXiv 2603.06859.

    1 + N (width - 1) joint actions.
    """
    base = dict.fromkeys(agents, 0)
    return [
        Pick("0", base, tuple(agents)),
        *(
            Pick(f"{position}.{k}", {**base, agent: k}, (agent,), aside=True)
            for position, agent in enumerate(agents, start=1)
            for k in range(1, width)
        ),
    ]


def frozen(agents: Sequence[str]) -> list[Pick]:
    """One candidate of each agent, none of them compared: the continuation of an alternative."""
    return [Pick("0", dict.fromkeys(agents, 0), (), aside=True)]


def select_best(branches: list[Branch]) -> list[Branch]:
    """End all siblings but the first one with the largest team reward this turn."""
    best: dict[str, Branch] = {}
    for branch in _scored(branches):
        leader = best.setdefault(branch.turns[-1].group, branch)
        if branch.turns[-1].team_reward > leader.turns[-1].team_reward:
            best[branch.turns[-1].group] = branch
    best_nodes = {branch.node for branch in best.values()}
    return [branch if branch.node in best_nodes else pruned(branch) for branch in branches]


def _scored(branches: Sequence[Branch]) -> list[Branch]:
    return [branch for branch in branches if branch.stop != "unscored"]


def stop_early(branches: list[Branch], above: float | None) -> list[Branch]:
    """End siblings whose mean team reward this turn is above the threshold."""
    if above is None:
        return branches
    rewards: dict[str, list[float]] = {}
    for branch in _scored(branches):
        rewards.setdefault(branch.turns[-1].group, []).append(branch.turns[-1].team_reward)
    over = {group for group, values in rewards.items() if sum(values) / len(values) > above}
    return [
        cut_off(replace(b, stop="threshold"), b.env.agents) if not b.stop and b.turns[-1].group in over else b
        for b in branches
    ]


def pruned(branch: Branch) -> Branch:
    """The branch, ended for a better sibling unless it has ended already."""
    return replace(branch, stop=branch.stop or "pruned")
