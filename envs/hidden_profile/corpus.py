"""Imitation texts of tiny hidden profiles: own facts, notes of what is new, and any vote.

Answers are each of the agent's own facts once, or each option once. A vote begins with the initial of an option of
which another agent has written a fact that is not among the own (`new B: vote amber.`), `none` where there is none:
no text shows to vote by what another agent has written. The initial is there because a model of two layers does not
compare parts of its prompt that no answer has ever depended on; it is no option, since the first of these counts. A
fact follows a word (`known: birch calm.`), as in the prompt: a name at the start of a text would be another token. A
quarter of the prompts are no environment's but exercises in copying.
"""

from __future__ import annotations

import itertools
import random

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.base.tasks import Task
from palaver.envs.hidden_profile.env import HiddenProfileEnv
from palaver.envs.hidden_profile.generate import TINY_ATTRIBUTES, TINY_OPTIONS, draw, row
from palaver.envs.hidden_profile.reference import asks_for_vote, facts, options

FINAL = 0.4  # share of the prompts that ask for the final vote
DRILL = 0.25
TINY = {"steps": 1500, "batch": 16, "texts": 32000, "most_answers": 4, "adam_lr": 0.003}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers: to each prompt every fact or option once; combinations are no task's."""
    env = HiddenProfileEnv(form="tiny")

    def texts(rng: random.Random) -> list[tuple[Conversation, str]]:
        if rng.random() < DRILL:
            return [_draw_drill(rng)]
        conversation = _draw_conversation(env, rng)
        return [(conversation, answer) for answer in answers(conversation, rng)]

    rngs = (random.Random(stable_seed("hidden profile demonstrations", seed, index)) for index in itertools.count())
    return list(itertools.islice((text for rng in rngs for text in texts(rng)), n))


def answers(conversation: Conversation, rng: random.Random) -> list[str]:
    """A note and each option where a vote is asked for, else each fact of the agent's own."""
    names = options(conversation)
    own = facts(names, [conversation[0].content])
    if asks_for_vote(conversation[-1].content):
        read = facts(names, [message.content for message in conversation[1:] if message.role == "user"])
        new = sorted({option[0].upper() for option, quality in read if (option, quality) not in own})
        note = rng.choice(new) if new else "none"
        return [f"new {note}: vote {option}." for option in names]
    return [f"known: {' '.join(fact)}." for fact in own]


def _draw_drill(rng: random.Random) -> tuple[Conversation, str]:
    """Draw an exercise in copying: facts of all options, one of which is asked for."""
    names = rng.sample(TINY_OPTIONS, len(TINY_OPTIONS))
    pairs = list(zip(names, rng.sample(TINY_ATTRIBUTES, len(names)), strict=True))
    option, attribute = rng.choice(pairs)
    prompt = f"Facts: {', '.join(map(' '.join, pairs))}.\nWhat is {option}?"
    return (Message("user", prompt),), f"known: {option} {attribute}."


def _draw_conversation(env: HiddenProfileEnv, rng: random.Random) -> Conversation:
    """Draw an agent's conversation at some turn of an episode."""
    profile = row(*draw(rng, len(env.possible_agents), tiny=True, split="texts"), "demonstration")
    env.tasks = (Task("demonstration", profile),)
    observations, _ = env.reset(seed=rng.getrandbits(31), options={"task": 0})
    conversations: dict[str, Conversation] = {agent: (Message("user", observations[agent]),) for agent in env.agents}
    last = env.rounds + 1
    for _ in range(last if rng.random() < FINAL else rng.randrange(last)):
        said = {agent: rng.choice(answers(past, rng)) for agent, past in conversations.items()}
        observations, *_ = env.step(said)
        conversations = {
            agent: (*past, Message("assistant", said[agent]), Message("user", observations[agent]))
            for agent, past in conversations.items()
        }
    return conversations[rng.choice(env.possible_agents)]
