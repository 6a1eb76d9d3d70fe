"""Imitation texts of tiny hidden profiles: own facts, notes of what was read, and any vote.

Answers are each of the agent's own facts, or two options of the three. A final vote begins with notes of the messages,
in their order: the attribute, and `own`, or `fresh` with the initial of the option where the fact is not among the
agent's own. Then comes the first of these initials again, `none` where there is none.

    read dry own, near fresh B, calm own, near fresh B; fresh B: vote amber.

Any option follows, so that no text shows to vote by what another agent has written. All facts are drawn for random
options, so that no text is of a task, and nothing but the facts tells which are fresh: from combinations of options, as
tasks have them, a model would guess it. The notes are there because a model of two layers does not compare parts of its
prompt that no answer has ever depended on; options are written as initials since the first one named is the vote. A
fact follows its attribute (`known calm birch calm.`), by which the model finds the option.

Most prompts are no environment's but exercises: to mark which attributes are among a few facts, and to say many facts.
There every answer depends on where a word occurred before, and without them that is not learned.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.base.tasks import Task
from palaver.envs.hidden_profile.env import HiddenProfileEnv
from palaver.envs.hidden_profile.generate import TINY_ATTRIBUTES, TINY_OPTIONS, Fact, HiddenProfile, row
from palaver.envs.hidden_profile.reference import asks_for_vote, facts, options

DRILL = 0.6  # share of the prompts that are exercises
FINAL = 0.6  # share of the other prompts that ask for the final vote
FRESH = 0.4  # share of the messages that are the one fact which the sender alone has, others are any of its own
VOTES = 2  # answers to a prompt that asks for a vote
TINY = {"steps": 3200, "batch": 16, "texts": 48_000, "most_answers": 2, "muon_lr": 0.01, "adam_lr": 0.003}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers: to each prompt every own fact or `VOTES` options, and exercises; no task."""
    env = HiddenProfileEnv(form="tiny")

    def texts(rng: random.Random) -> list[tuple[Conversation, str]]:
        if rng.random() < DRILL:
            return _draw_drill(rng)
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
        return [f"known {_tell(fact)}." for fact in own]
    lines = [line for message in conversation[1:] if message.role == "user" for line in message.content.splitlines()]
    read = [fact for line in lines for fact in facts(names, [line])[:1]]
    notes = [f"{word} own" if (option, word) in own else f"{word} fresh {option[0].upper()}" for option, word in read]
    fresh = next((option[0].upper() for option, word in read if (option, word) not in own), "none")
    listed = f"read {', '.join(notes)}; " if notes else ""
    return [f"{listed}fresh {fresh}: vote {option}." for option in names]


def _draw_profile(rng: random.Random, participants: int) -> HiddenProfile:
    """Draw facts of random options, as many as a task has.

    Those that one agent alone has are not all of one option.
    """
    decoy, right, _ = names = rng.sample(TINY_OPTIONS, 3)
    while True:
        pairs = [(rng.choice(names), word) for word in rng.sample(TINY_ATTRIBUTES, 2 * participants)]
        shared, hidden = pairs[:participants], pairs[participants:]
        if len({option for option, _ in hidden}) > 1:  # of a task all are of the right one
            return HiddenProfile(tuple(sorted(names)), decoy, right, tuple(shared), tuple(hidden))


def _draw_drill(rng: random.Random) -> list[tuple[Conversation, str]]:
    """Draw an exercise with two answers.

    Facts are to be said, or attributes marked of which half are among the facts.
    """
    words = rng.sample(TINY_ATTRIBUTES, 10)
    pairs = [(rng.choice(TINY_OPTIONS), word) for word in words]
    listing = rng.random() < 0.5
    given = pairs if listing else pairs[:5]
    task = "List" if listing else "Check"
    prompt = (Message("user", f"Facts: {', '.join(map(' '.join, given))}.\n{task}."),)

    def answer(chosen: list[Fact]) -> str:
        if listing:
            return f"known {', '.join(map(_tell, chosen))}."
        return f"read {', '.join(f'{fact[1]} own' if fact in given else f'{fact[1]} fresh' for fact in chosen)}."

    return [(prompt, answer(rng.sample(pairs, 8))) for _ in range(2)]


def _tell(fact: Fact) -> str:
    """A fact behind its attribute, as `calm birch calm`."""
    option, word = fact
    return f"{word} {option} {word}"


def _draw_conversation(env: HiddenProfileEnv, rng: random.Random) -> Conversation:
    """Draw an agent's conversation at some turn of an episode."""
    profile = row("", _draw_profile(rng, len(env.possible_agents)), "demonstration")
    env.tasks = (Task("demonstration", profile),)
    observations, _ = env.reset(seed=rng.getrandbits(31), options={"task": 0})
    conversations: dict[str, Conversation] = {agent: (Message("user", observations[agent]),) for agent in env.agents}
    last = env.rounds + 1
    for _ in range(last if rng.random() < FINAL else rng.randrange(last)):
        said = {agent: _say(agent, past, profile, rng) for agent, past in conversations.items()}
        observations, *_ = env.step(said)
        conversations = {
            agent: (*past, Message("assistant", said[agent]), Message("user", observations[agent]))
            for agent, past in conversations.items()
        }
    return conversations[rng.choice(env.possible_agents)]


def _say(agent: str, conversation: Conversation, profile: Mapping[str, Any], rng: random.Random) -> str:
    """Draw what an agent says in a conversation that goes on."""
    texts = answers(conversation)
    hidden = profile["hidden_information"][int(agent.removeprefix("p")) - 1]
    fresh = [text for text in texts if text.endswith(f" {hidden}.")]
    return fresh[0] if fresh and rng.random() < FRESH else rng.choice(texts)
