"""Reward of a program in the published form of CoMLRL's code tasks, and its facts. Pure.

Source: S. Liu et al., "LLM Collaboration With Multi-Agent Reinforcement Learning" (arXiv:2508.04652) and the repository
OpenMLRL/LLM_Collab_Code_Generation, `rewards/code_rewards.py`. With p of n tests passed:

    aux_defined    = 0.4 if `aux` is defined with a return
    main_defined   = 0.6 if the entry point is defined, else stop
    syntax         = 0.5 if the joined program parses, else stop
    tests          = 1.0 · p / n, and stop if p = 0
    calls_aux      = 0.5 if there is an `aux` and main calls it, else stop
    no_wrapper     = 1.0 if main is no thin wrapper of `aux`
    ignores_aux    = -0.5 if main drops a result of `aux`

At most 4.0. The reward is `scale` times each component, plus `shift` as one more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile

from palaver.core import ConfigError, did_you_mean
from palaver.envs.base.arguments import truth
from palaver.envs.base.tasks import Shared
from palaver.envs.code.answers import ParsedProgram, Part
from palaver.envs.code.programs import AUX, Program
from palaver.envs.code.prompts import MAIN, SOLO
from palaver.envs.code.sandbox import Report

WEIGHTS: Mapping[str, float] = {
    "aux_defined": 0.4,
    "main_defined": 0.6,
    "syntax": 0.5,
    "tests": 1.0,
    "calls_aux": 0.5,
    "no_wrapper": 1.0,
    "ignores_aux": -0.5,
}
_LEVELS = (("aux_defined", "main_defined"), ("syntax",), ("tests",), ("calls_aux",), ("no_wrapper", "ignores_aux"))
FORMAT = 0.5  # reward of the gate `entry_format`; with it a turn gives 4.5 at most


@dataclass(frozen=True)
class CodeRewardConfig(Shared):
    """The constants of the reward.

    Attributes:
        weights: the weight of each component; those left out keep theirs.
        scale: multiplies every component.
        shift: is added, as a component of that name.
        entry_format: gives 0.5 as `format` for answers of nothing but the requested function; at others all stops.

    Raises:
        ConfigError: a value that does not fit; the message begins with the keyword.
    """

    weights: Mapping[str, float]
    scale: float
    shift: float
    entry_format: bool

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Mapping):
            raise ConfigError(f"weights must map components to numbers, got {self.weights!r:.60}")
        for name in self.weights:
            if name not in WEIGHTS:
                raise ConfigError(f"weights has no component {name!r}.{did_you_mean(str(name), WEIGHTS)}")
        weights = {
            name: finite_float(f"weights.{name}", self.weights.get(name, usual)) for name, usual in WEIGHTS.items()
        }
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "scale", finite_float("scale", self.scale))
        object.__setattr__(self, "shift", finite_float("shift", self.shift))
        if self.scale <= 0:
            raise ConfigError(f"scale must be above 0, got {self.scale!r}")
        truth("entry_format", self.entry_format)

    @property
    def max_reward(self) -> float:
        """Upper bound of a turn's reward."""
        best = sum(max(0.0, weight) for weight in self.weights.values()) + (FORMAT if self.entry_format else 0.0)
        return self.scale * best + self.shift


def score(rubric: CodeRewardConfig, facts: ProgramFacts) -> dict[str, float]:
    """The components, every one of them named, those not reached 0."""
    reached = _reached(facts)
    earned = {
        "aux_defined": float(facts.aux_defined),
        "main_defined": float(facts.main_defined),
        "syntax": float(facts.parses),
        "tests": facts.passed / max(1, facts.total),
        "calls_aux": float(facts.calls_aux),
        "no_wrapper": float(not facts.wrapper),
        "ignores_aux": float(facts.ignores_aux),
    }
    stopped = rubric.entry_format and not facts.formatted
    parts = {
        name: 0.0 if stopped or name not in reached else rubric.scale * rubric.weights[name] * share
        for name, share in earned.items()
    }
    if rubric.entry_format:
        parts["format"] = rubric.scale * FORMAT * facts.formatted
    if rubric.shift:
        parts["shift"] = rubric.shift
    return parts


def _reached(facts: ProgramFacts) -> set[str]:
    """The components that no earlier level has closed."""
    opened = takewhile(bool, (facts.main_defined, facts.parses, facts.passed, facts.calls_aux))
    return {name for level in _LEVELS[: 1 + len(list(opened))] for name in level}


def finite_float(keyword: str, value: object) -> float:
    """A keyword that must be a finite number.

    Raises:
        ConfigError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{keyword} must be a number, got {value!r:.60}")
    if abs(value) > 1e6 or not math.isfinite(value):
        raise ConfigError(f"{keyword} must be between -1e6 and 1e6, got {value!r:.60}")
    return float(value)


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
    return sum(result.verdict == "timeout" for result in report.results) or int(report.verdict == "timeout")


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
