"""Games from files and mappings."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import numpy as np
import yaml

from palaver.core import ConfigError, did_you_mean
from palaver.envs.matrix.rules import fold
from palaver.envs.matrix.table import MOST_CELLS, MOST_STATES, MOST_STEPS, MatrixGame
from palaver.text import one_line

FIELDS = ("name", "agents", "actions", "payoffs", "next", "states", "steps")
MOST_PAY = 1e9
MOST_AGENTS = 16
_NAME = re.compile(r"[^\W_]{1,40}")  # fold leaves it a word that `rules.named` can find
_SEAT = re.compile(r"\w{1,40}")
_TITLE = re.compile(r"\w[\w -]{0,59}")
T = TypeVar("T")


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
    if not isinstance(value, str) or not _TITLE.fullmatch(value):
        raise ConfigError(f"game: the name {one_line(repr(value), 60)} must be letters, digits, spaces and hyphens")
    return value


def _steps(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_STEPS:
        raise ConfigError(f"game: steps must be a whole number up to {MOST_STEPS:,}, got {one_line(repr(value), 60)}")
    return value
