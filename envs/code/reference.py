"""Scripted programmers for cooperative code.

`reference` solves the built-in problems, `lazy` wraps a helper that does nothing. Both read their function from the
prompt, and give the same answer in every turn.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

from palaver.core import Conversation
from palaver.envs.base.scripted import first_prompt
from palaver.envs.code.programs import AUX
from palaver.envs.code.prompts import MAIN, parse_request

SOLUTIONS = Path(__file__).with_name("solutions.jsonl")


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
