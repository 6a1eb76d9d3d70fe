"""Imitation texts of exact games: a situation, then each legal action once.

A model that imitates them begins near a uniform policy over the legal actions, so that no text shows how to play; all
actions of a prompt in one batch leave no noise of a draw between them. Its answers (`my card J, opened: call.`,
`a2 after 1 2: defect.`) restate what an action may have to depend on, because a model of two layers does not look into
its prompt for what no answer has ever depended on. They do so in words that are no legal actions, since the first of
these counts. A value that is copied follows its key at once (`card J`): then one earlier place of the prompt, the one
after the key, is all that the second layer has to look for. A quarter of the prompts are no game's: exercises with many
keys and values, for three cards alone are too little to learn to copy from.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

from palaver.core import Conversation, Message
from palaver.envs.games import kuhn, leduc
from palaver.envs.games.game import ExtensiveGame
from palaver.envs.games.lines import STONES, BoardState, tic_tac_toe
from palaver.envs.matrix.repeated import draw_round, stated
from palaver.utils.demonstrations import draw_texts

SHARES = {"kuhn": 0.15, "leduc": 0.25, "repeated": 0.2, "tictactoe": 0.15, "drill": 0.25}
FRESH = 0.6  # share of repeated games whose observations stand alone, with a memory of one round
KEYS = ("card", "public card", "stone", "round", "chip", "place")
VALUES = ("J", "Q", "K", "X", "O", "first", "second", *map(str, range(1, 10)))
LISTED = ("check", "bet", "fold", "call", "raise", "cooperate", "defect", *VALUES)
DONE = {"check": "checked", "bet": "opened", "raise": "raised", "call": "called"}
TINY = {"steps": 850, "batch": 16, "texts": 20000, "most_answers": 6, "adam_lr": 0.003}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers: to each of the environments' prompts that is drawn, every legal action once."""
    return draw_texts("exact games", n, seed, lambda rng: stated(*_draw_situation(rng)))


def _draw_situation(rng: random.Random) -> tuple[Conversation, str, tuple[str, ...]]:
    """Draw a player's conversation, its situation in words, and its legal actions."""
    name = rng.choices([*SHARES], [*SHARES.values()])[0]
    if name == "repeated":
        return draw_round(rng, fresh=rng.random() < FRESH)
    if name == "drill":
        return _draw_drill(rng)
    game = _games()[name]
    state, player = draw_state(rng, game)
    return (Message("user", game.prompt(state, player)),), _situation(state, player), game.actions(state)


def draw_state(rng: random.Random, game: ExtensiveGame[Any]) -> tuple[Any, int]:
    """Draw a state of a game of random actions, and the player to act."""
    states = [game.start(rng.choice([*game.deals()]))]
    while game.mover(states[-1]) is not None:
        states.append(game.after(states[-1], rng.choice(game.actions(states[-1]))))
    state = rng.choice(states[:-1])
    player = game.mover(state)
    assert player is not None
    return state, player


def _draw_drill(rng: random.Random) -> tuple[Conversation, str, tuple[str, ...]]:
    """Draw an exercise in copying: keys with values, two of which are asked for, and actions."""
    values = {key: rng.choice(VALUES) for key in rng.sample(KEYS, len(KEYS))}
    first, second = rng.sample(KEYS, 2)
    actions = tuple(rng.sample(LISTED, rng.randint(2, 5)))
    shown = " ".join(f"Your {key}: {value}." for key, value in values.items())
    prompt = f"{shown}\nSay: {first}, {second}.\nActions: {', '.join(actions)}."
    return (Message("user", prompt),), f"my {first} {values[first]}, {second} {values[second]}", actions


def _situation(state: kuhn.KuhnState | leduc.LeducState | BoardState, player: int) -> str:
    if isinstance(state, BoardState):
        return f"my stone is {STONES[player]}"
    acts = state.acts if isinstance(state, kuhn.KuhnState) else state.first if state.second is None else state.second
    shown = [f"my card {state.cards[player]},"]
    if isinstance(state, leduc.LeducState) and state.second is not None:
        shown.append(f"public card {state.cards[2]},")
    return " ".join([*shown, done(acts)])


def done(acts: Sequence[str]) -> str:
    """Past actions of a round, in words that name no action."""
    return " ".join(DONE[act] for act in acts) or "begins"


@functools.cache
def _games() -> dict[str, ExtensiveGame[Any]]:
    return {"kuhn": kuhn.GAME, "leduc": leduc.GAME, "tictactoe": tic_tac_toe()}
