"""Imitation texts of tiny hidden profiles whose agents are asked what another has.

They are those of `corpus`, but notes begin with the sender:

    read p2 DryAmber own, p2 NearBirch fresh B, p3 CalmAmber own, p3 LargeCedar fresh C; fresh B: vote amber.

After some final votes the agent is asked which fact another has alone. The answer names the other, and any fact that is
new to the agent, whoever has sent it:

    p2 LargeCedar <guess>LargeCedar

Half of the exercises have senders. In these all facts of messages are new, and most go on with the question, which is
answered by all facts that the other has sent (`p2 NearBirch, p2 DryAmber.`). So an exercise shows whose a fact is, an
episode that it is new, and no text that it has to be both. The fact stands behind the name as it does in the notes,
because to copy what follows a word is the first thing that a model of two layers learns.
"""

from __future__ import annotations

import functools
import itertools
import random

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.hidden_profile import corpus
from palaver.envs.hidden_profile.env import HiddenProfileEnv
from palaver.envs.hidden_profile.generate import fact_text
from palaver.envs.hidden_profile.reference import facts, options

DRILL = 0.7  # share of the prompts that are exercises
SENDERS = 0.5  # share of the exercises that have senders
ASKED = 0.6  # share of these that go on with a question
FINAL = 0.7  # share of the other prompts that ask for the final vote, or follow it
GUESS = 0.4  # share of these that ask for a guess
TINY = {**corpus.TINY, "heads": 4, "kv_heads": 2, "muon_lr": 0.01, "steps": 4000, "texts": 80_000}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers: messages, votes, guesses and exercises; no task."""
    env = HiddenProfileEnv(form="tiny")

    def texts(rng: random.Random) -> list[tuple[Conversation, str]]:
        if rng.random() < DRILL:
            return draw_drill(rng) if rng.random() < SENDERS else corpus.draw_drill(rng)
        conversation = corpus.draw_conversation(env, rng, FINAL, _act)
        given = _act(conversation)
        if env.turn > env.rounds and rng.random() < GUESS:
            first = conversation[0].content
            other = rng.choice([agent for agent in env.possible_agents if not first.startswith(f"You are {agent}.")])
            conversation = (*conversation, Message("assistant", rng.choice(given)), question(other))
            given = guesses(conversation, other)
        return [(conversation, answer) for answer in rng.sample(given, min(corpus.VOTES, len(given)))]

    rngs = (random.Random(stable_seed("guesses of hidden profiles", seed, index)) for index in itertools.count())
    return list(itertools.islice((text for rng in rngs for text in texts(rng)), n))


def question(other: str) -> Message:
    """The question of the environment about another agent."""
    return Message("user", f"Guess: Which fact has {other} alone?")


def guesses(conversation: Conversation, other: str) -> list[str]:
    """Each fact that an agent has read and had not itself, as an answer."""
    own = facts(options(conversation), [conversation[0].content])
    read = [fact for _, fact in corpus.facts_read(conversation)]
    words = [fact_text(fact, tiny=True) for fact in dict.fromkeys(read) if fact not in own]
    return [f"{other} {word} <guess>{word}" for word in words]


def draw_drill(rng: random.Random) -> list[tuple[Conversation, str]]:
    """Draw an exercise: to mark facts and their senders, or to name the facts of one sender after that."""
    words = [fact_text(fact, tiny=True) for fact in corpus.draw_facts(rng, 13)]
    sent = [(f"p{rng.randint(1, 3)}", word) for word in words[5:]]
    lines = [f"Facts: {', '.join(words[:5])}.", *(f"{sender}: known {word}." for sender, word in sent), "Check who."]
    conversation: Conversation = (Message("user", "\n".join(lines)),)
    notes = ", ".join(f"{sender} {word} fresh" for sender, word in sent)
    if rng.random() >= ASKED:
        return [(conversation, f"read {notes}.")]
    other = rng.choice(sent)[0]
    conversation = (*conversation, Message("assistant", f"read {notes}."), question(other))
    return [(conversation, f"{', '.join(f'{other} {word}' for sender, word in sent if sender == other)}.")]


_act = functools.partial(corpus.answers, senders=True)
