"""Prompts of the matrix games, with the tables written into them and parsed again."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from palaver.envs.matrix.rules import MatrixGame, Position

ONLY = "start"  # the state of a game that names none
_TABLE = re.compile(r"^Payoffs of (\w+(?:, \w+)*)(?: in (\w+))?: (.+)\.$", re.MULTILINE)
_CELL = re.compile(r"([^=]+) = (\S+(?:, \S+)*?)(?:, then (\w+))?")
_LIMIT = re.compile(r"^A round ends after (\d{1,4}) turns\.$", re.MULTILINE)


def opening(
    game: MatrixGame,
    agent_name: str,
    wording: str,
    *,
    order: int = 0,
    repeats: int = 1,
    named: bool = True,
    tables: str = "",
    at: Position | None = None,
) -> str:
    """The first observation of an agent.

    Args:
        game: that is played.
        agent_name: the agent that observes it.
        wording: the sentences of the task.
        order: by how many places the list of actions is turned.
        repeats: rounds in an episode.
        named: True names the agent; otherwise agents with the same actions get the same prompt.
        tables: the payoffs as `written`, empty where they are not shown.
        at: the position; None is the first.
    """
    own_actions = game.actions[game.agents.index(agent_name)]
    turned = own_actions[order % len(own_actions) :] + own_actions[: order % len(own_actions)]
    lines = [
        f"Game: {game.title}." + (f" You are {agent_name}." if named else ""),
        wording,
        f"Actions: {', '.join(turned)}.",
        tables,
        *([f"A round ends after {game.steps} turns."] if game.steps else []),
        position_text(game, at or Position(0, game.horizon), repeats),
    ]
    return "\n".join(line for line in lines if line)


def position_text(game: MatrixGame, at: Position, repeats: int) -> str:
    """Round and state, where there are several."""
    parts = []
    if repeats > 1 and at.left == game.horizon:
        parts.append(f"Round {at.round + 1} of {repeats}.")
    if len(game.states) > 1:
        parts.append(f"State: {game.states[at.state]}.")
    return " ".join(parts)


def happened(game: MatrixGame, chosen: Sequence[int | None], rewards: Sequence[float]) -> str:
    """Actions and rewards of the last turn; the same for all."""
    acts = (
        f"{agent} {'said no action' if n is None else f'chose {names[n]}'}"
        for agent, names, n in zip(game.agents, game.actions, chosen, strict=True)
    )
    return f"{', '.join(acts)}. Paid: {', '.join(map(number_text, rewards))}."


def number_text(value: float) -> str:
    """The shortest text that gives this number again.

    >>> number_text(7.0), number_text(-0.1)
    ('7', '-0.1')
    """
    return str(int(value)) if value == int(value) else repr(float(value))


def written(game: MatrixGame) -> str:
    """The tables, a line per state.

    A line has the payoffs, or one for all, and the next state of each joint action.
    """
    joints = [" ".join(joint) for joint in game.joints()]
    lines = []
    for state, state_payoffs, follows in zip(game.states, game.payoffs, game.successor, strict=True):
        cells = [
            f"{joint} = {_payoff_text(payoff)}" + (f", then {game.states[n]}" if n < len(game.states) else "")
            for joint, payoff, n in zip(joints, state_payoffs, follows, strict=True)
        ]
        where = "" if game.states == (ONLY,) else f" in {state}"
        lines.append(f"Payoffs of {', '.join(game.agents)}{where}: {'; '.join(cells)}.")
    return "\n".join(lines)


def _payoff_text(payoff: Sequence[float]) -> str:
    numbers = [number_text(float(value)) for value in payoff]
    return numbers[0] if len(set(numbers)) == 1 else ", ".join(numbers)


def read(text: str) -> MatrixGame | None:
    """Parse the tables in a prompt, the inverse of `written`; None if there are none."""
    tables = _TABLE.findall(text)
    if not tables:
        return None
    agents = tuple(tables[0][0].split(", "))
    states = tuple(state or ONLY for _, state, _ in tables)
    numbers = {state: index for index, state in enumerate(states)}
    cells = [[_CELL.fullmatch(cell) for cell in line.split("; ")] for _, _, line in tables]
    rows = [[cell.groups() for cell in line if cell] for line in cells]
    joints = [joint.split() for joint, _, _ in rows[0]]
    actions = tuple(tuple(dict.fromkeys(column)) for column in zip(*joints, strict=True))
    payoffs = [[[float(payoff) for payoff in payoff_text.split(", ")] for _, payoff_text, _ in line] for line in rows]
    limit_match = _LIMIT.search(text)
    return MatrixGame(
        "shown",
        agents,
        actions,
        states,
        np.array([[payoff * (len(agents) if len(payoff) == 1 else 1) for payoff in line] for line in payoffs]),
        np.array([[numbers.get(state or "", len(states)) for _, _, state in line] for line in rows], dtype=np.intp),
        int(limit_match[1]) if limit_match else 0,
    )
