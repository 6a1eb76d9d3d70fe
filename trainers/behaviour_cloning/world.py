"""Inputs of a battle net: layout of the numbers, and vocabulary of a generation."""

from __future__ import annotations

import functools
import re

from palaver.agents.battle_net.shape import Layout, Vocabulary
from palaver.core import ConfigError
from palaver.envs.pokemon import vector
from palaver.envs.pokemon.showdown import dex

STATUSES = ("par", "slp", "frz", "brn", "psn", "tox", "fainted")
REQUESTS = ("move", "switch", "revive", "team", "wait", "end")
WEATHERS = (
    "raindance",
    "sunnyday",
    "sandstorm",
    "hail",
    "snow",
    "snowscape",
    "desolateland",
    "primordialsea",
    "deltastream",
)


@functools.cache
def layout() -> Layout:
    """Of the numbers of `palaver.envs.pokemon.vector`, read from their names."""
    names = vector.names()
    places = ("active", *(f"bench {n}" for n in range(1, vector.TEAM)))
    owners = [f"{owner} {position}: " for owner in ("own", "their") for position in places]
    mons = [[n for n, name in enumerate(names) if name.startswith(owner)] for owner in owners]
    left = [[n for n in indices if re.search(r"move \d left$", names[n])] for indices in mons]
    about = [[n for n in indices if n not in moves_left] for indices, moves_left in zip(mons, left, strict=True)]
    attacks = [[n for n, name in enumerate(names) if name.startswith(f"move {k + 1}: ")] for k in range(vector.MOVES)]
    taken = {n for rows in (mons, attacks) for row in rows for n in row}
    shared = tuple(n for n in range(len(names)) if n not in taken)
    return Layout(len(names), shared, *(tuple(map(tuple, rows)) for rows in (about, left, attacks)))


@functools.cache
def vocabulary(format: str) -> Vocabulary:
    """All words of the format's generation.

    Raises:
        ConfigError: the format names no generation.
        ShowdownError: no Node.js, or no simulator.
    """
    match = re.match(r"gen(\d)", format)
    if not match:
        raise ConfigError(f"the format {format!r:.40} names no generation; it should begin with gen1 to gen9")
    facts = dex.load(int(match.group(1)))
    types = {entry for species in facts.species.values() for entry in species["types"]} | set(facts.chart)
    hidden = {f"hiddenpower{entry}{power}" for entry in types for power in ("", 60, 70)}
    tables = (facts.moves, facts.species, facts.items, facts.abilities)
    return Vocabulary.of(
        {
            format,
            "stellar",
            *STATUSES,
            *REQUESTS,
            *WEATHERS,
            *types,
            *hidden,
            *(word for entry in tables for word in entry),
        }
    )
