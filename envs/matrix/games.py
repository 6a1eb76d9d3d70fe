"""The built-in games, each with its source, and where others come from."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import numpy as np
import yaml

from palaver.core import ConfigError, did_you_mean
from palaver.envs.matrix.rules import MOST_CELLS, MOST_STATES, MOST_STEPS, MatrixGame, fold
from palaver.text import one_line

Source = str | Path | Mapping[str, Any]
Record = dict[str, Any]
THREE = ["red", "green", "blue"]
TWO = ["left", "right"]
PENALTY = -100.0
_TITLE = re.compile(r"(?P<name>\S+?)(?: n=(?P<n>\d{1,4}))?(?: k=(?P<k>-?[\d.e+]{1,20}))?")
FIELDS = ("name", "agents", "actions", "payoffs", "next", "states", "steps")
MOST_PAY = 1e9
MOST_AGENTS = 16
_NAME = re.compile(r"[^\W_]{1,40}")  # fold leaves it a word that `rules.named` can find
_SEAT = re.compile(r"\w{1,40}")
_NAMED_TITLE = re.compile(r"\w[\w -]{0,59}")
T = TypeVar("T")


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


def chicken() -> Record:
    """Chicken: the one who yields alone has 1, the other 4; if neither yields both have 0.

    A. Rapoport and A. M. Chammah, The game of chicken (1966).
    """
    return {"agents": 2, "actions": ["yield", "dare"], "payoffs": [[[3, 3], [1, 4]], [[4, 1], [0, 0]]]}


def stag_hunt() -> Record:
    """A stag needs both hunters, a hare one: the better equilibrium is the risky one.

    B. Skyrms, The stag hunt and the evolution of social structure (2004).
    """
    return {"agents": 2, "actions": ["stag", "hare"], "payoffs": [[[4, 4], [0, 3]], [[3, 0], [3, 3]]]}


def rock_paper_scissors() -> Record:
    """Zero-sum; in equilibrium each action has probability 1/3."""
    payoffs = [[[0, 0], [-1, 1], [1, -1]], [[1, -1], [0, 0], [-1, 1]], [[-1, 1], [1, -1], [0, 0]]]
    return {"agents": 2, "actions": ["rock", "paper", "scissors"], "payoffs": payoffs}


def matching_pennies() -> Record:
    """Zero-sum; the first player wins where both are equal."""
    return {"agents": 2, "actions": ["heads", "tails"], "payoffs": [[[1, -1], [-1, 1]], [[-1, 1], [1, -1]]]}


FIXED: Mapping[str, Callable[[], Record]] = {
    "climbing": climbing,
    "two-step": two_step,
    "prisoners-dilemma": prisoners_dilemma,
    "chicken": chicken,
    "stag-hunt": stag_hunt,
    "rock-paper-scissors": rock_paper_scissors,
    "matching-pennies": matching_pennies,
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
        game = from_mapping(source)
    elif isinstance(source, str | Path) and Path(source).suffix in (".json", ".yaml", ".yml"):
        game = from_file(Path(source))
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
        valid_count = isinstance(n, int) and not isinstance(n, bool) and 2 <= n <= MOST_AGENTS
        if not valid_count or actions**n > MOST_CELLS or (name == "xor" and n % 2):
            raise ConfigError(
                f"agents: {name!r} is for {whom}, with at most {MOST_CELLS:,} joint actions, got {n!r:.40}"
            )
        return from_mapping(make(n), f"{name} n={n}")
    if agents not in (None, 2) or isinstance(agents, bool):
        raise ConfigError(f"agents: {name!r} is for 2, got {agents!r:.40}")
    if name != "penalty":
        return from_mapping(FIXED[name](), name)
    k = PENALTY if k is None else k
    if isinstance(k, bool) or not isinstance(k, int | float) or not -MOST_PAY <= k <= 0:
        raise ConfigError(f"penalty must be a number from -{MOST_PAY:g} to 0, got {k!r:.40}")
    return from_mapping(penalty(float(k)), f"penalty k={float(k):.12g}")


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


def from_file(path: Path) -> MatrixGame:
    """The game in a `.json`, `.yaml` or `.yml` file, named after it where it holds no `name`.

    Raises:
        ConfigError: the file cannot be read, or holds no game.
    """
    try:
        text = path.expanduser().read_text(encoding="utf-8-sig")
        record = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, RuntimeError, yaml.YAMLError) as error:  # RuntimeError: nested too deep, no home
        raise ConfigError(f"game: cannot read {str(path)[:200]!r}: {one_line(error)}") from error
    if not isinstance(record, Mapping):
        raise ConfigError(f"game: {one_line(path)} holds a {type(record).__name__}, expected named fields")
    return from_mapping({"name": path.stem, **record})


def from_mapping(record: Mapping[Any, Any], title: str = "") -> MatrixGame:
    """The game in a mapping; `matrix-v1`'s page describes the fields.

    Args:
        record: the fields.
        title: instead of the field `name`, and not checked.

    Raises:
        ConfigError: a field is missing, unknown, or does not fit the others.
    """
    for key in record:
        if key not in FIELDS:
            raise ConfigError(f"game: there is no field {one_line(repr(key))}.{did_you_mean(str(key)[:200], FIELDS)}")
    agents = _agents(record.get("agents"))
    actions = _actions(record.get("actions"), agents)
    states = _states(record)
    sizes = tuple(map(len, actions))
    if math.prod(sizes) * len(states) > MOST_CELLS:
        raise ConfigError(f"game: {math.prod(sizes):,} joint actions in {len(states):,} states; at most {MOST_CELLS:,}")
    read_payoff, follow = _pay_reader(len(agents)), _state_reader(list(states))
    places = [f"states, {state}: " if "states" in record else "" for state in states]
    tables = list(zip(places, states.values(), strict=True))
    payoffs = [_cells(state["payoffs"], sizes, read_payoff, f"{location}payoffs") for location, state in tables]
    successor = [_cells(state.get("next"), sizes, follow, f"{location}next") for location, state in tables]
    return MatrixGame(
        title or _title(record.get("name", "game")),
        agents,
        actions,
        tuple(states),
        np.array(payoffs),
        np.array(successor, dtype=np.intp),
        _steps(record.get("steps", 0)),
    )


def _agents(value: object) -> tuple[str, ...]:
    if isinstance(value, int) and not isinstance(value, bool):
        value = [f"a{n}" for n in range(1, min(value, MOST_AGENTS + 1) + 1)]
    names = _names(value, _SEAT, "agents", "names (letters, digits, underscores), or their number")
    if len(names) > MOST_AGENTS:
        raise ConfigError(f"game: agents: at most {MOST_AGENTS}")
    return names


def _actions(value: object, agents: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    what = "names, each one word of letters and digits (in YAML quote 'on', 'off', 'yes', 'no' and numbers)"
    if not isinstance(value, Mapping):
        return (_names(value, _NAME, "actions", what),) * len(agents)
    if set(value) != set(agents):
        raise ConfigError(f"game: actions: expected a list for all, or one for each of {', '.join(agents)}")
    return tuple(_names(value[agent], _NAME, f"actions of {agent}", what) for agent in agents)


def _names(value: object, form: re.Pattern[str], where: str, what: str) -> tuple[str, ...]:
    names = list(value) if isinstance(value, list | tuple) else []
    good = all(isinstance(name, str) and form.fullmatch(name) and form.fullmatch(fold(name)) for name in names)
    if not names or not good or len(set(map(fold, names))) < len(names):
        raise ConfigError(f"game: {where}: expected a list of different {what}, got {one_line(repr(value), 60)}")
    return tuple(names)


def _states(record: Mapping[Any, Any]) -> dict[str, Mapping[str, Any]]:
    """The fields `payoffs` and `next` of each state.

    For a game with one state they are those of the game itself.
    """
    states = record.get("states")
    if "states" not in record:
        if "payoffs" not in record:
            raise ConfigError("game: the field 'payoffs' is missing")
        return {"start": {key: record[key] for key in ("payoffs", "next") if key in record}}
    if "payoffs" in record or "next" in record:
        raise ConfigError("game: with states, give payoffs and next in each state")
    if not isinstance(states, Mapping) or not 1 <= len(states) <= MOST_STATES:
        raise ConfigError(f"game: states: expected a mapping of 1 to {MOST_STATES:,} names to their payoffs and next")
    _names(list(states), _SEAT, "states", "names (letters, digits, underscores)")
    for name, state in states.items():
        if not isinstance(state, Mapping) or not {"payoffs"} <= set(state) <= {"payoffs", "next"}:
            raise ConfigError(f"game: states, {name}: expected payoffs and, where the round continues, next")
    return dict(states)


def _cells(value: object, sizes: Sequence[int], read: Callable[[object, str], T], where: str) -> list[T]:
    """Parse a value nested by the actions of each agent; a scalar holds for all below it."""
    if not sizes:
        return [read(value, where)]
    if not isinstance(value, list | tuple):
        return _cells(value, sizes[1:], read, where) * sizes[0]
    if len(value) != sizes[0]:
        raise ConfigError(f"game: {where}: {len(value)} entries for {sizes[0]} actions")
    return [cell for n, item in enumerate(value) for cell in _cells(item, sizes[1:], read, f"{where}[{n}]")]


def _pay_reader(n: int) -> Callable[[object, str], list[float]]:
    """Return a parser of the payoffs of a joint action for n agents."""

    def read(value: object, where: str) -> list[float]:
        payoffs = list(value) if isinstance(value, list | tuple) else [value] * n
        good = [float(payoff) for payoff in payoffs if _is_pay(payoff)]
        if len(payoffs) != n or len(good) != n:
            kinds = f"a number, or a list of {n}, one for each agent, none beyond {MOST_PAY:g}"
            raise ConfigError(f"game: {where}: expected {kinds}, got {one_line(repr(value), 60)}")
        return good

    return read


def _is_pay(value: object) -> TypeGuard[float]:
    # nan is not within any bounds
    return isinstance(value, int | float) and not isinstance(value, bool) and -MOST_PAY <= value <= MOST_PAY


def _state_reader(states: Sequence[str]) -> Callable[[object, str], int]:
    """Reads which state follows."""
    numbers = {state: index for index, state in enumerate(states)}

    def read(value: object, where: str) -> int:
        if value is None:
            return len(numbers)
        if not isinstance(value, str) or value not in numbers:
            raise ConfigError(f"game: {where}: there is no state {one_line(repr(value), 60)}; null ends the round")
        return numbers[value]

    return read


def _title(value: object) -> str:
    if not isinstance(value, str) or not _NAMED_TITLE.fullmatch(value):
        raise ConfigError(f"game: the name {one_line(repr(value), 60)} must be letters, digits, spaces and hyphens")
    return value


def _steps(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_STEPS:
        raise ConfigError(f"game: steps must be a whole number up to {MOST_STEPS:,}, got {one_line(repr(value), 60)}")
    return value
