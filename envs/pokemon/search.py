"""`oracle@1`: looks one turn ahead in copies of the battle.

It cheats: a copy holds the opponent's hidden Pokémon, moves and items, and the opponent's reply is taken from the
opponent's own view. It says what full information is worth for one turn, and is a coach, not a player to compare with.
The dice of the copies are others than those of the battle.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from palaver.core import PolicyError, stable_seed
from palaver.envs.base import TextEnv
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.facts import active, opponent
from palaver.envs.pokemon.heuristics.expert import duel, gym_leader_1, veteran_1
from palaver.envs.pokemon.showdown import Battle, Side, View
from palaver.envs.pokemon.showdown.dex import Dex

DICE = 2  # throws for each pair of choices; the same for all own actions
ALIVE = 0.5  # worth of a Pokémon that has not fainted, beside its part of hit points
STATUS = 0.15  # what a condition takes from that
POSITION = 0.3  # weight of the duel on the field
REPLIES = (veteran_1, gym_leader_1)


def oracle_1(env: TextEnv, agent: str, seed: int) -> Callable[[str, Mapping[str, Any]], str]:
    """Begin a game as the oracle.

    Every legal action is played in copies of the battle against what `veteran@1` and `gym_leader@1` would say on the
    other side, with `DICE` throws each, and the best mean of `standing` after it is chosen.

    Raises:
        PolicyError: another environment.
    """
    if not isinstance(env, PokemonEnv):
        raise PolicyError("oracle@1 plays pokemon-v0 only")
    draw = random.Random(seed)
    side = cast("Side", agent)

    def choose(_observation: str, _info: Mapping[str, Any]) -> str:
        assert env.battle is not None
        legal = env.view(side)["legal"]
        return legal[0][0] if len(legal) == 1 else best_action(env.battle, env.dex, side, draw)

    return choose


def best_action(battle: Battle, dex: Dex, side: Side, draw: random.Random) -> str:
    """The action with the best mean standing after it."""
    other: Side = "p2" if side == "p1" else "p1"
    actions, theirs = dict(battle.views[side]["legal"]), battle.views[other]
    replies: Sequence[str | None] = [None]
    if theirs["legal"]:
        said = dict(theirs["legal"])
        replies = sorted({said[rule(theirs, dex, draw)] for rule in REPLIES})
    seeds = [stable_seed("oracle", draw.random(), n) for n in range(DICE)]
    tried = [(action, reply, seed) for action in actions for reply in replies for seed in seeds]
    copies = battle.pool.fork([(battle, seed) for _, _, seed in tried])
    battle.pool.choose(
        [
            (copy, {side: actions[action], **({} if reply is None else {other: reply})})
            for copy, (action, reply, _) in zip(copies, tried, strict=True)
        ]
    )
    worth = dict.fromkeys(actions, 0.0)
    for copy, (action, _, _) in zip(copies, tried, strict=True):
        worth[action] += standing(copy, dex, side)
        copy.close()
    most = max(worth.values())
    return draw.choice([action for action in actions if worth[action] >= most - 1e-9])


def standing(battle: Battle, dex: Dex, side: Side) -> float:
    """How well a side stands: hit points, Pokémon alive, conditions, the duel on the field; 100 for a victory."""
    if battle.lost:
        return 0.0
    if battle.ended:
        return 100.0 if battle.winner == side else -100.0 if battle.winner else 0.0
    other: Side = "p2" if side == "p1" else "p1"
    mine = battle.views[side]
    score = _team(mine) - _team(battle.views[other])
    me, foe = active(mine["me"]), opponent(mine)
    if me and foe and me["hp"] and foe["hp"]:
        score += POSITION * duel(dex, me, foe, mine)
    return score


def _team(view: View) -> float:
    return sum(mon["hp"] / mon["max"] + ALIVE - STATUS * bool(mon["status"]) for mon in view["me"]["team"] if mon["hp"])
