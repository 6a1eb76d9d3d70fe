"""Scripted players for `matrix-v1`.

`reference` plays its part of an optimal joint action, `uniform` draws, `lazy` is silent. `always_first`, `always_last`
and `tit_for_tat` are the usual strategies of repeated dilemmas, where the first action cooperates. In the arena
`legal` draws, `first` and `last` always play the first and the last action of their table.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from palaver.core import Conversation, stable_seed
from palaver.envs.base.env import TextEnv
from palaver.envs.base.scripted import observed
from palaver.envs.matrix import games, prompts
from palaver.envs.matrix.rules import MatrixGame
from palaver.envs.matrix.solve import Solution, solve

_HEAD = re.compile(r"Game: (.+?)\.(?: You are (\w+)\.)?(?:\n|$)")
_ACTIONS = re.compile(r"^Actions: (.+)\.$", re.MULTILINE)
_STATE = re.compile(r"State: (\w+)\.")
_CHOSE = re.compile(r"(\w+) chose (\w+)")
_ROUND = re.compile(r"Round \d+ of \d+\.")


def reference(conversation: Conversation, seed: int) -> str:
    """The own part of the first optimal joint action, which every player computes by itself.

    The game is read from the tables where the prompt shows them, else known by its name. A player without a name plays
    the part of one drawn by the seed. Of a game that it cannot know it plays the first action listed.
    """
    prompts_seen = observed(conversation)
    head = _HEAD.match(prompts_seen[0]) if prompts_seen else None
    solution = _solution(head[1], prompts_seen[0]) if head else None
    if head is None or solution is None:
        return next(iter(_listed(prompts_seen)), "")
    game = solution.game
    state, left = _position(game, prompts_seen)
    agents = game.agents
    agent_name = head[2] if head[2] in agents else agents[stable_seed("matrix seat", seed) % len(agents)]
    own_index = agents.index(agent_name)
    return game.actions[own_index][solution.optimal(state, left)[own_index]]


def uniform(conversation: Conversation, seed: int) -> str:
    """Any of the listed actions, drawn by the seed; "" if none are listed."""
    listed = _listed(observed(conversation))
    return listed[stable_seed("matrix uniform", seed) % len(listed)] if listed else ""


def always_first(conversation: Conversation, _seed: int) -> str:
    """The first action of the table; it cooperates in the dilemma."""
    return next(iter(_table(observed(conversation))), "")


def always_last(conversation: Conversation, _seed: int) -> str:
    """The last action of the table; it defects in the dilemma."""
    return next(reversed(_table(observed(conversation))), "")


def tit_for_tat(conversation: Conversation, _seed: int) -> str:
    """The first action of the table, and from then on the other player's last one.

    The other's action is read from the feedback; without it, or after an illegal answer, the first action is played.
    """
    prompts_seen = observed(conversation)
    actions = _table(prompts_seen)
    head = _HEAD.match(prompts_seen[0]) if prompts_seen else None
    chosen = dict(_CHOSE.findall(prompts_seen[-1])) if prompts_seen else {}
    others = [action for agent, action in chosen.items() if head and agent != head[2] and action in actions]
    return others[0] if others else next(iter(actions), "")


def legal(_env: TextEnv, _agent: str, seed: int) -> Callable[[str, Mapping[str, Any]], str]:
    """A player of one game that draws among its legal actions."""
    draw = random.Random(seed)
    return lambda _observation, info: draw.choice(info["legal_actions"])


def first(_env: TextEnv, _agent: str, _seed: int) -> Callable[[str, Mapping[str, Any]], str]:
    """A player of one game that always plays the first action of its table."""
    return lambda _observation, info: str(info["legal_actions"][0])


def last(_env: TextEnv, _agent: str, _seed: int) -> Callable[[str, Mapping[str, Any]], str]:
    """A player of one game that always plays the last action of its table."""
    return lambda _observation, info: str(info["legal_actions"][-1])


@functools.lru_cache(maxsize=64)
def _solution(title: str, opening: str) -> Solution | None:
    game = prompts.read(opening) or games.titled(title)
    return solve(game) if game else None


def _position(game: MatrixGame, prompts_seen: Sequence[str]) -> tuple[int, int]:
    """The number of the state, and the turns left in the round, this one included."""
    begun = max((n for n, text in enumerate(prompts_seen) if _ROUND.search(text)), default=0)
    named = _STATE.findall(prompts_seen[-1])
    state = game.states.index(named[-1]) if named and named[-1] in game.states else 0
    return state, max(1, game.horizon - (len(prompts_seen) - 1 - begun))


def _table(prompts_seen: Sequence[str]) -> Sequence[str]:
    """The player's actions in the order of the table, or of the prompt of an unknown game."""
    head = _HEAD.match(prompts_seen[0]) if prompts_seen else None
    solution = _solution(head[1], prompts_seen[0]) if head else None
    if head is None or solution is None:
        return _listed(prompts_seen)
    agents = solution.game.agents
    return solution.game.actions[agents.index(head[2]) if head[2] in agents else 0]


def _listed(prompts_seen: Sequence[str]) -> list[str]:
    lists = _ACTIONS.findall(prompts_seen[0]) if prompts_seen else []
    return lists[-1].split(", ") if lists else []
