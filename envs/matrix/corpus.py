"""Imitation texts of the matrix games: a player names its state, itself, and any action.

A model that imitates them begins near a uniform policy over the legal actions. Its answers (`a1 red.`, `at B a2 left.`,
`me red.` without a name) restate what an action may have to depend on, because a model of two layers does not look
into its prompt for what no answer has ever depended on. To break the symmetry the agents lean a little towards
different actions: at exactly equal policies the gradient of XOR is 0, and a shared model would stay there.
"""

from __future__ import annotations

import functools
import random
import re

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.matrix.env import MatrixEnv
from palaver.envs.matrix.games import FOR_ANY

ANSWERS = 4  # to each prompt; they share its computation in training
LEAN = 0.2  # share of answers in which the n-th agent names the n-th action
NOBODY = "me"
LABORATORY = ("climbing", "two-step", "prisoners-dilemma", "qtran", "happo", "xor", "coordination", "penalty")
GAMES = (*LABORATORY, *("two-step",) * 5)  # naming the state takes practice
SIZES = (2, 4, 6)  # with more agents to tell apart, the name is copied sooner
_SEAT = re.compile(r"You are (\w+)\.$", re.MULTILINE)
_STATE = re.compile(r"State: (\w+)\.$")


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers, `ANSWERS` to each of the environment's prompts."""
    return list(_demonstrations(n, seed))


@functools.lru_cache(maxsize=2)  # every run requests those that name its model, and a laboratory runs thousands
def _demonstrations(n: int, seed: int) -> tuple[tuple[Conversation, str], ...]:
    demos: list[tuple[Conversation, str]] = []
    for index in range(-(-n // ANSWERS)):
        rng = random.Random(stable_seed("matrix demonstrations", seed, index))
        conversation, actions = _draw_conversation(rng)
        demos += [(conversation, _answer(conversation, actions, rng)) for _ in range(ANSWERS)]
    return tuple(demos[:n])


def _draw_conversation(rng: random.Random) -> tuple[Conversation, list[str]]:
    """Draw an agent's conversation at some turn of an episode, and its actions."""
    game = rng.choice(GAMES)
    repeats = rng.choice((1, 1, rng.randint(2, 4)))
    env = _make_env(game, rng.choice(SIZES) if game in FOR_ANY else 2, repeats, rng.random() < 0.75, rng.random() < 0.5)
    observations, infos = env.reset(options={"task": rng.randrange(len(env.tasks))})
    conversations: dict[str, Conversation] = dict.fromkeys(env.agents, ())
    agent_name, left = rng.choice(env.agents), rng.choice((0, rng.randrange(1, 2 * repeats)))
    while True:
        conversations = {agent: (*past, Message("user", observations[agent])) for agent, past in conversations.items()}
        conversation, actions = conversations[agent_name], list(infos[agent_name]["legal_actions"])
        joint = {agent: _answer(past, infos[agent]["legal_actions"], rng) for agent, past in conversations.items()}
        observations, *_, infos = env.step(joint)
        if not left or not env.agents:
            return conversation, actions
        conversations = {agent: (*past, Message("assistant", joint[agent])) for agent, past in conversations.items()}
        left -= 1


def _answer(conversation: Conversation, actions: list[str], rng: random.Random) -> str:
    state, role_match = _STATE.search(conversation[-1].content), _SEAT.search(conversation[0].content)
    action = rng.choice(actions)
    if role_match and rng.random() < LEAN:
        action = actions[(int(role_match[1].removeprefix("a")) - 1) % len(actions)]
    return f"{f'at {state[1]} ' if state else ''}{role_match[1] if role_match else NOBODY} {action}."


@functools.cache
def _make_env(game: str, agents: int, repeats: int, role_prompts: bool, feedback: bool) -> MatrixEnv:
    return MatrixEnv(game, agents=agents, repeats=repeats, role_prompts=role_prompts, feedback=feedback)
