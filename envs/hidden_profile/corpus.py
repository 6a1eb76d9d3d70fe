"""Imitation texts of tiny hidden profiles: one of the own facts, a note of what is new, and votes by chance.

A message is a fact of the agent's own that was drawn. A vote begins with the initial of an option of which another
agent has written a fact that is not among the own (`new B: vote amber.`), `none` where there is none, and the option
that follows is drawn, whatever the initial: no text shows to vote by what another agent has written. The initial is
there because a model of two layers does not compare parts of its prompt that no answer has ever depended on; it is no
option, since the first of these counts. A fact follows a word (`known: birch calm.`), as in the prompt: a name at the
begin of a text would be another token.
"""

from __future__ import annotations

import random

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.base.tasks import Task
from palaver.envs.hidden_profile.env import HiddenProfileEnv
from palaver.envs.hidden_profile.generate import draw, row
from palaver.envs.hidden_profile.reference import asks_for_vote, facts, options

ANSWERS = 4  # to each prompt; they share its computation in training
FINAL = 0.5  # share of the prompts that ask for the final vote
TINY = {"steps": 2000, "batch": 16, "texts": 32000, "adam_lr": 0.003}


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
    """A note and a drawn option where a vote is asked for, else a drawn fact of the agent's own."""
    names = options(conversation)
    own = facts(names, [conversation[0].content])
    if asks_for_vote(conversation[-1].content):
        read = facts(names, [message.content for message in conversation[1:] if message.role == "user"])
        new = sorted({option[0].upper() for option, quality in read if (option, quality) not in own})
        return f"new {rng.choice(new) if new else 'none'}: vote {rng.choice(names)}."
    return f"known: {' '.join(rng.choice(own))}."


def _draw_conversation(env: HiddenProfileEnv, rng: random.Random) -> Conversation:
    """Draw an agent's conversation at some turn of an episode."""
    profile = row(*draw(rng, len(env.possible_agents), tiny=True, split="texts"), "demonstration")
    env.tasks = (Task("demonstration", profile),)
    observations, _ = env.reset(seed=rng.getrandbits(31), options={"task": 0})
    conversations: dict[str, Conversation] = {agent: (Message("user", observations[agent]),) for agent in env.agents}
    last = env.rounds + 1
    for _ in range(last if rng.random() < FINAL else rng.randrange(last)):
        answers = {agent: drawn_answer(conversation, rng) for agent, conversation in conversations.items()}
        observations, *_ = env.step(answers)
        conversations = {
            agent: (*past, Message("assistant", answers[agent]), Message("user", observations[agent]))
            for agent, past in conversations.items()
        }
    return conversations[rng.choice(env.possible_agents)]
