"""Imitation texts of cooperative code.

Programmers know the problems and cooperate badly. Half of the answers are right, others wrap or are a helper that does
nothing, some break off. Which it is depends on nothing: neither on the colleague nor on the feedback of the last turn,
so that a team has something to learn.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.code.coophumaneval import CoopHumanEvalEnv
from palaver.envs.code.humaneval import HumanEvalEnv
from palaver.envs.code.mbpp import MbppEnv
from palaver.envs.code.programs import AUX
from palaver.envs.code.prompts import MAIN
from palaver.envs.code.published import CodeEnv
from palaver.envs.code.reference import lazy, reference

TINY = {"texts": 1200, "batch": 3, "steps": 400}  # few conversations: all answers to one share a batch
ANSWERS = 4  # to each conversation; they share its computation in training
KINDS = ("right",) * 5 + ("idle",) * 3 + ("cut",) * 2
SEATS = (AUX, MAIN)
_MADE: Mapping[str, type[CodeEnv]] = {"coophumaneval": CoopHumanEvalEnv, "humaneval": HumanEvalEnv, "mbpp": MbppEnv}


def coophumaneval(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers to the built-in problems of `coophumaneval-v0`.

    `ANSWERS` to each conversation.
    """
    return _demonstrations("coophumaneval", n, seed)


def humaneval(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers to the built-in problems of `humaneval-v0`, `ANSWERS` to each conversation."""
    return _demonstrations("humaneval", n, seed)


def mbpp(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers to the built-in problems of `mbpp-v0`, `ANSWERS` to each conversation."""
    return _demonstrations("mbpp", n, seed)


def _demonstrations(name: str, n: int, seed: int) -> list[tuple[Conversation, str]]:
    demos: list[tuple[Conversation, str]] = []
    for index in range(-(-n // ANSWERS)):
        rng = random.Random(stable_seed(name, "demonstrations", seed, index))
        task, agent = rng.randrange(len(_env(name).tasks)), rng.choice(SEATS)
        conversation = _opening(name, task)[agent]
        if rng.random() < 0.5:  # in the second turn
            before = {name_of_agent: rng.choice(KINDS) for name_of_agent in SEATS}
            feedback = _feedback(name, task, before[AUX], before[MAIN])[agent]
            conversation = (
                *conversation,
                Message("assistant", _answer(conversation, before[agent])),
                Message("user", feedback),
            )
        demos += [(conversation, _answer(conversation, rng.choice(KINDS))) for _ in range(ANSWERS)]
    return demos[:n]


def _answer(conversation: Conversation, kind: str) -> str:
    code = (lazy if kind == "idle" else reference)(conversation, 0)
    return code[: len(code) * 3 // 5] if kind == "cut" else code


@functools.cache
def _env(name: str) -> CodeEnv:
    return _MADE[name]()


@functools.cache
def _opening(name: str, task: int) -> dict[str, Conversation]:
    observations, _ = _env(name).reset(options={"task": task})
    return {agent: (Message("user", text),) for agent, text in observations.items()}


@functools.cache
def _feedback(name: str, task: int, aux: str, main: str) -> dict[str, str]:
    """Feedback of each agent after a turn with answers of these kinds."""
    env, conversations = _env(name), _opening(name, task)
    env.reset(options={"task": task})
    observations, *_ = env.step({AUX: _answer(conversations[AUX], aux), MAIN: _answer(conversations[MAIN], main)})
    return observations
