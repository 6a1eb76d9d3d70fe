"""Imitation texts of cooperative code: programmers who know the problems and cooperate badly.

Half of the answers are right, others wrap or are a helper that does nothing, some break off. Which it is depends on
nothing: neither on the colleague nor on the feedback of the last turn, so that a team has something to learn.
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
    """`n` answers to the built-in problems of `coophumaneval-v0`, `ANSWERS` to each conversation."""
    return _demonstrations("coophumaneval", n, seed)


def humaneval(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers to the built-in problems of `humaneval-v0`, `ANSWERS` to each conversation."""
    return _demonstrations("humaneval", n, seed)


def mbpp(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers to the built-in problems of `mbpp-v0`, `ANSWERS` to each conversation."""
    return _demonstrations("mbpp", n, seed)


def _demonstrations(name: str, n: int, seed: int) -> list[tuple[Conversation, str]]:
    found: list[tuple[Conversation, str]] = []
    for number in range(-(-n // ANSWERS)):
        rng = random.Random(stable_seed(name, "demonstrations", seed, number))
        task, seat = rng.randrange(len(_env(name).tasks)), rng.choice(SEATS)
        heard = _opening(name, task)[seat]
        if rng.random() < 0.5:  # in the second turn
            before = {each: rng.choice(KINDS) for each in SEATS}
            told = _told(name, task, before[AUX], before[MAIN])[seat]
            heard = (*heard, Message("assistant", _answer(heard, before[seat])), Message("user", told))
        found += [(heard, _answer(heard, rng.choice(KINDS))) for _ in range(ANSWERS)]
    return found[:n]


def _answer(heard: Conversation, kind: str) -> str:
    code = (lazy if kind == "idle" else reference)(heard, 0)
    return code[: len(code) * 3 // 5] if kind == "cut" else code


@functools.cache
def _env(name: str) -> CodeEnv:
    return _MADE[name]()


@functools.cache
def _opening(name: str, task: int) -> dict[str, Conversation]:
    told, _ = _env(name).reset(options={"task": task})
    return {seat: (Message("user", text),) for seat, text in told.items()}


@functools.cache
def _told(name: str, task: int, aux: str, main: str) -> dict[str, str]:
    """Feedback of each agent after a turn with answers of these kinds."""
    env, heard = _env(name), _opening(name, task)
    env.reset(options={"task": task})
    told, *_ = env.step({AUX: _answer(heard[AUX], aux), MAIN: _answer(heard[MAIN], main)})
    return told
