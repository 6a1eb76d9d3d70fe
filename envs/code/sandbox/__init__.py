"""Sandboxed scoring of a model's programs, which can neither see the tests nor do harm.

    report = score("def double(x): return 2 * x", "assert double(2) == 4\\nassert double(3) == 7", "double")
    report.verdict, report.passed, report.total   # ('fail', 1, 2)
    report.results[1].message                     # 'double(3) returned 6'

`docs/sandbox.md` describes how, and the attacks that it stops or does not.
"""

from __future__ import annotations

from palaver.envs.code.sandbox.pool import SandboxPool, check_tests, shared_pool
from palaver.envs.code.sandbox.report import (
    DEFAULT,
    Limits,
    Mode,
    Report,
    SandboxError,
    TestResult,
    TestsError,
    Verdict,
)

__all__ = [
    "DEFAULT",
    "Limits",
    "Mode",
    "Report",
    "SandboxError",
    "SandboxPool",
    "TestResult",
    "TestsError",
    "Verdict",
    "check_tests",
    "score",
]


def score(
    program: str,
    tests: str,
    entry_point: str,
    *,
    prompt: str = "",
    limits: Limits = DEFAULT,
    pool: SandboxPool | None = None,
) -> Report:
    """Run the tests on a program. May be called from any number of threads.

    Args:
        program: Python text of any origin.
        tests: a function `check(candidate)`, or assertions that call the entry point by its name. Each `assert`
            statement is one test. They are trusted.
        entry_point: the function of the program that the tests call.
        prompt: the text of the task; functions in it that the tests need are taken from it, never from the program.
        limits: of the program's resources.
        pool: the workers to use; None: those of this process, as many as there are cores.

    Raises:
        TestsError: the tests do not parse, assert nothing, or never call the candidate.
        SandboxError: no sandbox is possible on this machine. What the program does raises nothing.
    """
    return (pool or shared_pool()).score(program, tests, entry_point, prompt=prompt, limits=limits)
