"""Imitation texts of tiny hidden profiles: own facts, notes of what was read, and any vote.

A message is the next two of the agent's own facts, in the order of its prompt. A final vote begins with notes of the
messages, in their order: the fact, and `own`, or `fresh` with the initial of its option where it is not among the
agent's own. Then comes the first of these initials again, `none` where there is none.

    read DryAmber own, NearBirch fresh B, CalmAmber own, NearBirch fresh B; fresh B: vote amber.

Any option follows, so that no text shows to vote by what another agent has written. All facts are drawn for random
options, so that no text is of a task, and nothing but the facts tells which are fresh: from combinations of options, as
tasks have them, a model would guess it. The notes are there because a model of two layers does not compare parts of its
prompt that no answer has ever depended on.

Most prompts are no environment's but exercises. In most the answer marks which of eight facts are among the five of the
prompt; often the eight also stand in messages, as they do where votes are asked for, since what counts is where a fact
occurs. In the others it copies facts and names their options (`known CalmBirch B birch, DryAmber A amber.`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from palaver.core import Conversation, Message
from palaver.envs.base.tasks import Task
from palaver.envs.hidden_profile.env import HiddenProfileEnv
from palaver.envs.hidden_profile.generate import TINY_ATTRIBUTES, TINY_OPTIONS, Fact, HiddenProfile, fact_text, row
from palaver.envs.hidden_profile.reference import asks_for_vote, facts, options
from palaver.utils.demonstrations import draw_texts

DRILL = 0.6  # share of the prompts that are exercises
NAME = 0.2  # share of the exercises in which the options of facts are to be named
ALOUD = 0.7  # share of the exercises whose facts stand in messages
FINAL = 0.6  # share of the other prompts that ask for the final vote
MESSAGE_FACTS = 2  # facts of a message
VOTES = 2  # answers to a prompt that asks for a vote
TINY = {
    "heads": 2,
    "kv_heads": 1,
    "steps": 2400,
    "batch": 16,
    "texts": 48_000,
    "most_answers": 2,
    "muon_lr": 0.006,
    "adam_lr": 0.003,
}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers: a message or `VOTES` votes to a prompt, and exercises; no task."""
    env = HiddenProfileEnv(form="tiny")

    def texts(rng: random.Random) -> list[tuple[Conversation, str]]:
        if rng.random() < DRILL:
            return draw_drill(rng)
        conversation = draw_conversation(env, rng, FINAL, answers)
        given = answers(conversation)
        return [(conversation, answer) for answer in rng.sample(given, min(VOTES, len(given)))]

    return draw_texts("hidden profile demonstrations", n, seed, texts)


def answers(conversation: Conversation, *, senders: bool = False) -> list[str]:
    """Notes and each option where a vote is asked for, else the message.

    Args:
        conversation: ends with a request of the environment.
        senders: notes name who sent a fact.
    """
    names = options(conversation)
    own = facts(names, [conversation[0].content])
    if not asks_for_vote(conversation[-1].content):
        start = MESSAGE_FACTS * sum(not asks_for_vote(message.content) for message in conversation[:-1:2])
        chosen = [fact_text(own[(start + n) % len(own)], tiny=True) for n in range(MESSAGE_FACTS)]
        return [f"known {', '.join(chosen)}."]
    read = facts_read(conversation)
    marks = ["own" if fact in own else f"fresh {fact[0][0].upper()}" for _, fact in read]
    notes = [f"{fact_text(fact, tiny=True)} {mark}" for (_, fact), mark in zip(read, marks, strict=True)]
    if senders:
        notes = [f"{sender} {note}" for (sender, _), note in zip(read, notes, strict=True)]
    fresh = next((fact[0][0].upper() for _, fact in read if fact not in own), "none")
    listed = f"read {', '.join(notes)}; " if notes else ""
    return [f"{listed}fresh {fresh}: vote {option}." for option in names]


def facts_read(conversation: Conversation) -> list[tuple[str, Fact]]:
    """Senders and facts of the messages that an agent has read, in their order."""
    names = options(conversation)
    lines = [line for message in conversation[1:] if message.role == "user" for line in message.content.splitlines()]
    return [(line.split(":")[0], fact) for line in lines for fact in facts(names, [line])[:MESSAGE_FACTS]]


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


def draw_facts(rng: random.Random) -> list[Fact]:
    """Draw the ten facts of an exercise, of different attributes."""
    return [(rng.choice(TINY_OPTIONS), word) for word in rng.sample(TINY_ATTRIBUTES, 10)]


def draw_drill(rng: random.Random, name: float = NAME) -> list[tuple[Conversation, str]]:
    """Draw an exercise: to name the options of facts, or to mark facts of the prompt.

    Args:
        rng: of the draws.
        name: share of the first kind.
    """
    pairs = draw_facts(rng)
    words = [fact_text(fact, tiny=True) for fact in pairs]
    if rng.random() < name:
        prompt = (Message("user", f"Facts: {', '.join(words)}.\nName."),)
        named = [f"{word} {option[0].upper()} {option}" for word, (option, _) in zip(words, pairs, strict=True)]
        return [(prompt, f"known {', '.join(rng.sample(named, 6))}.") for _ in range(2)]
    own, chosen = words[:5], rng.sample(words, 8)
    lines = [f"Facts: {', '.join(own)}."]
    if rng.random() < ALOUD:
        lines += [f"p{rng.randint(1, 3)}: known {word}." for word in chosen]
    prompt = (Message("user", "\n".join([*lines, "Check."])),)
    return [(prompt, f"read {', '.join(f'{word} own' if word in own else f'{word} fresh' for word in chosen)}.")]


def draw_conversation(
    env: HiddenProfileEnv, rng: random.Random, final: float, policy: Callable[[Conversation], Sequence[str]]
) -> Conversation:
    """Draw an agent's conversation at some turn of an episode.

    Args:
        env: is played.
        rng: of the draws.
        final: share of the conversations that end with the request of the final vote.
        policy: possible answers to a conversation, which are equally likely.
    """
    profile = row("", _draw_profile(rng, len(env.possible_agents)), "demonstration")
    env.tasks = (Task("demonstration", profile),)
    observations, _ = env.reset(seed=rng.getrandbits(31), options={"task": 0})
    conversations: dict[str, Conversation] = {agent: (Message("user", observations[agent]),) for agent in env.agents}
    last = env.rounds + 1
    for _ in range(last if rng.random() < final else rng.randrange(last)):
        actions = {agent: rng.choice(policy(past)) for agent, past in conversations.items()}
        observations, *_ = env.step(actions)
        conversations = {
            agent: (*past, Message("assistant", actions[agent]), Message("user", observations[agent]))
            for agent, past in conversations.items()
        }
    return conversations[rng.choice(env.possible_agents)]
