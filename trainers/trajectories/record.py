"""One side of one battle, as data to learn from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

MISSING = -1  # slot of an action that is not known, or that has no slot: it gives no gradient


@dataclass(frozen=True, slots=True)
class Decision:
    """One choice of a side that could act.

    Attributes:
        turn: of the simulator.
        words: W words of `palaver.envs.pokemon.vector`.
        numbers: (K,) float32, as `vector.names()` names them.
        mask: (14,) bool, the legal slots.
        slot: of the action that was executed; `MISSING` where it is not known.
        requested: the player's answer, its first 200 characters.
        executed: the legal action that was played, "" where an answer forfeited the battle.
        legal: every legal action, in order.
        reward: reward between this decision and the next one of this side, or the end.
        text: the observation as text; empty where it was not kept.
        advice: (14,) float32 that add up to 1, how good a coach that was asked held each slot; None where none was.
    """

    turn: int
    words: tuple[str, ...]
    numbers: np.ndarray
    mask: np.ndarray
    slot: int
    requested: str
    executed: str
    legal: tuple[str, ...]
    reward: float
    text: str = ""
    advice: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class BattleSide:
    """One side of one battle: who played it, and how it ended.

    Attributes:
        battle: name of the battle, the same for both sides.
        format: of Pokémon Showdown.
        side: `p1` or `p2`.
        player: label of who chose.
        opponent: label of the other side's.
        teamset: where the teams came from.
        task: id of the match-up.
        seed: of the battle.
        result: 1 won, 0.5 tied or cut, 0 lost.
    """

    battle: str
    format: str
    side: str
    player: str
    opponent: str
    teamset: str
    task: str
    seed: int
    result: float

    def about(self) -> dict[str, Any]:
        """These fields by name, without those of a subclass."""
        return {name: getattr(self, name) for name in ABOUT}


ABOUT = tuple(field.name for field in fields(BattleSide))


@dataclass(frozen=True, slots=True)
class Trajectory(BattleSide):
    """All decisions of one side of one battle, in order, from its own private view."""

    decisions: tuple[Decision, ...]
