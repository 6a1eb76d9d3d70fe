"""Imitation texts of tiny hidden profiles: own facts, notes of what was read, and any vote.

Answers are each of the agent's own facts, or two options of the three. A final vote begins with notes of the messages,
in their order: the attribute, the initial of its option, and `own`, or `fresh` where the fact is not among the agent's
own. Then comes the initial of the first option of a fresh fact, `none` where there is none.

    read dry A own, near B fresh, calm A own, near B fresh; fresh B: vote amber.

Any option follows, so that no text shows to vote by what another agent has written. The notes are there because a model
of two layers does not compare parts of its prompt that no answer has ever depended on; the options are written as
initials since the first option named is the vote. A fact follows a word (`known: birch calm.`), as in the prompt: a
name at the start of a text would be another token.
"""

from __future__ import annotations

import itertools
import random

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.base.tasks import Task
from palaver.envs.hidden_profile.env import HiddenProfileEnv
from palaver.envs.hidden_profile.generate import draw, row
from palaver.envs.hidden_profile.reference import asks_for_vote, facts, options

FINAL = 0.7  # share of the prompts that ask for the final vote
VOTES = 2  # answers to a prompt that asks for a vote
TINY = {"steps": 3200, "batch": 16, "texts": 48_000, "adam_lr": 0.003, "decay": 0.6}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers: to each prompt every own fact or `VOTES` options; combinations are no task's."""
    env = HiddenProfileEnv(form="tiny")

    def texts(rng: random.Random) -> list[tuple[Conversation, str]]:
        conversation = _draw_conversation(env, rng)
        given = answers(conversation)
        chosen = rng.sample(given, VOTES) if asks_for_vote(conversation[-1].content) else given
        return [(conversation, answer) for answer in chosen]

    rngs = (random.Random(stable_seed("hidden profile demonstrations", seed, index)) for index in itertools.count())
    return list(itertools.islice((text for rng in rngs for text in texts(rng)), n))


def answers(conversation: Conversation) -> list[str]:
    """Notes and each option where a vote is asked for, else each fact of the agent's own."""
    names = options(conversation)
    own = facts(names, [conversation[0].content])
    if not asks_for_vote(conversation[-1].content):
        return [f"known: {' '.join(fact)}." for fact in own]
    lines = [line for message in conversation[1:] if message.role == "user" for line in message.content.splitlines()]
    read = [fact for line in lines for fact in facts(names, [line])[:1]]
    notes = [f"{word} {option[0].upper()} {'own' if (option, word) in own else 'fresh'}" for option, word in read]
    fresh = next((option[0].upper() for option, word in read if (option, word) not in own), "none")
    listed = f"read {', '.join(notes)}; " if notes else ""
    return [f"{listed}fresh {fresh}: vote {option}." for option in names]


def _draw_conversation(env: HiddenProfileEnv, rng: random.Random) -> Conversation:
    """Draw an agent's conversation at some turn of an episode."""
    profile = row(*draw(rng, len(env.possible_agents), tiny=True, split="texts"), "demonstration")
    env.tasks = (Task("demonstration", profile),)
    observations, _ = env.reset(seed=rng.getrandbits(31), options={"task": 0})
    conversations: dict[str, Conversation] = {agent: (Message("user", observations[agent]),) for agent in env.agents}
    last = env.rounds + 1
    for _ in range(last if rng.random() < FINAL else rng.randrange(last)):
        said = {agent: rng.choice(answers(past)) for agent, past in conversations.items()}
        observations, *_ = env.step(said)
        conversations = {
            agent: (*past, Message("assistant", said[agent]), Message("user", observations[agent]))
            for agent, past in conversations.items()
        }
    return conversations[rng.choice(env.possible_agents)]
