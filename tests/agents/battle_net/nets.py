"""Small nets for tests, without a simulator."""

from __future__ import annotations

import torch

from palaver.agents.battle_net.files import NetConfig, untrained
from palaver.agents.battle_net.shape import HEADING, Layout, NetSize, Vocabulary

MON, FIELD, HIT = 3, 2, 2  # numbers of a Pokémon, of the field, of a move of the active one
SMALL = NetSize(word=6, mon=10, width=16, layers=2, heads=2, window=4)
WORDS = Vocabulary.of([f"w{n:02}" for n in range(40)])


def layout():
    """Field, then each Pokémon's own and what is left of its moves, then the four moves."""
    ends = [FIELD + 12 * (MON + 4), FIELD + 12 * (MON + 4) + 4 * HIT]
    begins = range(FIELD, ends[0], MON + 4)
    mons = tuple(tuple(range(n, n + MON)) for n in begins)
    left = tuple(tuple(range(n + MON, n + MON + 4)) for n in begins)
    attacks = tuple(tuple(range(n, n + HIT)) for n in range(ends[0], ends[1], HIT))
    return Layout(ends[1], tuple(range(FIELD)), mons, left, attacks)


PLAN = NetConfig("gen1ou", SMALL, layout(), WORDS)


def net(seed=0, **changes):
    """In evaluation mode."""
    return untrained(NetConfig(**{**vars(PLAN), **changes}), seed).eval()


def turns(B, S, seed=0):
    """Words and numbers of B battles of S turns. The own team's species rise from the second on."""
    draw = torch.Generator().manual_seed(seed)
    words = torch.randint(2, len(WORDS), (B, S, 135), generator=draw)
    words[..., HEADING + 11 : HEADING + 66 : 11] = words[..., HEADING + 11 : HEADING + 66 : 11].sort(-1).values
    return words, torch.randn(B, S, PLAN.layout.count, generator=draw)
