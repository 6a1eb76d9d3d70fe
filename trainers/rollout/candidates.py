"""Which candidates of a branch's agents are played together: the joint actions of one turn."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pick:
    """One joint action of candidates.

    Attributes:
        label: last part of the name of its joint step, numbers with dots between them.
        index: agent -> its candidate that is played, of every agent that speaks.
        compared: agents whose candidates this joint action compares; the texts of the others are context.
        aside: the episode does not take it; it is an alternative to the joint action that it does take.
    """

    label: str
    index: Mapping[str, int]
    compared: tuple[str, ...]
    aside: bool = False


def aligned(agents: Sequence[str], width: int) -> list[Pick]:
    """Candidates paired by index: `width` joint actions, one where nobody speaks."""
    return [Pick(str(k), dict.fromkeys(agents, k), tuple(agents)) for k in range(width if agents else 1)]


def crossed(agents: Sequence[str], width: int) -> list[Pick]:
    """All width^N combinations."""
    combinations = itertools.product(range(width), repeat=len(agents))
    return [
        Pick(".".join(map(str, each)) or "0", dict(zip(agents, each, strict=True)), tuple(agents))
        for each in combinations
    ]


def swept(agents: Sequence[str], place: int, width: int, index: Mapping[str, int]) -> list[Pick]:
    """All candidates of the agent at `place`, beside those of the others in `index`. AT-GRPO, arXiv 2510.11062."""
    if not agents:
        return aligned(agents, width)
    agent = agents[place]
    return [Pick(f"{place}.{k}", {**index, agent: k}, (agent,)) for k in range(width)]


def counterfactual(agents: Sequence[str], width: int) -> list[Pick]:
    """The first candidates of all, and every joint action in which one agent says another. C3, arXiv 2603.06859.

    1 + N (width - 1) joint actions.
    """
    base = dict.fromkeys(agents, 0)
    return [
        Pick("0", base, tuple(agents)),
        *(
            Pick(f"{place}.{k}", {**base, agent: k}, (agent,), aside=True)
            for place, agent in enumerate(agents, start=1)
            for k in range(1, width)
        ),
    ]


def frozen(agents: Sequence[str]) -> list[Pick]:
    """One candidate of each agent, none of which is compared: how an alternative goes on."""
    return [Pick("0", dict.fromkeys(agents, 0), (), aside=True)]
