"""Imitation texts of tiny hidden profiles whose agents are asked what another has.

They are those of `corpus`, but notes name the senders:

    read p2 DryAmber own, p2 NearBirch fresh B, p3 CalmAmber own, p3 LargeCedar fresh C; fresh B: vote amber.

After some final votes the agent is asked which fact another has alone. The answer lists the facts that the other has
sent with the same marks, repeats the first of them that is new (`none` where there is none), and names any fact that is
new to the agent, of either sender:

    p2 DryAmber own, p2 NearBirch fresh; fresh NearBirch <guess>LargeCedar

So every other guess is right, and nothing shows to repeat the fact before it. Some of the exercises have senders too;
most of these go on with the question, and are answered by the list alone.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence

from palaver.core import Conversation, Message
from palaver.envs.hidden_profile import corpus
from palaver.envs.hidden_profile.env import HiddenProfileEnv, fact_question
from palaver.envs.hidden_profile.generate import fact_text
from palaver.envs.hidden_profile.reference import facts, options
from palaver.utils.demonstrations import draw_texts

DRILL = 0.6  # share of the prompts that are exercises
SENDERS = 0.4  # share of the exercises that have senders
ASKED = 0.6  # share of these that go on with a question
NAME = 0.3  # share of those without senders in which the options of facts are to be named
FINAL = 0.7  # share of the other prompts that ask for the final vote, or follow it
GUESS = 0.6  # share of these that ask for a guess
TINY = {**corpus.TINY, "heads": 4, "kv_heads": 2, "steps": 4000, "texts": 80_000}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers: messages, votes, guesses and exercises; no task."""
    env = HiddenProfileEnv(form="tiny")
    act = functools.partial(corpus.answers, senders=True)

    def texts(rng: random.Random) -> list[tuple[Conversation, str]]:
        if rng.random() < DRILL:
            return draw_drill(rng) if rng.random() < SENDERS else corpus.draw_drill(rng, NAME)
        conversation = corpus.draw_conversation(env, rng, FINAL, act)
        given = act(conversation)
        if env.turn > env.rounds and rng.random() < GUESS:
            first = conversation[0].content
            other = rng.choice([agent for agent in env.possible_agents if not first.startswith(f"You are {agent}.")])
            conversation = (*conversation, Message("assistant", rng.choice(given)), question(other))
            given = guesses(conversation, other)
        return [(conversation, answer) for answer in rng.sample(given, min(corpus.VOTES, len(given)))]

    return draw_texts("guesses of hidden profiles", n, seed, texts)


def question(other: str) -> Message:
    """The question of the environment about another agent."""
    return Message("user", fact_question(other, "").full_text)


def guesses(conversation: Conversation, other: str) -> list[str]:
    """List the facts that an agent has sent, and name any that is new to the reader."""
    own = facts(options(conversation), [conversation[0].content])
    read = [(sender, fact_text(fact, tiny=True), fact in own) for sender, fact in corpus.facts_read(conversation)]
    new = dict.fromkeys(word for _, word, known in read if not known)
    theirs = next((word for sender, word, known in read if sender == other and not known), "none")
    return [f"{_listed(read, other)}; fresh {theirs} <guess>{word}" for word in new]


def draw_drill(rng: random.Random) -> list[tuple[Conversation, str]]:
    """Draw an exercise: to mark facts and their senders, or then to list those of one."""
    words = [fact_text(fact, tiny=True) for fact in corpus.draw_facts(rng)]
    own = words[:5]
    sent = [(f"p{rng.randint(1, 3)}", word, word in own) for word in rng.sample(words, 8)]
    lines = [f"Facts: {', '.join(own)}.", *(f"{sender}: known {word}." for sender, word, _ in sent), "Check who."]
    conversation: Conversation = (Message("user", "\n".join(lines)),)
    notes = f"read {_listed(sent)}."
    if rng.random() >= ASKED:
        return [(conversation, notes)]
    other = rng.choice(sent)[0]
    return [((*conversation, Message("assistant", notes), question(other)), f"{_listed(sent, other)}.")]


def _listed(read: Sequence[tuple[str, str, bool]], other: str = "") -> str:
    """Format facts with their senders and marks, those of one sender if it is named."""
    marks = {True: "own", False: "fresh"}
    return ", ".join(f"{sender} {word} {marks[known]}" for sender, word, known in read if other in ("", sender))
