"""First prompts of the programmers. A change here bumps the versions of the environments."""

from __future__ import annotations

import re

from palaver.envs.code.programs import AUX

MAIN, SOLO = "main", "coder"

_TASKS = {
    AUX: (
        "Two programmers solve the Python problem below together. You write a helper function `aux(...)` that does a "
        "useful part of the work and returns its result. Your colleague, whom you cannot talk to, writes `{name}` and "
        "may call `aux`. Answer with the code of `aux` alone."
    ),
    MAIN: (
        "Two programmers solve the Python problem below together. You write the function `{name}`. Your colleague, "
        "whom you cannot talk to, writes a helper function `aux(...)` that does a useful part of the work; call it, "
        "use what it returns, and do the rest. Answer with the code of `{name}` alone."
    ),
    SOLO: (
        "Solve the Python problem below with two functions: a helper function `aux(...)` that does a useful part of "
        "the work and returns its result, and `{name}`, which calls it and does the rest. Answer with the code of both "
        "alone."
    ),
}
_ASKED = {AUX: "`aux`", MAIN: "`{name}`", SOLO: "`aux` and `{name}`"}
_PATTERNS = {
    agent: re.compile(re.escape(words).replace(r"\{name\}", r"(\w+)", 1).replace(r"\{name\}", r"\w+"))
    for agent, words in _TASKS.items()
}


def opening(agent: str, prompt: str, entry_point: str) -> str:
    """The first observation of `aux`, `main`, or the single programmer `coder`.

    Args:
        agent: its name.
        prompt: the problem as its data set has it.
        entry_point: the requested function.
    """
    return f"{_TASKS[agent].format(name=entry_point)}\n\n{prompt.strip()}"


def requested_part(agent: str, entry_point: str) -> str:
    """The part of the program that an agent writes, in code marks."""
    return _ASKED[agent].format(name=entry_point)


def parse_request(prompt: str) -> tuple[str, str]:
    """Parse agent and entry point out of a first observation; both "" if it is none."""
    for agent, pattern in _PATTERNS.items():
        if match := pattern.match(prompt):
            return agent, match[1]
    return "", ""
