"""Determinised worlds of a side: its battle with all hidden information resampled.

The own side is exact. Of the opponent what the side saw is kept (Pokémon, hit points, conditions, boosts, moves with
their uses, items, abilities, field); the rest is drawn from the movesets that the simulator's package has for the roles
of the random battles, unseen Pokémon from the format's tier. Counters that no player is shown (sleep, confusion, Wrap)
are resampled, a choice that the opponent has already made is forgotten, and the dice are others. Two battles that look
the same to the side have the same worlds, to the last number: a test compares them.

It approximates: a screen is presumed as short as is still possible, a Substitute new, and no item is ruled out by what
it did not do. The work is done in the simulator's process, in `showdown/imagine.js`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from palaver.envs.pokemon.showdown import Battle, Side, dice


def worlds(battle: Battle, side: Side, seeds: Iterable[int]) -> list[Battle]:
    """A world for each seed: battles of their own, to be closed.

    Raises:
        BattleLostError: the battle is lost.
    """
    return battle.pool.derive([(battle, "imagine", (side, dice("world", seed))) for seed in seeds])


def foresee(world: Battle, side: Side, turns: int, tried: Sequence[tuple[str | None, str | None, int]]) -> list[float]:
    """Evaluate a side `turns` turns after each of several joint actions, in Pokémon.

    Each is `(words of p1, words of p2, seed)`. After the first both sides use what promises most at once, see
    `showdown/rollout.js`. `world` is not changed.

    Raises:
        BattleLostError: the battle is lost.
    """
    tries = [(dice("foresee", seed), one, two) for one, two, seed in tried]
    values: list[float] = world.pool.request_battle(world, "foresee", side, turns, *tries)
    return values
