"""The built-in games, each with its source, and where others come from."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from palaver.core import ConfigError, did_you_mean
from palaver.envs.matrix import reading
from palaver.envs.matrix.table import MOST_CELLS, MatrixGame

Source = str | Path | Mapping[str, Any]
Record = dict[str, Any]
THREE = ["red", "green", "blue"]
TWO = ["left", "right"]
PENALTY = -100.0
_TITLE = re.compile(r"(?P<name>\S+?)(?: n=(?P<n>\d{1,4}))?(?: k=(?P<k>-?[\d.e+]{1,20}))?")


def climbing() -> Record:
    """Climbing and penalty games of Claus and Boutilier (1998).

    C. Claus and C. Boutilier, The dynamics of reinforcement learning in cooperative multiagent systems.
    """
    return {"agents": 2, "actions": THREE, "payoffs": [[11, -30, 0], [-30, 7, 6], [0, 0, 5]]}


def penalty(k: float) -> Record:
    """Two optima that are miscoordinated at a cost of k; from the same paper."""
    return {"agents": 2, "actions": THREE, "payoffs": [[10, 0, k], [0, 2, 0], [k, 0, 10]]}


def xor(n: int) -> Record:
    """1 if the first half chooses one action and the second half the other; n is even.

    J. G. Kuba et al., Trust region policy optimisation in multi-agent reinforcement learning (2022), proposition 1:
    agents with one policy and equal prompts reach at most 2 / 2^n.
    """
    half = n // 2
    winning = {(0,) * half + (1,) * half, (1,) * half + (0,) * half}
    return {"agents": n, "actions": TWO, "payoffs": _by_rule(n, 2, lambda joint: float(joint in winning))}


def coordination(n: int) -> Record:
    """1 if all choose the same of three actions."""
    return {"agents": n, "actions": THREE, "payoffs": _by_rule(n, 3, lambda joint: float(len(set(joint)) == 1))}


def two_step() -> Record:
    """Two-step game: the first agent chooses which table follows.

    The choice is between a safe 7 and a table whose 8 needs both. T. Rashid et al., QMIX: monotonic value function
    factorisation for deep multi-agent reinforcement learning (2018), section 5.
    """
    states = {
        "start": {"payoffs": 0, "next": ["A", "B"]},
        "A": {"payoffs": 7},
        "B": {"payoffs": [[0, 1], [1, 8]]},
    }
    return {"agents": 2, "actions": TWO, "states": states}


def prisoners_dilemma() -> Record:
    """Temptation 5, reward 3, punishment 1, sucker's pay 0: R.

    Axelrod, The evolution of cooperation (1984).
    """
    return {"agents": 2, "actions": ["cooperate", "defect"], "payoffs": [[[3, 3], [0, 5]], [[5, 0], [1, 1]]]}


def qtran() -> Record:
    """Game that monotonic mixing cannot represent.

    K. Son et al., QTRAN: learning to factorize with transformation for cooperative multi-agent reinforcement learning
    (2019).
    """
    return {"agents": 2, "actions": THREE, "payoffs": [[8, -12, -12], [-12, 0, 0], [-12, 0, 0]]}


def happo() -> Record:
    """Game where a sum of independent improvements misleads; HAPPO's factor makes it exact."""
    return {"agents": 2, "actions": TWO, "payoffs": [[0, 1], [1, -2]]}


FIXED: Mapping[str, Callable[[], Record]] = {
    "climbing": climbing,
    "two-step": two_step,
    "prisoners-dilemma": prisoners_dilemma,
    "qtran": qtran,
    "happo": happo,
}
FOR_ANY: Mapping[str, tuple[Callable[[int], Record], int, str]] = {  # game, actions, whom it is for
    "xor": (xor, 2, "an even number of agents"),
    "coordination": (coordination, 3, "2 agents or more"),
}
BUILT_IN = (*FIXED, *FOR_ANY, "penalty")


def load(source: Source, agents: int | None = None, k: float | None = None) -> MatrixGame:
    """The game of this name, in this `.json`, `.yaml` or `.yml` file, or in this mapping.

    Args:
        source: which game.
        agents: how many play, where that can be chosen; None is 2.
        k: of the penalty game; None is -100.

    Raises:
        ConfigError: no such game, a file that cannot be read, or a number that does not fit the game.
    """
    if isinstance(source, str) and source in BUILT_IN:
        return built_in(source, agents, k)
    for keyword, value in (("agents", agents), ("penalty", k)):
        if value is not None:
            raise ConfigError(f"{keyword} belongs to the built-in games that know it; this game says it in its tables")
    if isinstance(source, Mapping):
        game = reading.from_mapping(source)
    elif isinstance(source, str | Path) and Path(source).suffix in (".json", ".yaml", ".yml"):
        game = reading.from_file(Path(source))
    else:
        hint = did_you_mean(str(source)[:200], BUILT_IN)
        raise ConfigError(f"game: there is no game {str(source)[:200]!r}.{hint} A file ends with .json, .yaml or .yml")
    if game.title in BUILT_IN:
        raise ConfigError(f"game: the name {game.title!r} is that of a built-in game; give the field name another one")
    return game


def built_in(name: str, agents: int | None = None, k: float | None = None) -> MatrixGame:
    """One of `BUILT_IN`; its title names the number of agents or k where these can be chosen.

    Raises:
        ConfigError: a number that does not fit the game.
    """
    if k is not None and name != "penalty":
        raise ConfigError(f"penalty is the k of the game 'penalty'; {name!r} has none")
    if name in FOR_ANY:
        make, actions, whom = FOR_ANY[name]
        n = 2 if agents is None else agents
        valid_count = isinstance(n, int) and not isinstance(n, bool) and 2 <= n <= reading.MOST_AGENTS
        if not valid_count or actions**n > MOST_CELLS or (name == "xor" and n % 2):
            raise ConfigError(
                f"agents: {name!r} is for {whom}, with at most {MOST_CELLS:,} joint actions, got {n!r:.40}"
            )
        return reading.from_mapping(make(n), f"{name} n={n}")
    if agents not in (None, 2) or isinstance(agents, bool):
        raise ConfigError(f"agents: {name!r} is for 2, got {agents!r:.40}")
    if name != "penalty":
        return reading.from_mapping(FIXED[name](), name)
    k = PENALTY if k is None else k
    if isinstance(k, bool) or not isinstance(k, int | float) or not -reading.MOST_PAY <= k <= 0:
        raise ConfigError(f"penalty must be a number from -{reading.MOST_PAY:g} to 0, got {k!r:.40}")
    return reading.from_mapping(penalty(float(k)), f"penalty k={float(k):.12g}")


@functools.lru_cache(maxsize=64)
def titled(title: str) -> MatrixGame | None:
    """The built-in game with this title; None where there is none.

    >>> titled("xor n=4").agents, titled("bridge")
    (('a1', 'a2', 'a3', 'a4'), None)
    """
    match = _TITLE.fullmatch(title)
    if match is None or match["name"] not in BUILT_IN:
        return None
    try:
        n, k = match["n"], match["k"]
        return built_in(match["name"], None if n is None else int(n), None if k is None else float(k))
    except (ConfigError, ValueError):
        return None


def _by_rule(n: int, actions: int, payoff: Callable[[tuple[int, ...]], float], chosen: tuple[int, ...] = ()) -> Any:
    """Build a table, nested by the actions of n agents, from the payoff of a joint action."""
    if len(chosen) == n:
        return payoff(chosen)
    return [_by_rule(n, actions, payoff, (*chosen, action)) for action in range(actions)]
