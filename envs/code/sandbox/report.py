"""Limits of a program, and the report on it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from palaver.core import ConfigError, PalaverError, TaskError

Verdict = Literal["pass", "fail", "error", "timeout", "memory", "killed", "sandbox_error"]
Mode = Literal["bubblewrap", "landlock", "unsafe"]
MIB = 1 << 20


class SandboxError(PalaverError):
    """No kind of confinement works on this machine, or the requested one does not."""


class TestsError(TaskError):
    """Tests that cannot be used.

    They do not parse, hold no assertion, or never call the entry point.
    """

    __test__ = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of one program. Sizes are bytes.

    Attributes:
        seconds: processor time of loading the program, and of each call of its function; also of the tests' own work
            on what it returned.
        total_seconds: processor time of everything together.
        wall_factor: so many times as much wall clock may pass, for the two above: what a program has that sleeps, and
            on a busy machine one that computes.
        timeouts: after so many lost workers (timeout, memory, killed) the remaining tests are not run.
        memory: address space.
        file_size: largest file it may write into its private /tmp (4 MiB in all, and only with bubblewrap).
        processes: processes and threads.
        open_files: descriptors.
        reply: largest value it may return, encoded.
        program: largest program text, encoded.
    """

    seconds: float = 2.0
    total_seconds: float = 10.0
    wall_factor: float = 5.0
    timeouts: int = 3
    memory: int = 512 * MIB
    file_size: int = MIB
    processes: int = 16
    open_files: int = 64
    reply: int = MIB
    program: int = MIB

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ConfigError(f"the sandbox's limit {field.name} must be more than 0")


DEFAULT = Limits()


@dataclass(frozen=True, slots=True)
class TestResult:
    """One assertion of the tests.

    Attributes:
        line: in the tests, from 1.
        verdict: never `sandbox_error`, unless the whole report is.
        message: reason why it did not pass, one line that may quote the program; empty where it passed.
        test: the asserted expression.
    """

    __test__ = False

    line: int
    verdict: Verdict
    message: str
    test: str


@dataclass(frozen=True, slots=True)
class Report:
    """Results of the tests on one program.

    Attributes:
        verdict: `pass` where all passed, else that of the first test that did not. `sandbox_error` means that nothing
            is known of the program, for a reason that is not its own: it is unscored, never a zero.
        passed: tests passed.
        total: tests.
        results: one for each test, in the order of the text.
        seconds: wall clock, waiting for a free worker excluded.
        mode: of the program's confinement; empty where no worker could be started.
        message: reason why there is no score, or why no test was run.
    """

    verdict: Verdict
    passed: int
    total: int
    results: tuple[TestResult, ...]
    seconds: float
    mode: Mode | Literal[""]
    message: str = ""

    @property
    def scored(self) -> bool:
        """True if the numbers describe the program."""
        return self.verdict != "sandbox_error"
