"""Joint actions of one turn: combinations of the agents' candidates."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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
