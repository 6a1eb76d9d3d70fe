"""Playing whole battles in tests."""

from __future__ import annotations

import functools
import random

from palaver.envs.pokemon import teams
from palaver.envs.pokemon.showdown import Setup

MOST_TURNS = 300


@functools.cache
def sample(pool, format):
    """Packed teams of a format; none where it draws its own."""
    return [team.packed for team in teams.load("sample", format, pool).teams]


def setup(pool, format, seed):
    drawn = sample(pool, format)
    return Setup(format, seed, tuple(random.Random(seed).sample(drawn, 2)) if drawn else None)


def moves(battle, rng):
    """A random legal choice for each side that is asked."""
    return {side: rng.choice(view["legal"])[1] for side, view in battle.views.items() if view["legal"]}


def play(battle, rng, turns=MOST_TURNS):
    """Play with random choices; the choices that were made."""
    made = []
    while not battle.ended and battle.turn < turns:
        made.append(moves(battle, rng))
        battle.choose(made[-1])
    return made


def follow(battle, made):
    for choices in made:
        battle.choose(choices)


def packed(*sets):
    """Sets given as (species, ability, item, moves), at level 100 with full effort."""
    evs = ",".join(["84"] * 6)
    return "]".join(
        f"{species}||{item}|{ability}|{','.join(moves)}||{evs}|||||" for species, ability, item, moves in sets
    )
