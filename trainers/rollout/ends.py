"""Ends of episodes: the one place where trainers read the termination flags of PettingZoo.

`terminated` ends the task: states after it have value 0. `truncated` cuts it by an outer limit, and so does
`algorithm.stop_above` (the stop `threshold`): the state after the cut has a value, which critics and mixers estimate.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from palaver.core import Stop
from palaver.envs.base.env import Step

CUT: tuple[Stop, ...] = ("truncated", "threshold")


def ended(live: Collection[str], acting: Sequence[str], step: Step) -> tuple[Stop | None, tuple[str, ...]]:
    """Return how a step ended the episode (None if it continues), and the agents that it cut.

    An agent is cut if it is truncated and not terminated. An episode is `terminated` if its last agents all are.

    Args:
        live: the agents alive after the step.
        acting: those alive before it.
        step: the five dictionaries of PettingZoo.
    """
    _, _, terminations, truncations, infos = step
    if any(info.get("unscored") for info in infos.values()):
        return "unscored", ()
    cut = tuple(agent for agent in acting if truncations[agent] and not terminations[agent])
    if live:
        return None, cut
    return ("terminated" if all(terminations[agent] for agent in acting) else "truncated"), cut
