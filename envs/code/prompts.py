"""Prompts of the programmers: the first ones, and the feedback after a turn, by mode.

A change here bumps the versions of the environments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from palaver.envs.code.programs import AUX, Program
from palaver.text import clean, one_line

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


Mode = Literal["level", "passed", "level_passed", "plain", "expert", "none"]
SHOWN = 300  # characters of a test and of what became of it
TESTS = 20  # tests shown
_REVISE = "Write {what} again, corrected where it is wrong."


@dataclass(frozen=True, slots=True)
class VisibleTest:
    """A visible test: its text, whether it passed, and what became of it otherwise."""

    source: str
    passed: bool
    message: str


@dataclass(frozen=True, slots=True)
class TurnResult:
    """Result of a turn.

    Attributes:
        entry_point: the requested function.
        program: what was written.
        seen: the visible tests; empty where nothing could be run.
    """

    entry_point: str
    program: Program
    seen: Sequence[VisibleTest]

    @property
    def passed(self) -> bool:
        """True if all visible tests passed."""
        return bool(self.seen) and all(test.passed for test in self.seen)


def follow_up(mode: Mode, agent: str, result: TurnResult, turn: int, turns: int, advice: Mapping[str, str]) -> str:
    """The observation of `agent` before turn `turn` (from 1) of `turns`.

    Args:
        mode: see the module.
        agent: `aux`, `main`, or `coder`, who sees everything.
        result: of the turn before.
        turn: the one to come.
        turns: of the episode.
        advice: the expert's functions, by `aux` and `main`; empty where it gave none.
    """
    what = requested_part(agent, result.entry_point)
    messages = _TOLD[mode](agent, result, advice)
    return "\n".join([f"Turn {turn} of {turns}.", *messages, _REVISE.format(what=what)])


def _level(agent: str, result: TurnResult, _advice: Mapping[str, str]) -> list[str]:
    program, name = result.program, result.entry_point
    returns = "found" if program.aux_defined else "found, but it returns nothing"
    lines = [
        f"- `aux`: {returns if program.aux else 'missing'}",
        f"- `{name}`: {'found' if program.main else 'missing'}",
        f"- syntax of both together: {_syntax(program)}",
    ]
    lines += [f"- {_test(test)}" for test in result.seen[:TESTS]]
    if len(result.seen) > TESTS:
        lines.append(f"- and {len(result.seen) - TESTS} more tests")
    if agent != AUX:
        lines += _use(program, name)
    return ["What became of the last turn:", *lines]


def _syntax(program: Program) -> str:
    if not program.fault:
        return "correct"
    line, _, _ = program.fault.removeprefix("line ").partition(":")
    lines = program.source.split("\n")
    where = lines[int(line) - 1].strip() if line.isdecimal() and 0 < int(line) <= len(lines) else ""
    return one_line(f"{program.fault}: {where}" if where else program.fault, SHOWN)


def _test(test: VisibleTest) -> str:
    became = "passed" if test.passed else f"failed ({one_line(test.message, SHOWN) or 'no reason given'})"
    return f"`{one_line(test.source, SHOWN)}`: {became}"


def _use(program: Program, name: str) -> list[str]:
    if program.main is None or program.aux is None or program.fault:
        return []
    if not program.calls_aux:
        return [f"- `{name}` does not call `aux`"]
    lines = [f"- `{name}` only returns what `aux` returns; do part of the work in it"] if program.wrapper else []
    return [*lines, f"- `{name}` drops a result of `aux`"] if program.ignores_aux else lines


def _passed(_agent: str, result: TurnResult, _advice: Mapping[str, str]) -> list[str]:
    return [f"The last program {'passed' if result.passed else 'did not pass'} the visible tests."]


def _level_passed(_agent: str, result: TurnResult, _advice: Mapping[str, str]) -> list[str]:
    program = result.program
    levels = {
        "`aux` found": program.aux_defined,
        f"`{result.entry_point}` found": program.main is not None,
        "syntax": not program.fault and program.main is not None,
        "visible tests": result.passed,
    }
    flags = (f"{name} {'yes' if held else 'no'}" for name, held in levels.items())
    return [f"The last program: {', '.join(flags)}."]


def _plain(_agent: str, _result: TurnResult, _advice: Mapping[str, str]) -> list[str]:
    return ["Go over your code: is it correct, and does it fit what your colleague may have written?"]


def _expert(agent: str, result: TurnResult, advice: Mapping[str, str]) -> list[str]:
    wanted = [name for name in (AUX, MAIN) if agent in (name, "coder") and advice.get(name, "").strip()]
    if not wanted:
        return _plain(agent, result, advice)
    advice_text = "\n\n".join(clean(advice[name].strip(), 4000) for name in wanted)
    return ["An expert who saw both functions suggests:", "```python", advice_text, "```"]


def _no_feedback(_agent: str, _result: TurnResult, _advice: Mapping[str, str]) -> list[str]:
    return []


_TOLD = {
    "level": _level,
    "passed": _passed,
    "level_passed": _level_passed,
    "plain": _plain,
    "expert": _expert,
    "none": _no_feedback,
}
