"""Imitation texts of repeated matrix games with a memory of one round.

As those of `palaver.envs.games.corpus`, which has these among others: an answer restates the last round (`a2 after 1 2:
defect.`), and then names each legal action once. A model of these texts alone restates it without fault, which
reciprocity depends on.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence

from palaver.core import Conversation, Message
from palaver.envs.matrix.env import MatrixEnv
from palaver.utils.demonstrations import Pair, draw_texts

GAMES = ("prisoners-dilemma", "chicken", "stag-hunt", "rock-paper-scissors", "matching-pennies")
ROUNDS = 20
TINY = {"steps": 400, "batch": 16, "texts": 12000, "adam_lr": 0.003}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers: to each of the environment's prompts that is drawn, every legal action once."""
    return draw_texts("repeated games", n, seed, lambda rng: stated(*draw_round(rng, fresh=True)))


def stated(conversation: Conversation, situation: str, ends: Sequence[str]) -> list[Pair]:
    """Answers of one prompt, each with the situation before it."""
    return [(conversation, f"{situation}: {end}.") for end in ends]


def draw_round(rng: random.Random, *, fresh: bool) -> tuple[Conversation, str, tuple[str, ...]]:
    """Draw a conversation, its situation in words, and its legal actions.

    It is of a player in some round of a repeated game of random actions.

    Args:
        rng: generator.
        fresh: whether each observation stands alone, with a memory of one round.
    """
    env = _make_env(rng.choice(GAMES), fresh)
    observations, infos = env.reset(options={"task": rng.randrange(len(env.tasks))})
    agent = rng.choice(env.agents)
    turns = rng.randrange(2) if fresh else rng.choice((0, *(rng.randrange(1, most) for most in (4, 4, ROUNDS))))
    conversation: Conversation = (Message("user", observations[agent]),)
    situation = "begins"
    for _ in range(turns):
        joint = {name: rng.choice(infos[name]["legal_actions"]) for name in env.agents}
        answer = f"{agent} {situation}: {joint[agent]}."
        observations, *_, infos = env.step(joint)
        past = () if fresh else (*conversation, Message("assistant", answer))
        conversation = (*past, Message("user", observations[agent]))
        places = [actions.index(joint[name]) + 1 for name, actions in zip(joint, env.game.actions, strict=True)]
        situation = f"after {places[0]} {places[1]}"
    return conversation, f"{agent} {situation}", tuple(infos[agent]["legal_actions"])


@functools.cache
def _make_env(game: str, fresh: bool) -> MatrixEnv:
    return MatrixEnv(game, repeats=ROUNDS, feedback=True, fresh=fresh)
