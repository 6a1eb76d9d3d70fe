"""Scenes of environments that are more than text: battles and boards.

A scene is plain data of the page, as an agent may see it. It holds no more than the agent's observations do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from palaver.benchmarks.viewer import battles
from palaver.benchmarks.viewer.album import NAME, figure
from palaver.core import PalaverError
from palaver.envs.base.env import TextEnv
from palaver.envs.base.wrappers import own_env
from palaver.envs.minecraft.env import BuildingEnv
from palaver.envs.minecraft.letters import slices
from palaver.envs.minecraft.projection import colors
from palaver.envs.minecraft.world import AIR
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.showdown.dex import Dex
from palaver.envs.pokemon.showdown.view import OpposingPokemon, Own, SideState, SideView
from palaver.text import one_line

_LISTED = re.compile(r"^\d+\. (.+?) \((.+)\)$", re.MULTILINE)


def scene(env: TextEnv, agent: str, observation: str, over: bool) -> dict[str, Any] | None:
    """Return the scene of an agent; None for an environment of texts.

    Args:
        env: of the episode.
        agent: its player.
        observation: the newest one.
        over: True after the episode, when everything may be seen.
    """
    inner = own_env(env)
    if isinstance(inner, PokemonEnv):
        return battle(inner, agent, observation)
    return board(inner, agent, over) if isinstance(inner, BuildingEnv) else None


def story(env: TextEnv, observation: str) -> str | None:
    """Return the events of a battle that an observation tells; None for other environments."""
    return battles.events(observation) if isinstance(own_env(env), PokemonEnv) else None


def battle(env: PokemonEnv, agent: str, observation: str) -> dict[str, Any] | None:
    """Both teams as a side knows them, and words on actions; None without the simulator."""
    try:
        view = env.view(agent)
    except PalaverError:
        return None
    weather = [] if view["weather"] is None else [view["weather"][0]]
    return {
        "kind": "battle",
        "turn": env.battle.turn if env.battle else 0,
        "field": [one_line(name, NAME) for name in (*weather, *view["field"])],
        "sides": [_side(env.dex, view["me"], view["me"]["team"]), _side(env.dex, view["foe"], view["foe"]["team"])],
        "unseen": max(0, view["foe"]["size"] - len(view["foe"]["team"])),
        "actions": _actions(env.dex, view, dict(_LISTED.findall(observation))),
    }


def _actions(dex: Dex, view: SideView, listed: Mapping[str, str]) -> list[list[str]]:
    """[action, its name, words on it] of all legal actions."""
    standing = {
        mon["name"]: f"{math.ceil(100 * mon['hp'] / max(1, mon['max']))} % {mon['status']}"
        for mon in view["me"]["team"]
    }
    named = []
    for action, _ in view["legal"]:
        verb, _, rest = action.partition(" ")
        id, _, extra = rest.partition(" ")
        name = dex.moves[id]["name"] if verb == "move" and id in dex.moves else _species(dex, id)
        words = listed.get(action) or (standing.get(id, "") if verb != "move" else "")
        named.append([action, one_line(f"{name} ({extra})" if extra else name, NAME), one_line(words, 160)])
    return named


def _species(dex: Dex, id: str) -> str:
    return dex.species[id]["name"] if id in dex.species else id


def _side(dex: Dex, state: SideState, team: list[Own] | list[OpposingPokemon]) -> dict[str, Any]:
    mons = []
    for place, mon in enumerate(team):
        active = place == state["active"]
        boosts = [[stat, stage] for stat, stage in state["boosts"].items() if stage] if active else []
        share = figure(mon["hp"] / max(1, mon["max"]))
        mons.append([one_line(_species(dex, mon["species"]), NAME), share, one_line(mon["status"], 8), active, boosts])
    conditions = [f"{name} {layers[0]}" if layers[0] > 1 else name for name, layers in state["conditions"].items()]
    return {"mons": mons, "conditions": [one_line(each, NAME) for each in (*conditions, *state["volatiles"])]}


def board(env: BuildingEnv, agent: str, over: bool) -> dict[str, Any]:
    """Plan and built world, layer by layer.

    During the episode an agent sees its own blocks; those of the others are drawn only where its observations list all
    wrong cells, which gives them away.
    """
    index = env.possible_agents.index(agent)
    terms = env.terms(index)
    everything = over or getattr(env, "feedback", "") == "perfect"
    built = env.built if everything else np.where(env.owner == index + 1, env.built, AIR)
    grids = zip(slices(env.target), slices(built), slices(env.owner if over else np.zeros_like(env.owner)), strict=True)
    return {
        "kind": "board",
        "palette": [[one_line(name, NAME), _css(color)] for name, color in _palette(env).items()],
        "shape": list(env.target.shape),
        "origin": list(env.origin),
        "any_block": env.shape_only,
        "verb": terms.verb,
        "blocks": [one_line(name, NAME) for name in terms.codes],
        "everything": everything,
        "layers": [
            [heading, target.tolist(), stands.tolist(), owner.tolist()]
            for (heading, target), (_, stands), (_, owner) in grids
        ],
    }


def _palette(env: BuildingEnv) -> Mapping[str, tuple[float, ...]]:
    return dict(zip(env.palette, colors(env.palette), strict=True))


def _css(color: tuple[float, ...]) -> str:
    return "#" + "".join(f"{round(255 * min(1.0, max(0.0, part))):02x}" for part in color[:3])
