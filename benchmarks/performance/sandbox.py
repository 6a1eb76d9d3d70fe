"""Speed and correctness of the sandbox.

Speed: cold start, sequential and parallel scoring, and scoring in environment steps. Correctness: the solutions that
come with a data set, each scored once and counted.
"""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field
from rich.console import Console

from palaver.core import ConfigError, Message, TaskError
from palaver.envs.base.env import TextEnv
from palaver.envs.base.tasks import Task, read_tasks
from palaver.envs.code.coophumaneval import CoopHumanEvalEnv
from palaver.envs.code.corpus import reference
from palaver.envs.code.humaneval import HumanEvalEnv
from palaver.envs.code.problems import problem, solution_of
from palaver.envs.code.sandbox import DEFAULT, Limits, Report, SandboxPool
from palaver.text import one_line
from palaver.utils.config import Section
from palaver.utils.machine import usable_cores
from palaver.utils.provenance import provenance


class SandboxBenchmark(Section):
    """Settings of the benchmark."""

    data: str | None = Field(None, description="a data set in HumanEval's or MBPP's schema; none: a built-in set")
    once: bool = Field(False, description="score each of its solutions once and count, instead of timing")
    programs: int = Field(400, ge=1, description="to score in each way, at least")
    workers: int = Field(usable_cores(), ge=1, description="programs scored at the same time")


class SandboxJob(NamedTuple):
    """A program and its tests, and the task's id if it is from a data set."""

    program: str
    tests: str
    entry_point: str
    prompt: str
    task: str = ""


_RETURN = re.compile(r"^([ \t]+)(?=return\b)", re.MULTILINE)

# of the usual size: a few lines, half a dozen calls
_PROGRAMS = {
    "digits": ("return sum(int(c) for c in str(abs(n)))", "n", "(0) == 0", "(7) == 7", "(-12) == 3", "(999) == 27"),
    "evens": ("return [x for x in a if x % 2 == 0]", "a", "([]) == []", "([1, 2, 4]) == [2, 4]", "([3]) == []"),
    "count": (
        "seen = {}\n    for c in s:\n        seen[c] = seen.get(c, 0) + 1\n    return seen",
        "s",
        "('') == {}",
        "('aab') == {'a': 2, 'b': 1}",
        "('zz') == {'z': 2}",
        "('xyz') == {'x': 1, 'y': 1, 'z': 1}",
    ),
    "primes": (
        "return [k for k in range(2, n) if all(k % d for d in range(2, int(k ** 0.5) + 1))]",
        "n",
        "(2) == []",
        "(10) == [2, 3, 5, 7]",
        "(30)[-1] == 29",
        "(200)[-1] == 199",
    ),
    "merge": (
        "a.extend(b)\n    a.sort()\n    return tuple(a)",
        "a, b",
        "([], []) == ()",
        "([3], [1, 2]) == (1, 2, 3)",
        "([5, 1], [4]) == (1, 4, 5)",
    ),
}


def built_in() -> list[SandboxJob]:
    """Programs measured by default, without a data set."""
    return [
        SandboxJob(
            f"def {name}({parameters}):\n    {body}\n",
            "\n".join(["def check(candidate):", *(f"    assert candidate{claim}" for claim in asserted), ""]),
            name,
            "",
        )
        for name, (body, parameters, *asserted) in _PROGRAMS.items()
    ]


def own_solutions(source: str) -> tuple[list[SandboxJob], dict[str, str], list[str]]:
    """Read the solutions of a data set, the skipped rows, and the rows without a solution.

    Args:
        source: a data set in HumanEval's schema or in one of MBPP's.

    Returns:
        The jobs; task id -> reason why it is skipped; the ids of the problems without a solution.

    Raises:
        TaskError: no such file, or nothing in it is a row.
    """
    left_out: dict[str, str] = {}

    def read(task: Task) -> SandboxJob | None:
        try:
            known = problem(task, source)
        except TaskError as error:
            left_out[task.id] = one_line(error)
            return None
        solution = solution_of(task, str(task.data.get("prompt") or ""))
        return SandboxJob(solution, known.tests, known.entry_point, known.context, task.id)

    _, jobs = read_tasks(source, read, sample=Path(source), fields={}, id_field="task_id", split="test")
    kept_jobs = [job for job in jobs.values() if job]
    return [job for job in kept_jobs if job.program], left_out, [job.task for job in kept_jobs if not job.program]


def tally(source: str, workers: int, limits: Limits = DEFAULT) -> dict[str, Any]:
    """Score every solution of a data set once, and return the counts as plain data.

    Args:
        source: as for `own_solutions`.
        workers: programs scored at the same time.
        limits: of each program.
    """
    jobs, left_out, without = own_solutions(source)

    def score(job: SandboxJob) -> Report:
        return pool.score(job.program, job.tests, job.entry_point, prompt=job.prompt, limits=limits)

    began = time.perf_counter()
    with SandboxPool(workers) as pool, ThreadPoolExecutor(workers) as threads:
        reports = dict(zip((job.task for job in jobs), threads.map(score, jobs), strict=True))
    return {
        "source": source,
        "rows": len(jobs) + len(left_out) + len(without),
        "left_out": left_out,
        "without_solution": len(without),
        "passed": sum(report.verdict == "pass" for report in reports.values()),
        "scored_zeros": {
            id: f"{report.verdict}: {report.passed} of {report.total}; {_why(report)}"
            for id, report in reports.items()
            if report.scored and report.verdict != "pass"
        },
        "unscored": {id: report.message for id, report in reports.items() if not report.scored},
        "tests": sum(report.total for report in reports.values()),
        "seconds": time.perf_counter() - began,
        "workers": workers,
    }


def _why(report: Report) -> str:
    return next((result.message for result in report.results if result.verdict != "pass"), "")


def _show_counts(result: dict[str, Any]) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"{result['source']}: {result['rows']} rows, {result['without_solution']} of them without a solution")
    console.print(
        f"{result['passed']} solutions pass all their tests ({result['tests']} in all), {result['seconds']:.1f} s"
    )
    for name in ("left_out", "scored_zeros", "unscored"):
        console.print(f"{name.replace('_', ' ')}: {len(result[name])}")
        for id, reason in result[name].items():
            console.print(f"  {one_line(id, 60)}: {one_line(reason, 200)}")


def run(plan: SandboxBenchmark, as_json: bool) -> None:
    """Measure or count, and print the report as JSON or as lines.

    Raises:
        ConfigError: a data set without solutions.
        SandboxError: no sandbox is possible on this machine.
    """
    source, programs, workers = plan.data, plan.programs, plan.workers
    if plan.once:
        if not source:
            raise ConfigError("once=true counts the solutions of a data set; name it: data=FILE")
        report = tally(source, workers) | {"provenance": provenance()}
        print(json.dumps(report, indent=2)) if as_json else _show_counts(report)
        return
    jobs = own_solutions(source)[0] if source else built_in()
    if not jobs:
        raise ConfigError(f"{source} holds no solution, in a field canonical_solution or code, that can be scored")
    report = {
        **measure(jobs, programs, workers),
        "steps_per_second": in_steps(source, jobs, programs, workers),
        "source": source or "built-in",
        "provenance": provenance(),
    }
    print(json.dumps(report, indent=2)) if as_json else _show(report)


def measure(jobs: Sequence[SandboxJob], programs: int, workers: int) -> dict[str, Any]:
    """The whole report, plain data."""
    repeated = [jobs[n % len(jobs)] for n in range(max(programs, len(jobs)))]
    with SandboxPool(1) as pool:
        cold = _seconds(pool, jobs[0])
        for job in jobs[:50]:
            _seconds(pool, job)
        began = time.perf_counter()
        first = [pool.score(job.program, job.tests, job.entry_point, prompt=job.prompt) for job in jobs]
        once = time.perf_counter() - began
        alone = [_seconds(pool, job) for job in repeated]
    with SandboxPool(workers) as pool, ThreadPoolExecutor(workers) as threads:
        list(threads.map(lambda job: _seconds(pool, job), repeated[: 10 * workers]))
        began = time.perf_counter()
        list(threads.map(lambda job: _seconds(pool, job), repeated))
        together = time.perf_counter() - began
    return {
        "mode": first[0].mode,
        "passed": sum(report.verdict == "pass" for report in first),
        "programs": len(jobs),
        "tests": sum(report.total for report in first),
        "cold_ms": 1000 * cold,
        "once_s": once,
        "median_ms": 1000 * statistics.median(alone),
        "p90_ms": 1000 * statistics.quantiles(alone, n=10)[-1],
        "workers": workers,
        "per_second": len(repeated) / together,
    }


def in_steps(source: str | None, jobs: Sequence[SandboxJob], programs: int, workers: int) -> float:
    """Programs scored per second in environment steps by threads, with all other work of a step.

    The threads step the environments as in a rollout.

    Two agents solve CoopHumanEval's built-in problems; with a data set one agent of `humaneval-v0` sends its
    solutions. All programs differ, as environments score equal programs once.

    Args:
        source: as for `run`.
        jobs: solutions of a data set.
        programs: steps, at least.
        workers: threads that step.
    """
    env: TextEnv = HumanEvalEnv(tasks=source, agents=1, num_turns=1) if source else CoopHumanEvalEnv(num_turns=1)
    programs_by_task = {job.task: job.program for job in jobs}
    steps = []
    for index in range(max(programs, len(env.tasks)) + 10 * workers):
        env_copy = env.fork()
        observations, infos = env_copy.reset(seed=0, options={"task": index % len(env.tasks)})
        texts = {
            agent: programs_by_task.get(infos[agent]["task_id"]) or reference((Message("user", observation),), 0)
            for agent, observation in observations.items()
        }
        actions = {agent: _RETURN.sub(rf"\1# {index}\n\1", text) for agent, text in texts.items()}
        steps.append(partial(env_copy.step, actions))
    with ThreadPoolExecutor(workers) as threads:
        list(threads.map(lambda step: step(), steps[: 10 * workers]))
        began = time.perf_counter()
        list(threads.map(lambda step: step(), steps[10 * workers :]))
        return (len(steps) - 10 * workers) / (time.perf_counter() - began)


def _seconds(pool: SandboxPool, job: SandboxJob) -> float:
    began = time.perf_counter()
    pool.score(job.program, job.tests, job.entry_point, prompt=job.prompt)
    return time.perf_counter() - began


def _show(report: dict[str, Any]) -> None:
    console = Console(highlight=False)
    passed = f"{report['passed']} of {report['programs']} pass all their tests ({report['tests']} in all)"
    console.print(f"sandbox: {report['mode']}; programs: {report['source']}, {passed}")
    lines = {
        "cold start": f"{report['cold_ms']:.0f} ms until the first program is scored",
        "each once": f"{report['once_s']:.2f} s",
        "one by one": f"{report['median_ms']:.1f} ms a program (median), 90 % within {report['p90_ms']:.1f} ms",
        "side by side": f"{report['per_second']:.0f} programs a second, {report['workers']} at a time",
        "in steps": f"{report['steps_per_second']:.0f} programs a second, in environments stepped by threads",
    }
    for name, value in lines.items():
        console.print(f"{name:<13} {value}")
