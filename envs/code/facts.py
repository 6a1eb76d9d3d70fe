"""Facts of a turn's program: what was written, and the results of its tests. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from palaver.envs.code.answers import ParsedProgram, Part
from palaver.envs.code.programs import AUX, Program
from palaver.envs.code.prompts import MAIN, SOLO
from palaver.envs.code.sandbox import Report


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """Facts of a program that a reward may read.

    Attributes:
        formatted: every answer is nothing but the requested function, and imports.
        aux_defined: `aux` is defined with a return.
        main_defined: the entry point is defined.
        aux_parses: `aux` is there and is Python.
        main_parses: the entry point is there and is Python.
        parses: both are there or main alone is, and together they are Python.
        passed: tests passed.
        total: tests.
        timeouts: tests that took too long.
        calls_aux: there is an `aux`, and main calls it.
        wrapper: main is a thin wrapper of `aux`.
        ignores_aux: main drops a result of `aux`.
    """

    formatted: bool
    aux_defined: bool
    main_defined: bool
    aux_parses: bool
    main_parses: bool
    parses: bool
    passed: int
    total: int
    timeouts: int
    calls_aux: bool
    wrapper: bool
    ignores_aux: bool

    @property
    def solved(self) -> bool:
        """True if all tests passed."""
        return self.passed == self.total > 0

    def metrics(self) -> dict[str, float]:
        """The measurements of a turn."""
        return {
            "syntax_valid": float(self.parses),
            "tests_passed": float(self.passed),
            "tests_total": float(self.total),
            "solved": float(self.solved),
            "aux_used": float(self.calls_aux),
            "wrapper": float(self.wrapper),
            "timeouts": float(self.timeouts),
        }


def gather(
    programs: Mapping[str, ParsedProgram], entry_point: str, program: Program, report: Report | None, total: int
) -> ProgramFacts:
    """The facts of a turn.

    Args:
        programs: agent -> the parsed program of its answer.
        entry_point: the requested function.
        program: joined from the answers.
        report: of the sandbox; None where nothing could be run.
        total: tests of the problem.
    """
    return ProgramFacts(
        formatted=all(_formatted(agent, answer, entry_point) for agent, answer in programs.items()),
        aux_defined=program.aux_defined,
        main_defined=program.main is not None,
        aux_parses=_sound(program.aux),
        main_parses=_sound(program.main),
        parses=program.main is not None and not program.fault,
        passed=report.passed if report else 0,
        total=report.total or total if report else total,
        timeouts=timeouts(report) if report else 0,
        calls_aux=program.calls_aux,
        wrapper=program.wrapper,
        ignores_aux=program.ignores_aux,
    )


def timeouts(report: Report) -> int:
    """Tests that took too long; 1 where the program as a whole did."""
    tests = sum(result.verdict == "timeout" for result in report.results)
    return tests or int(report.verdict == "timeout")


def reason(facts: ProgramFacts, entry_point: str, program: Program, report: Report | None) -> str:
    """Reason of the reward: missing functions, the parser's message, or the tests' results."""
    if not facts.main_defined:
        return f"no function {entry_point} in the answer"
    if not facts.parses:
        return f"the program is not Python: {program.fault}"
    passed = f"{facts.passed} of {facts.total} tests passed"
    failed = next((result for result in report.results if result.verdict != "pass"), None) if report else None
    return f"{passed}; {failed.message or failed.verdict}" if failed else passed


def _formatted(agent: str, answer: ParsedProgram, entry_point: str) -> bool:
    required = {AUX: {AUX}, MAIN: {entry_point}, SOLO: {AUX, entry_point}}[agent]
    parts = [part for part in answer.parts if part.kind != "import"]
    return answer.bare and {name for part in parts for name in part.names} == required


def _sound(part: Part | None) -> bool:
    return part is not None and part.node is not None
