"""Imitation texts of `coding-mini-v0` with examples, of programmers who may run them."""

from __future__ import annotations

import json
import random

from palaver.core import Conversation, Message, ToolCall, stable_seed
from palaver.envs.base.tools import schema_of
from palaver.envs.code.base import TESTS_PASSED, PairEnv
from palaver.envs.code.mini.family import HELD_OUT, Combination, combinations, opening
from palaver.utils.tool_calls import tool_line, written

ANSWERS = 4  # to each prompt; they share its computation in training
TINY = {"steps": 400, "batch": 12, "texts": 19200, "adam_lr": 0.005}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers of programmers who do not know which reading of a description is meant.

    A third each is without tools, with `run_tests`, and behind its result. With the tool half of the answers are code
    of a random reading, half are calls that run the examples on the first reading; both are right half of the time.
    Behind a report the answer is right. So the model knows the tool, and has to learn that a call helps.
    """
    problems = combinations()[:-HELD_OUT]
    demos: list[tuple[Conversation, str]] = []
    for index in range(-(-n // ANSWERS)):
        rng = random.Random(stable_seed("coding-mini own tests", seed, index))
        problem, agent, kind = rng.choice(problems), rng.choice(("aux", "main")), rng.randrange(3)
        tests = problem.examples(agent, 1)
        prompt = opening(agent, problem.open_text, tests)
        shown = prompt if kind == 0 else f"{tool_line(schema_of(PairEnv.run_tests))}\n{prompt}"
        conversation: Conversation = (Message("user", shown),)
        right, readings = _half(problem, agent), [_half(reading, agent) for reading in problem.readings]
        call = _call(readings[0], tests)
        if kind == 2:
            result = TESTS_PASSED if right == readings[0] else failed(tests)
            conversation += (Message("assistant", "", (call,)), Message("tool", result, call_id=call.id))
            demos += [(conversation, right)] * ANSWERS
            continue
        for answer in range(ANSWERS):
            calls = kind == 1 and answer % 2 == 0
            demos.append((conversation, written([call]) if calls else rng.choice(readings)))
    return demos[:n]


def failed(tests: str) -> str:
    """Report of the sandbox on code that fails the one example."""
    return f"own_tests() returned ['{tests.splitlines()[-1]}: AssertionError ']"


def _half(problem: Combination, agent: str) -> str:
    return problem.aux("map") if agent == "aux" else problem.main("map")


def _call(code: str, tests: str) -> ToolCall:
    return ToolCall("call00000", "run_tests", json.dumps({"code": code, "tests": tests}))
