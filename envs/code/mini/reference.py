"""Scripted programmers for `coding-mini-v0`.

`reference` always takes the helper for a test, `strangers` take any.
"""

from __future__ import annotations

import random

from palaver.core import Conversation, stable_seed
from palaver.envs.base.scripted import first_prompt
from palaver.envs.code.mini.family import CONVENTIONS, Combination, combinations, seat_of

_BY_TEXT = {combination.text: combination for combination in combinations()}


def reference(conversation: Conversation, _seed: int) -> str:
    """Write the requested half by the convention `test`; "" if the prompt is none of the family."""
    return _answer(conversation, "test", "test")


def strangers(conversation: Conversation, seed: int) -> str:
    """Write the requested half by any convention."""
    rng = random.Random(stable_seed("coding-mini strangers", seed, conversation[-1].content if conversation else ""))
    return _answer(conversation, rng.choice(CONVENTIONS), rng.choice(CONVENTIONS))


def _answer(conversation: Conversation, helper: str, caller: str) -> str:
    prompt = first_prompt(conversation)
    combination: Combination | None = _BY_TEXT.get(prompt.rpartition("\n")[2])
    if combination is None:
        return ""
    aux, main = combination.aux(helper), combination.main(caller)
    return {"aux": aux, "main": main, "coder": f"{aux}\n\n\n{main}"}.get(seat_of(prompt), "")
