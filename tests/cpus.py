"""Run the numeric and learning tests as other machines would compute them, and print one table.

`make test-cpus`, or `python -m tests.cpus [arguments of pytest]` in place of the tests below. Every instruction set up
to the CPU's best is tried with 1 and 2 threads, and the best once more while busy processes take the cores away.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
# what computes with torch; environments, sandbox, servers and pages do not
TESTS = (
    "tests/trainers",
    "tests/agents/battle_net",
    "tests/agents/reward_models",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/agents").glob("test_*.py")),
)
# torch's own kernels, oneDNN's, and MKL's matrix products, which heed neither of the other two variables
VARIABLES = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
INSTRUCTION_SETS = {
    "default": ("default", "SSE41", "SSE4_2"),
    "avx2": ("avx2", "AVX2", "AVX2"),
    "avx512": ("avx512", "AVX512_CORE", "AVX512"),
}
BUSY = 4
LIMIT_S = 3600.0  # of one setting
# A busy process ends with its parent, also where that is killed and can end nothing itself.
SPIN = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    sum(range(100_000))"


@dataclass(frozen=True, slots=True)
class Setting:
    """A machine to stand in for: an instruction set, threads of torch, and processes that take the cores away."""

    instruction_set: str
    threads: int
    busy: int = 0

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        return f"{self.instruction_set}, {threads}" + (f", {self.busy} busy processes" if self.busy else "")

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """The variables of a test process."""
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(self.threads))
        names = zip(VARIABLES, INSTRUCTION_SETS[self.instruction_set], strict=True)
        return {**base, **dict(names), **threads}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Counts of tests in one setting; `failed` counts errors, and the setting itself where pytest did not end well."""

    setting: Setting
    passed: int
    failed: int
    skipped: int
    seconds: float


def instruction_sets(base: Mapping[str, str]) -> list[str]:
    """Names of those the CPU has, best last; a CPU that is no x86 has its default alone."""
    free = {name: value for name, value in base.items() if name not in VARIABLES}
    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    found = subprocess.run(
        [sys.executable, "-c", code], env=free, capture_output=True, text=True, check=True, timeout=300
    )
    names = list(INSTRUCTION_SETS)
    best = found.stdout.strip().lower()
    return names[: names.index(best) + 1] if best in names else names[:1]


def settings(names: Sequence[str]) -> list[Setting]:
    """Each instruction set with 1 and 2 threads, and the best on a busy machine."""
    return [*(Setting(name, threads) for name in names for threads in (1, 2)), Setting(names[-1], 1, BUSY)]


def command(setting: Setting, arguments: Sequence[str], report: Path, jobs: int) -> list[str]:
    """The call of pytest, in as many processes as have `jobs` cores to themselves."""
    given = list(arguments) or ["-m", "not slow", *TESTS]
    processes = max(1, jobs // setting.threads)
    # a test that waits for another process waits longer on a busy machine
    patience = ["-o", "timeout=1200"] if setting.busy else []
    return [
        sys.executable, "-m", "pytest", "-n", str(processes), "--dist", "worksteal", *patience,
        f"--junitxml={report}", *given,
    ]  # fmt: skip


@contextmanager
def busy_processes(count: int, *, own_sessions: bool = False) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that compute without end, and end with the block.

    Args:
        count: number of processes.
        own_sessions: start each in a session of its own: a kernel may share processors out by session.
    """
    command = [sys.executable, "-c", SPIN, str(os.getpid())]
    running = [subprocess.Popen(command, start_new_session=own_sessions) for _ in range(count)]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait(timeout=30)


def run(setting: Setting, arguments: Sequence[str], jobs: int) -> Outcome:
    """The tests in one setting."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, busy_processes(setting.busy):
        report = Path(folder) / "report.xml"
        try:
            code = subprocess.run(
                command(setting, arguments, report, jobs),
                env=setting.environment(os.environ), cwd=ROOT, check=False, timeout=LIMIT_S,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            print(f"{setting}: ended after {LIMIT_S:.0f} s", file=sys.stderr)
            code = 1
        counts = read(report)
    failed = counts["failures"] + counts["errors"]
    passed = counts["tests"] - failed - counts["skipped"]
    return Outcome(setting, passed, failed or int(code != 0), counts["skipped"], time.monotonic() - start)


def read(report: Path) -> dict[str, int]:
    """The counts of a report; all 0 where pytest wrote none."""
    names = ("tests", "failures", "errors", "skipped")
    if not report.is_file():
        return dict.fromkeys(names, 0)
    suites = list(ElementTree.parse(report).iter("testsuite"))
    return {name: sum(int(suite.get(name, 0)) for suite in suites) for name in names}


def table(outcomes: Sequence[Outcome]) -> str:
    """One line for each setting."""
    lines = [f"{'setting':<36}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}"]
    for each in outcomes:
        lines.append(f"{each.setting!s:<36}{each.passed:>8}{each.failed:>8}{each.skipped:>9}{each.seconds:>9.0f}")
    return "\n".join(lines)


def _terminated(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)  # through the `finally` clauses, which end what runs


def main(arguments: Sequence[str]) -> int:
    """All settings; 1 if a test failed in any, 130 after Ctrl-C."""
    signal.signal(signal.SIGTERM, _terminated)
    jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    outcomes: list[Outcome] = []
    try:
        for setting in settings(instruction_sets(os.environ)):
            print(f"\n{setting}", flush=True)
            outcomes.append(run(setting, arguments, jobs))
    except KeyboardInterrupt:
        print(f"\nStopped.\n{table(outcomes)}")
        return 130
    print(f"\n{table(outcomes)}")
    return int(any(each.failed for each in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
