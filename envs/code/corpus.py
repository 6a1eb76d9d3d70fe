"""Scripted programmers for cooperative code, and imitation texts of bad cooperation.

`reference` solves the built-in problems, `lazy` wraps a helper that does nothing. Both read their function from the
prompt, and give the same answer in every turn.

Of the imitation texts half are right; the others are a helper that does nothing or a wrapper of it, or break off. The
kind is drawn without regard to the other agent or to the feedback of the last turn, so that a team has something to
learn.
"""

from __future__ import annotations

import functools
import json
import math
import random
from collections.abc import Mapping
from pathlib import Path

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.base.scripted import first_prompt
from palaver.envs.code.base import CodeEnv
from palaver.envs.code.coophumaneval import CoopHumanEvalEnv
from palaver.envs.code.humaneval import HumanEvalEnv
from palaver.envs.code.mbpp import MbppEnv
from palaver.envs.code.programs import AUX
from palaver.envs.code.prompts import MAIN, parse_request

TINY = {"texts": 1200, "batch": 3, "steps": 400}  # few conversations: all answers to one share a batch
ANSWERS = 4  # to each conversation; they share its computation in training
KINDS = ("right",) * 5 + ("idle",) * 3 + ("cut",) * 2  # of answers, by frequency
AGENTS = (AUX, MAIN)
SOLUTIONS = Path(__file__).with_name("solutions.jsonl")
_ENVS: Mapping[str, type[CodeEnv]] = {"coophumaneval": CoopHumanEvalEnv, "humaneval": HumanEvalEnv, "mbpp": MbppEnv}


def coophumaneval(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers to built-in problems of `coophumaneval-v0`, `ANSWERS` to each conversation."""
    return _demonstrations("coophumaneval", n, seed)


def humaneval(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers to built-in problems of `humaneval-v0`, `ANSWERS` to each conversation."""
    return _demonstrations("humaneval", n, seed)


def mbpp(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers to built-in problems of `mbpp-v0`, `ANSWERS` to each conversation."""
    return _demonstrations("mbpp", n, seed)


def _demonstrations(name: str, n: int, seed: int) -> list[tuple[Conversation, str]]:
    demos: list[tuple[Conversation, str]] = []
    for index in range(math.ceil(n / ANSWERS)):
        rng = random.Random(stable_seed(name, "demonstrations", seed, index))
        task = rng.randrange(len(_env(name).tasks))
        agent = rng.choice(AGENTS)
        conversation = _first_prompts(name, task)[agent]
        if rng.random() < 0.5:
            first_kinds = {agent_name: rng.choice(KINDS) for agent_name in AGENTS}
            first_answer = Message("assistant", _answer(conversation, first_kinds[agent]))
            feedback = _feedback(name, task, first_kinds[AUX], first_kinds[MAIN])[agent]
            conversation = (*conversation, first_answer, Message("user", feedback))
        demos += [(conversation, _answer(conversation, rng.choice(KINDS))) for _ in range(ANSWERS)]
    return demos[:n]


def _answer(conversation: Conversation, kind: str) -> str:
    policy = lazy if kind == "idle" else reference
    code = policy(conversation, 0)
    return code[: len(code) * 3 // 5] if kind == "cut" else code


@functools.cache
def _env(name: str) -> CodeEnv:
    return _ENVS[name]()


@functools.cache
def _first_prompts(name: str, task: int) -> dict[str, Conversation]:
    """Agent -> its conversation in the first turn."""
    observations, _ = _env(name).reset(options={"task": task})
    return {agent: (Message("user", text),) for agent, text in observations.items()}


@functools.cache
def _feedback(name: str, task: int, aux_kind: str, main_kind: str) -> dict[str, str]:
    """Agent -> its feedback after a first turn with answers of these kinds."""
    env, prompts = _env(name), _first_prompts(name, task)
    env.reset(options={"task": task})
    answers = {AUX: _answer(prompts[AUX], aux_kind), MAIN: _answer(prompts[MAIN], main_kind)}
    observations, *_ = env.step(answers)
    return observations


def reference(conversation: Conversation, _seed: int) -> str:
    """Write the requested function; for a problem that is not built in, the answer of `lazy`."""
    agent, name = parse_request(first_prompt(conversation))
    return _written(agent, solutions().get(name) or _idle(name))


def lazy(conversation: Conversation, _seed: int) -> str:
    """A helper that returns what it is given, and a thin wrapper of it."""
    agent, name = parse_request(first_prompt(conversation))
    return _written(agent, _idle(name))


@functools.cache
def solutions() -> dict[str, dict[str, str]]:
    """Entry point -> the code of `aux` and of `main`, for every built-in problem."""
    rows = [json.loads(line) for line in SOLUTIONS.read_text(encoding="utf-8").splitlines()]
    return {row["entry_point"]: {AUX: row[AUX], MAIN: row[MAIN]} for row in rows}


def _idle(name: str) -> dict[str, str]:
    return {
        AUX: "def aux(*values):\n    return values[0] if values else None",
        MAIN: f"def {name or 'main'}(*values):\n    return aux(*values)",
    }


def _written(agent: str, code: dict[str, str]) -> str:
    return code.get(agent) or f"{code[AUX]}\n\n\n{code[MAIN]}"
