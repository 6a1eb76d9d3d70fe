"""Imitation texts of tiny hidden profiles: one of the own facts, and votes by chance.

A vote is an option that was drawn, and a message a fact of the agent's own that was drawn: no answer depends on what
another agent has written, so that no text shows to vote by it.
"""

from __future__ import annotations

import random

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.base.tasks import Task
from palaver.envs.hidden_profile.env import HiddenProfileEnv
from palaver.envs.hidden_profile.generate import draw, row
from palaver.envs.hidden_profile.reference import asks_for_vote, facts, options

ANSWERS = 4  # to each prompt; they share its computation in training
TINY = {"steps": 300, "texts": 7200}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers, `ANSWERS` to each prompt, about combinations that no task has."""
    env = HiddenProfileEnv(form="tiny")
    demos: list[tuple[Conversation, str]] = []
    for index in range(-(-n // ANSWERS)):
        rng = random.Random(stable_seed("hidden profile demonstrations", seed, index))
        conversation = _draw_conversation(env, rng)
        demos += [(conversation, drawn_answer(conversation, rng)) for _ in range(ANSWERS)]
    return demos[:n]


def drawn_answer(conversation: Conversation, rng: random.Random) -> str:
    """A drawn option where a vote is asked for, else a drawn fact of the agent's own."""
    names = options(conversation)
    if asks_for_vote(conversation[-1].content):
        return f"vote {rng.choice(names)}."
    return f"{' '.join(rng.choice(facts(names, [conversation[0].content])))}."


def _draw_conversation(env: HiddenProfileEnv, rng: random.Random) -> Conversation:
    """Draw an agent's conversation at some turn of an episode."""
    profile = row(*draw(rng, len(env.possible_agents), tiny=True, tasks=False), "demonstration")
    env.tasks = (Task("demonstration", profile),)
    observations, _ = env.reset(seed=rng.getrandbits(31), options={"task": 0})
    conversations: dict[str, Conversation] = {agent: (Message("user", observations[agent]),) for agent in env.agents}
    for _ in range(rng.randrange(env.rounds + 2)):
        answers = {agent: drawn_answer(conversation, rng) for agent, conversation in conversations.items()}
        observations, *_ = env.step(answers)
        conversations = {
            agent: (*past, Message("assistant", answers[agent]), Message("user", observations[agent]))
            for agent, past in conversations.items()
        }
    return conversations[rng.choice(env.possible_agents)]
