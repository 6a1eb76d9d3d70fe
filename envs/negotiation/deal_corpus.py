"""Imitation texts of deal-or-no-deal where each observation stands alone.

A message states the own values: `Books 3, Hats 1, Balls 2.` An answer before a proposal restates for each kind the own
value and the other's by its message, compares them, takes all items of the kind or none, and proposes so:
`book 3 5 underleave books 0 hat 1 1 eventake hats 1 ball 2 0 overleave balls 0: <take> books=0 hats=1 balls=0 </take>`.
If the other named no values they are `none`, and the comparison is `alone`. All or none is drawn for each kind, so no
text prefers one. Each comparison has two words of its own: where the number of items alone followed the comparison,
agents learned choices that depend on the kind and not on the values.
"""

from __future__ import annotations

import functools
import random

from palaver.core import Conversation, Message
from palaver.envs.negotiation import deal_or_no_deal as deal
from palaver.utils.demonstrations import Pair, draw_texts

ANSWERS = 4  # of a prompt that asks for a proposal
MESSAGES = 0.35  # share of the prompts that ask for a message
SILENT = 0.1  # share of the messages that name no values
TINY = {"steps": 800, "batch": 12, "texts": 12000, "most_answers": 4, "adam_lr": 0.003}


def demonstrations(n: int, seed: int) -> list[Pair]:
    """`n` answers: to each prompt that is drawn the message, or some proposals."""
    return draw_texts("deal texts", n, seed, _draw_answers)


def _draw_answers(rng: random.Random) -> list[Pair]:
    env = _make_env()
    observations, _ = env.reset(options={"task": rng.randrange(len(env.tasks))})
    values = {agent: env.task[agent] for agent in env.agents}
    named = {agent: rng.random() >= SILENT for agent in env.agents}
    agent, rival = rng.sample(env.agents, 2)
    asked = rng.random() < MESSAGES
    for speaker in env.agents:
        if asked and agent == speaker:
            return [((Message("user", observations[agent]),), tell(values[agent]))]
        observations, *_ = env.step({speaker: tell(values[speaker]) if named[speaker] else ""})
    talk: Conversation = (Message("user", observations[agent]),)
    compared = [_compare(own, other, named[rival]) for own, other in zip(values[agent], values[rival], strict=True)]
    answers = []
    for _ in range(ANSWERS):
        takes = [rng.random() < 0.5 for _ in deal.KINDS]
        items = [count * take for count, take in zip(env.task["counts"], takes, strict=True)]
        shown = " ".join(
            f"{kind} {own} {other} {word}{'take' if take else 'leave'} {kind}s {item}"
            for kind, own, (other, word), take, item in zip(
                deal.KINDS, values[agent], compared, takes, items, strict=True
            )
        )
        answers.append((talk, f"{shown}: {deal.propose(items)}"))
    return answers


def tell(values: list[int]) -> str:
    """The message that states values."""
    return ", ".join(f"{kind.capitalize()}s {value}" for kind, value in zip(deal.KINDS, values, strict=True)) + "."


def _compare(own: int, other: int, named: bool) -> tuple[str, str]:
    if not named:
        return "none", "alone"
    return str(other), "even" if own == other else "over" if own > other else "under"


@functools.cache
def _make_env() -> deal.DealOrNoDealEnv:
    return deal.DealOrNoDealEnv(tasks="generated:1:2048", messages=1, fresh=True)
