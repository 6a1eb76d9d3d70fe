"""Imitation texts of trust-and-split where each observation stands alone.

A message states the own hand. An answer before a proposal restates the situation, names a choice, and proposes so:
`rock paper lower 10 lowertenshare: <coins_to_self> 5 </coins_to_self>`. That is the own hand, the other's by its
message, the level that follows, what the other kept when it last had the lower hand (`none` at first), and one of three
words that this situation alone has. If the other named no hand, it counts as the lower one (`rock none upper 10`): to
name an upper hand is never worse. A prompt has each choice once, so no text prefers one, and reciprocity is left to
training. Words of their own keep situations apart: with the same three words for all, or the number alone, a model of
two layers learned one choice for all situations, as no text had ever made its choice depend on them.
"""

from __future__ import annotations

import functools
import random

from palaver.core import Conversation, Message
from palaver.envs.negotiation import trust_and_split as ts
from palaver.utils.demonstrations import Pair, draw_texts

CHOICES = {"yield": 0, "share": 5, "keep": 10}  # coins
ROUNDS = 4
WORDS = {"none": "none", "0": "zero", "5": "five", "10": "ten"}
MESSAGES = 0.5  # share of the prompts that ask for a message
SILENT = 0.1  # share of the messages that name no hand
TINY = {"steps": 600, "batch": 10, "texts": 6000, "most_answers": 3, "adam_lr": 0.003}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers: to each prompt that is drawn the message, or every choice once."""

    def texts(rng: random.Random) -> list[Pair]:
        talk, answers = draw_prompt(rng)
        return [(talk, answer) for answer in answers]

    return draw_texts("trust and split texts", n, seed, texts)


def draw_prompt(rng: random.Random) -> tuple[Conversation, list[str]]:
    """Draw a prompt in some round of a game of random proposals, and its answers."""
    env = _make_env()
    observations, infos = env.reset(options={"task": rng.randrange(len(env.tasks))})
    kept = dict.fromkeys(env.agents, "none")  # by each agent when it last had the lower hand
    named = dict.fromkeys(env.agents, "none")
    last = 3 * rng.randrange(ROUNDS) + (rng.randrange(2) if rng.random() < MESSAGES else 2)
    for turn in range(last):
        pair = env.hands[turn // 3]
        if turn % 3 == 2:
            coins = {agent: rng.choice(tuple(CHOICES.values())) for agent in env.agents}
            lower = env.agents[ts.worth(pair).index(ts.LOWER)]
            kept[lower] = str(coins[lower])
            observations, *_, infos = env.step({agent: ts.propose(x) for agent, x in coins.items()})
            continue
        (speaker,) = (agent for agent in env.agents if infos[agent]["can_act"])
        hand = ts.HANDS[pair[env.agents.index(speaker)]]
        named[speaker] = "none" if rng.random() < SILENT else hand
        observations, *_, infos = env.step({speaker: "" if named[speaker] == "none" else ts.tell(hand)})
    agent = rng.choice([agent for agent in env.agents if infos[agent]["can_act"]])
    n = env.agents.index(agent)
    talk, pair = (Message("user", observations[agent]),), env.hands[last // 3]
    own, other = ts.HANDS[pair[n]], env.agents[1 - n]
    if last % 3 < 2:
        return talk, [ts.tell(own)]
    level = "upper" if named[other] == "none" or ts.worth(pair)[n] == ts.UPPER else "lower"
    situation = f"{own} {named[other]} {level} {kept[other]} {level}{WORDS[kept[other]]}"
    return talk, [f"{situation}{choice}: {ts.propose(coins)}" for choice, coins in CHOICES.items()]


@functools.cache
def _make_env() -> ts.TrustAndSplitEnv:
    return ts.TrustAndSplitEnv(tasks="generated:1:512", rounds=ROUNDS, fresh=True)
