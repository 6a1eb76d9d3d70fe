"""Scripted players of the exact games.

`*_reference` play an equilibrium or search, `uniform` draws, and all are silent when it is not their turn. The arena's
players do the same with one generator for a game.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.base.env import TextEnv
from palaver.envs.base.scripted import observed
from palaver.envs.games import kuhn, leduc, tiny_hanabi
from palaver.envs.games.cfr import cfr_plus
from palaver.envs.games.lines import LineGame, connect_four, tic_tac_toe
from palaver.envs.games.search import best_actions
from palaver.envs.games.solve import GameTree, Profile, best_team

ALPHA = 1 / 6  # of Kuhn's family
ITERATIONS = 200  # of CFR+
DEPTH = 4  # moves that the player of connect four looks ahead
_ACTIONS = re.compile(r"^Actions: (.+)\.$", re.MULTILINE)
_TITLE = re.compile(r"Connect (four|\d+)\.")
Rule = Callable[[Conversation, int], str]
Player = Callable[[str, Mapping[str, Any]], str]


class ProfilePlayer:
    """Scripted player that draws its actions from a profile; "" when it is not its turn.

    Args:
        profile: makes the profile, at first use.
    """

    def __init__(self, profile: Callable[[], Profile]) -> None:
        self._profile = profile

    def __call__(self, conversation: Conversation, seed: int) -> str:
        """Return the action that the seed draws."""
        chances = self._profile().get(_last(conversation), {})
        return _draw(conversation, seed).choices([*chances], [*chances.values()])[0] if chances else ""

    def chances(self, prompts: Sequence[str], actions: Sequence[Sequence[str]]) -> list[list[float]]:
        """Probabilities of the legal actions at each prompt."""
        profile = self._profile()
        rows = zip(prompts, actions, strict=True)
        return [[profile.get(prompt, {}).get(action, 0.0) for action in legal] for prompt, legal in rows]


def tictactoe_reference(conversation: Conversation, seed: int) -> str:
    """Perfect player of tic-tac-toe; "" when it is not its turn."""
    return _searched(tic_tac_toe(), 9, conversation, seed)


def connect4_reference(conversation: Conversation, seed: int) -> str:
    """Player of connect four that looks `DEPTH` moves ahead; "" when it is not its turn.

    It reads the size of the board from the prompt.
    """
    prompt = _last(conversation)
    title, lines = _TITLE.match(prompt), prompt.splitlines()
    if title is None or len(lines) < 4:
        return ""
    length = 4 if title[1] == "four" else int(title[1])
    return _searched(connect_four(len(lines) - 3, len(lines[1].split()), length), DEPTH, conversation, seed)


def uniform(conversation: Conversation, seed: int) -> str:
    """Any of the actions in the last prompt, drawn by the seed; "" if it lists none."""
    listed = _ACTIONS.findall(_last(conversation))
    return _draw(conversation, seed).choice(listed[-1].split(", ")) if listed else ""


def kuhn_player(_env: TextEnv, _agent: str, seed: int) -> Player:
    """Player of one game that plays Kuhn's equilibrium."""
    return _player(kuhn_reference, seed)


def leduc_player(_env: TextEnv, _agent: str, seed: int) -> Player:
    """Player of one game that plays the equilibrium of Leduc hold'em."""
    return _player(leduc_reference, seed)


def tictactoe_player(_env: TextEnv, _agent: str, seed: int) -> Player:
    """Player of one game that plays perfectly."""
    return _player(tictactoe_reference, seed)


def connect4_player(_env: TextEnv, _agent: str, seed: int) -> Player:
    """Player of one game that looks `DEPTH` moves ahead."""
    return _player(connect4_reference, seed)


def _player(rule: Rule, seed: int) -> Player:
    draw = random.Random(seed)
    return lambda observation, _info: rule((Message("user", observation),), draw.getrandbits(32))


def _searched(game: LineGame, depth: int, conversation: Conversation, seed: int) -> str:
    state = game.board(_last(conversation))
    return "" if state is None else _draw(conversation, seed).choice(best_actions(game, state, depth))


def _last(conversation: Conversation) -> str:
    return next(reversed(observed(conversation)), "")


def _draw(conversation: Conversation, seed: int) -> random.Random:
    return random.Random(stable_seed("exact games", seed, _last(conversation)))


@functools.cache
def _kuhn() -> Profile:
    return kuhn.equilibrium(ALPHA)


@functools.cache
def _leduc() -> Profile:
    return cfr_plus(GameTree.of(leduc.GAME), ITERATIONS)


@functools.cache
def _tiny_hanabi() -> Profile:
    games = (
        tiny_hanabi.TinyHanabi(name, show_payoffs=shown) for name in tiny_hanabi.PAYOFFS for shown in (False, True)
    )
    return {prompt: row for game in games for prompt, row in best_team(GameTree.of(game))[1].items()}


kuhn_reference = ProfilePlayer(_kuhn)  # the equilibrium of Kuhn poker with α = 1/6
leduc_reference = ProfilePlayer(_leduc)  # the average policy of CFR+ in Leduc hold'em
tiny_hanabi_reference = ProfilePlayer(_tiny_hanabi)  # a best team of each of the six games
