"""Programs scored by the sandbox, each once: groups of samples hold many that are equal."""

from __future__ import annotations

import threading
from collections import OrderedDict

from palaver.envs.code.problems import CodeProblem
from palaver.envs.code.sandbox import Limits, Report, score

KEPT = 4096  # reports
LASTING = frozenset({"pass", "fail", "error"})  # what does not depend on how busy the machine was

_reports: OrderedDict[tuple[str, str, str, Limits], Report] = OrderedDict()
_lock = threading.Lock()


def run(problem: CodeProblem, program: str, limits: Limits) -> Report:
    """The sandbox's report on a program; that of an equal program where there is one.

    Args:
        problem: whose tests decide.
        program: its source.
        limits: what it may use.

    Raises:
        SandboxError: no sandbox is possible on this machine.
    """
    key = (program, problem.tests, problem.entry_point, limits)
    with _lock:
        if known := _reports.get(key):
            _reports.move_to_end(key)
            return known
    report = score(program, problem.tests, problem.entry_point, prompt=problem.context, limits=limits)
    if all(verdict in LASTING for verdict in (report.verdict, *(result.verdict for result in report.results))):
        with _lock:
            _reports[key] = report
            while len(_reports) > KEPT:
                _reports.popitem(last=False)
    return report
