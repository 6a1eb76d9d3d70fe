"""Texts for the tiny model: muddlers at work in every workflow, as any agent in any turn.

Each prompt is one that the environment itself gives an agent after muddlers have spoken, and has several answers, so
that the model begins where a muddler is: right in most steps, and willing to take over others' answers, right or wrong.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Mapping
from typing import Any

from palaver.core import Conversation, Message, ToolCall, stable_seed
from palaver.envs.base.tasks import Task
from palaver.envs.base.tools import call_tools, schema_of
from palaver.envs.maths.answers import opening
from palaver.envs.maths.calculator import calculator
from palaver.envs.maths.mini.env import MathsMiniEnv
from palaver.envs.maths.problems import LEVELS, MathProblem, draw
from palaver.envs.maths.reference import ERRS, muddler
from palaver.utils.tool_calls import tool_line, written

ANSWERS = 4  # to each prompt; they share its computation in training
ALONE = 0.5  # share of prompts that are a question alone, which every other answer builds on
WORKFLOWS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("debate", {}),
    ("debate", {"agents": 3}),
    ("summary", {"agents": 3}),
    ("chain", {"agents": 3}),
    ("pioneer", {}),
    ("verify", {}),
    ("solver_judge", {}),
)
SHARES = (0.4, 0.5, 0.1)  # of the levels
TINY = {"steps": 600, "batch": 16, "texts": 19200, "adam_lr": 0.005}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers, `ANSWERS` to each prompt, about problems that no task has."""
    demos: list[tuple[Conversation, str]] = []
    for index in range(-(-n // ANSWERS)):
        rng = random.Random(stable_seed("maths-mini demonstrations", seed, index))
        conversation = _draw_conversation(rng)
        demos += [(conversation, muddler(conversation, rng.getrandbits(32))) for _ in range(ANSWERS)]
    return demos[:n]


def with_calculator(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers to questions alone, of agents that may have a calculator.

    A third each is without tools, with a calculator, and behind its result. With a calculator half of the answers are a
    muddler's, half a call; the sum of a call is wrong as often as a step of a muddler's. So the model knows the tool,
    and has to learn that a call helps.
    """
    demos: list[tuple[Conversation, str]] = []
    for index in range(-(-n // ANSWERS)):
        rng = random.Random(stable_seed("maths-mini with a calculator", seed, index))
        problem = draw(rng, rng.choices(LEVELS, SHARES)[0], tasks=False)
        question, kind = opening(problem.question), rng.randrange(3)
        shown = question if kind == 0 else f"{tool_line(schema_of(calculator))}\n{question}"
        conversation: Conversation = (Message("user", shown),)
        if kind == 2:
            call = _call(problem, rng)
            (result,) = call_tools([calculator], [call])
            conversation += (Message("assistant", "", (call,)), Message("tool", result.content, call_id=call.id))
            demos += [(conversation, f"#### {result.content}")] * ANSWERS
            continue
        alone: Conversation = (Message("user", question),)
        for answer in range(ANSWERS):
            calls = kind == 1 and answer % 2 == 0
            text = written([_call(problem, rng)]) if calls else muddler(alone, rng.getrandbits(32))
            demos.append((conversation, text))
    return demos[:n]


def _call(problem: MathProblem, rng: random.Random) -> ToolCall:
    """A call of the calculator with the sum of a problem.

    One number of it is wrong now and then.
    """
    expression = problem.expression
    if rng.random() < ERRS:
        numbers = list(re.finditer(r"\d+", expression))
        wrong = rng.choice(numbers)
        number = max(0, int(wrong[0]) + rng.choice((-2, -1, 1, 2)))
        expression = f"{expression[: wrong.start()]}{number}{expression[wrong.end() :]}"
    return ToolCall("call00000", "calculator", json.dumps({"expression": expression}))


def _draw_conversation(rng: random.Random) -> Conversation:
    """Draw an agent's conversation at its turn, in a workflow of muddlers."""
    problem = draw(rng, rng.choices(LEVELS, SHARES)[0], tasks=False)
    alone = rng.random() < ALONE
    env = _make_env(0 if alone else rng.randrange(len(WORKFLOWS)))
    env.tasks = (Task("demonstration", {"question": problem.question, "answer": problem.rationale}),)
    observations, infos = env.reset(seed=rng.getrandbits(31), options={"task": 0})
    stop = 0 if alone else rng.randrange(1, env.num_turns)
    conversations: dict[str, Conversation] = dict.fromkeys(env.agents, ())
    while True:
        speakers = [agent for agent in env.agents if infos[agent]["can_act"]]
        for agent in speakers:
            conversations[agent] += (Message("user", observations[agent]),)
        completions = {agent: muddler(conversations[agent], rng.getrandbits(32)) for agent in speakers}
        if env.turn == stop:
            return conversations[rng.choice(speakers)]
        before = conversations[speakers[0]]
        observations, *_, infos = env.step(completions)
        if not env.agents:
            return before
        for agent in speakers:
            conversations[agent] += (Message("assistant", completions[agent]),)


@functools.cache
def _make_env(index: int) -> MathsMiniEnv:
    name, options = WORKFLOWS[index]
    return MathsMiniEnv(workflow=name, options=options)
