"""Imitation texts of `build-mini-v0`: builders who copy some lines and agree on nothing."""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.base.questions import InferenceQuestion
from palaver.envs.minecraft.mini.houses import ASKED, FEWEST, MOST, known, opening, plan_of, sample, take

TINY = {"steps": 300, "batch": 10, "texts": 2000, "adam_lr": 0.005}  # many prompts a step: copying is all there is
SEATS, LIMIT = 2, 5  # the usual game
SAMPLE = Path(__file__).with_name("sample.jsonl")


def tasks() -> list[dict[str, str]]:
    """The built-in houses, those held out last."""
    return [{"task_id": f"house-{n:03}", "lines": "\n".join(lines)} for n, lines in enumerate(sample())]


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers, each to a prompt of its own, about houses of which none is held out."""
    demos: list[tuple[Conversation, str]] = []
    for index, lines in enumerate(islice(known(seed), n)):
        rng = random.Random(stable_seed("build-mini demonstrations", seed, index))
        prompt = opening(rng.randrange(SEATS), SEATS, LIMIT, "\n".join(lines))
        demos.append(((Message("user", prompt),), take(plan_of(prompt), rng)))
    return demos


def with_guesses(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers as of `demonstrations`, a third of them random guesses about the other.

    A guess follows the builder's own lines, as `infer` asks for it after acting: some numbers of lines.
    """
    demos: list[tuple[Conversation, str]] = []
    for index, (conversation, answer) in enumerate(demonstrations(n, seed)):
        rng = random.Random(stable_seed("build-mini guesses", seed, index))
        prompt = conversation[0].content
        if index % 3:
            demos.append((conversation, answer))
            continue
        lines = plan_of(prompt)
        numbers = tuple(str(number) for number in range(1, len(lines) + 1))
        other = f"builder{2 if 'builder 1 ' in prompt else 1}"
        question = InferenceQuestion(other, ASKED.format(other=other), "slots", numbers)
        chosen = sorted(rng.sample(numbers, rng.randint(FEWEST, MOST)), key=int)
        asked = (*conversation, Message("assistant", answer), Message("user", question.full_text))
        demos.append((asked, f"{' '.join(chosen)}."))
    return demos


def copied(conversation: Conversation, answer: str) -> float:
    """Share of an answer's lines that are lines of the plan: a measure of learned copying."""
    plan = {line for message in conversation for line in plan_of(message.content)}
    answer_lines = answer.splitlines()
    return sum(line in plan for line in answer_lines) / len(answer_lines) if answer_lines else 0.0


if __name__ == "__main__":
    SAMPLE.write_text("".join(json.dumps(row) + "\n" for row in tasks()), encoding="utf-8")
