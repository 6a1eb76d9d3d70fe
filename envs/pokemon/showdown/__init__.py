"""The embedded simulator: battles of Pokémon Showdown in worker processes, without server.

    with BattlePool() as pool:
        [battle] = pool.start([Setup("gen1randombattle", seed=7)])
        while not battle.ended:
            battle.choose({side: next(iter(legal.values())) for side, legal in battle.legal.items() if legal})

The rules are those of the npm package pokemon-showdown (MIT licence), pinned in `package-lock.json` and installed by
`palaver pokemon install`.
"""

from __future__ import annotations

from palaver.envs.pokemon.showdown.battle import Battle, Setup, dice
from palaver.envs.pokemon.showdown.errors import BattleLostError, ShowdownError
from palaver.envs.pokemon.showdown.pool import BattlePool, shared_pool
from palaver.envs.pokemon.showdown.view import SIDES, OpposingPokemon, Own, Side, SideView

__all__ = [
    "SIDES",
    "Battle",
    "BattleLostError",
    "BattlePool",
    "OpposingPokemon",
    "Own",
    "Setup",
    "ShowdownError",
    "Side",
    "SideView",
    "dice",
    "shared_pool",
]
