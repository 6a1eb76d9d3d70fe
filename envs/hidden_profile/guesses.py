"""Imitation texts of tiny hidden profiles whose agents are asked what another has.

They are those of `corpus`, with the senders of facts that are not the agent's own:

    read DryAmber own, NearBirch fresh p2 B, CalmAmber own, LargeCedar fresh p3 C; fresh B: vote amber.

After some final votes the agent is asked which fact another has alone. The answer is one of the facts that it had not
itself, whoever sent it, so that no text shows to tell by the sender.

    NearBirch
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
SENDERS = 0.4  # share of the exercises with messages in which the senders are asked for
FINAL = 0.7  # share of the other prompts that ask for the final vote, or follow it
GUESS = 0.4  # share of these that ask for a guess
TINY = {**corpus.TINY, "steps": 4000, "texts": 80_000}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers: messages, votes, guesses and exercises; no task."""
    env = HiddenProfileEnv(form="tiny")

    def texts(rng: random.Random) -> list[tuple[Conversation, str]]:
        if rng.random() < DRILL:
            return corpus.draw_drill(rng, SENDERS)
        conversation = corpus.draw_conversation(env, rng, FINAL, _act)
        given = _act(conversation)
        if env.turn > env.rounds and rng.random() < GUESS:
            # the other's name is drawn: nothing in the answer depends on it
            other = rng.choice(
                [agent for agent in env.possible_agents if f"You are {agent}." not in conversation[0].content]
            )
            question = Message("user", f"Guess: Which fact has {other} alone?")
            conversation, given = (
                (*conversation, Message("assistant", rng.choice(given)), question),
                guesses(conversation),
            )
        return [(conversation, answer) for answer in rng.sample(given, min(corpus.VOTES, len(given)))]

    rngs = (random.Random(stable_seed("guesses of hidden profiles", seed, index)) for index in itertools.count())
    return list(itertools.islice((text for rng in rngs for text in texts(rng)), n))


def guesses(conversation: Conversation) -> list[str]:
    """The facts that an agent has read and had not itself, as answers to who has them alone."""
    own = facts(options(conversation), [conversation[0].content])
    return [fact_text(fact, tiny=True) for _, fact in corpus.facts_read(conversation) if fact not in own]


_act = functools.partial(corpus.answers, senders=True)
