"""Base of cooperative code: two programmers, one program, tests that decide."""

from __future__ import annotations

import re
import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

from palaver.core import ConfigError
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import ParsedTasks, Task
from palaver.envs.code import answers, prompts
from palaver.envs.code.expert import Advisor
from palaver.envs.code.problems import CodeProblem
from palaver.envs.code.programs import AUX, Program, join
from palaver.envs.code.prompts import MAIN, SOLO, Mode, TurnResult, VisibleTest, follow_up
from palaver.envs.code.reward import ProgramFacts, gather, reason
from palaver.envs.code.sandbox import Limits, Report, score

_CANDIDATE = re.compile(r"\bcandidate\b")
KEPT = 4096  # reports
LASTING = frozenset({"pass", "fail", "error"})  # what does not depend on how busy the machine was

_reports: OrderedDict[tuple[str, str, str, Limits], Report] = OrderedDict()
_lock = threading.Lock()


class PairEnv(TextEnv):
    """Two programmers, `aux` and `main`, or `coder` alone, write one program.

    Subclasses define the reward.

    Args:
        tasks: the tasks.
        problems: task id -> problem.
        agents: 2 or 1.
        num_turns: the number of turns.
        limits: of the sandbox.
        mode: of the feedback after a turn.
        visible_tests: the tests shown; the first n, the last n of a negative number, all of 0 or None.
        advisor: gives advice; None for none.
        source: where the tasks came from.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit.
    """

    def __init__(
        self,
        tasks: tuple[Task, ...],
        problems: ParsedTasks[CodeProblem],
        *,
        agents: int,
        num_turns: int,
        limits: Limits,
        mode: Mode,
        visible_tests: int | None,
        advisor: Advisor | None,
        source: str | Path,
        render_mode: str | None,
        max_length: int,
    ) -> None:
        if agents not in (1, 2) or isinstance(agents, bool):
            raise ConfigError(f"agents must be 2, or 1 for the single programmer, got {agents!r:.60}")
        self.problems = problems
        self.num_turns = num_turns
        self.limits = limits
        self.mode = mode
        self.visible_tests = visible_tests
        self.advisor = advisor
        names = (AUX, MAIN) if agents == 2 else (SOLO,)
        super().__init__(names, tasks, render_mode=render_mode, max_length=max_length, source=source)

    @abstractmethod
    def rewards(self, facts: ProgramFacts) -> dict[str, float]:
        """The components of a turn's reward, the same for all agents."""

    def ends(self, _reward: float) -> bool:
        """Return whether a turn with this reward is the last; the last turn ends by itself."""
        return False

    def measure(self, _program: Program) -> dict[str, float]:
        """Measurements of the program in addition to those of its facts."""
        return {}

    def prompt(self, agent: str, problem: CodeProblem) -> str:
        """The first observation of `agent`."""
        return prompts.opening(agent, problem.prompt, problem.entry_point)

    def initial_observations(self, task: Task) -> dict[str, str]:
        """The problem, and the function that each agent writes."""
        return {agent: self.prompt(agent, self.problems[task.id]) for agent in self.agents}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Join the answers, run the tests, give all agents the same reward, and write the feedback."""
        problem = self.problems[self.task.id]
        programs = {agent: answers.read(text) for agent, text in actions.items()}
        aux, main = (programs.get(agent_name) or programs[SOLO] for agent_name in (AUX, MAIN))
        program = join(problem.preamble, aux, main, problem.entry_point)
        runs = program.main is not None and not program.fault
        report = run(problem, program.source, self.limits) if runs else None
        facts = gather(programs, problem.entry_point, program, report, problem.total)
        parts = self.rewards(facts)
        if report and not report.scored:
            unpaid = dict.fromkeys(self.agents, dict.fromkeys(parts, 0.0))
            return StepResult(
                unpaid, metrics=self._metrics(facts, program, True), reason=_unscored(report), unscored=True
            )
        over = self.turn + 1 >= self.num_turns or self.ends(sum(parts.values()))
        result = TurnResult(problem.entry_point, program, self._seen(report, problem.entry_point))
        advice = self.advisor.advise(problem.prompt, result) if self.advisor and not over else {}
        return StepResult(
            dict.fromkeys(self.agents, parts),
            {} if over else {agent: self._feedback(agent, result, advice) for agent in self.agents},
            terminated=over,
            metrics=self._metrics(facts, program, over or bool(advice)),
            reason=reason(facts, problem.entry_point, program, report),
        )

    def _seen(self, report: Report | None, entry_point: str) -> list[VisibleTest]:
        """The visible tests: the first n, the last n of a negative number, all of 0 or None."""
        results, n = report.results if report else (), self.visible_tests
        visible = results if not n else results[:n] if n > 0 else results[n:]
        return [
            VisibleTest(
                _CANDIDATE.sub(entry_point, test_result.test),
                test_result.verdict == "pass",
                test_result.message or test_result.verdict,
            )
            for test_result in visible
        ]

    def _feedback(self, agent: str, result: TurnResult, advice: Mapping[str, str]) -> str:
        return follow_up(self.mode, agent, result, self.turn + 2, self.num_turns, advice)

    def _metrics(self, facts: ProgramFacts, program: Program, advised: bool) -> dict[str, float]:
        expert_metrics = {"expert_failed": float(not advised)} if self.advisor else {}
        return facts.metrics() | self.measure(program) | expert_metrics


def _unscored(report: Report) -> str:
    return f"not scored, the sandbox failed: {report.message or 'it printed nothing'} (see `palaver doctor`)"


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
