"""Environments of cooperative code: two programmers, one program, tests that decide."""

from __future__ import annotations

import re
import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar, get_args

from palaver.core import ConfigError, did_you_mean
from palaver.envs.base.arguments import choice, truth, whole_number
from palaver.envs.base.env import MAX_LENGTH, StepResult, TextEnv
from palaver.envs.base.questions import InferenceQuestion, text_questions
from palaver.envs.base.tasks import ParsedTasks, Task
from palaver.envs.base.tools import ToolFunction
from palaver.envs.code import answers, problems, prompts, reward
from palaver.envs.code.expert import Advisor, Expert, advisor
from palaver.envs.code.problems import CodeProblem
from palaver.envs.code.programs import AUX, Program, join
from palaver.envs.code.prompts import MAIN, SOLO, Mode, TurnResult, VisibleTest, follow_up
from palaver.envs.code.reward import ProgramFacts, gather, reason
from palaver.envs.code.sandbox import DEFAULT, Limits, Report, TestResult, score

_CANDIDATE = re.compile(r"\bcandidate\b")
MOST_TURNS = 100
MOST_TESTS = 100_000
KEPT = 4096  # reports
TESTS_PASSED = "every statement ran without an error"  # a model shipped with the project knows this text
LASTING = frozenset({"pass", "fail", "error"})  # what does not depend on how busy the machine was

_OWN_TESTS = """
def own_tests():
    import ast
    try:
        statements = ast.parse(_TESTS).body
    except Exception as error:
        return [f"the tests do not parse: {error}"]
    faults = []
    for statement in statements:
        try:
            exec(compile(ast.Module([statement], []), "tests", "exec"), globals())
        except Exception as error:
            faults.append(f"{ast.unparse(statement)[:200]}: {type(error).__name__} {error}"[:300])
    return faults[:5]
"""

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
        own_tests: give every agent the tool `run_tests`.
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
        own_tests: bool,
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
        self.own_tests = truth("own_tests", own_tests)
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

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:
        """The code of the other programmer."""
        return text_questions(self.possible_agents, agent, actions)

    def tools(self, agent: str) -> Sequence[ToolFunction]:
        """`run_tests`, with `own_tests=True`."""
        return (self.run_tests,) if self.own_tests else super().tools(agent)

    def run_tests(self, code: str, tests: str) -> str:
        """Run tests of your own on your own code, in a sandbox.

        Args:
            code: Python definitions; functions of others are not known.
            tests: Python statements, as `assert add(1, 2) == 3`.
        """
        preamble = self.problems[self.task.id].preamble
        # the statements run as a part of the confined program; the one test that is trusted only reads the outcome
        program = f"{preamble}\n{code}\n\n_TESTS = {tests!r}\n{_OWN_TESTS}"
        report = score(program, "assert own_tests() == []", "own_tests", limits=self.limits)
        if report.verdict == "pass":
            return TESTS_PASSED
        result: Report | TestResult = report.results[0] if report.results else report
        return result.message or result.verdict

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
            failure = report.message or "it printed nothing"
            return StepResult(
                dict.fromkeys(self.agents, dict.fromkeys(parts, 0.0)),
                metrics=self._metrics(facts, program, True),
                reason=f"not scored, the sandbox failed: {failure} (see `palaver doctor`)",
                unscored=True,
            )
        over = self.turn + 1 >= self.num_turns or self.ends(sum(parts.values()))
        result = TurnResult(problem.entry_point, program, self._seen(report, problem.entry_point))
        advice = self.advisor.advise(problem.prompt, result) if self.advisor and not over else {}
        return StepResult(
            dict.fromkeys(self.agents, parts),
            {}
            if over
            else {
                agent: follow_up(self.mode, agent, result, self.turn + 2, self.num_turns, advice)
                for agent in self.agents
            },
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

    def _metrics(self, facts: ProgramFacts, program: Program, advised: bool) -> dict[str, float]:
        expert_metrics = {"expert_failed": float(not advised)} if self.advisor else {}
        return facts.metrics() | self.measure(program) | expert_metrics


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


class CodeEnv(PairEnv):
    """Two programmers write one program, with the published reward; subclasses name the data.

    Args:
        tasks: `sample`, a path, or `hf:NAME:SPLIT`; a slice may follow.
        agents: 2, or 1 for the single programmer `coder`.
        num_turns: the number of turns.
        feedback: the mode of feedback after a turn: `level`, `passed`, `level_passed`, `plain`, `expert`, `none`.
        visible_tests: the tests that feedback shows: the first n; the last n if negative; all if 0 or None.
        expert: for `feedback="expert"`, a function from request to answer, or its `module:function`.
        weights: the weight of each component; those left out keep theirs.
        scale: multiplies every component.
        shift: is added to the reward of a turn, as a component of that name.
        stop_above: a turn with a larger reward ends the episode; None never does.
        own_tests: give every agent the tool `run_tests`, which runs its own tests on its own code in the sandbox.
        entry_format: True gives 0.5 for answers of nothing but the requested function, and stops at all others.
        limits: of the sandbox, by name; those left out keep theirs.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit; the message begins with the keyword.
        TaskError: tasks that cannot be read, or a row that is no problem.
    """

    sample: ClassVar[Path]
    split: ClassVar[str] = "test"

    def __init__(
        self,
        tasks: str | Path = "sample",
        agents: int = 2,
        num_turns: int = 2,
        feedback: Mode = "level",
        visible_tests: int | None = 1,
        expert: Expert | str | None = None,
        weights: Mapping[str, float] = reward.WEIGHTS,
        scale: float = 1.0,
        shift: float = 0.0,
        stop_above: float | None = None,
        entry_format: bool = False,
        own_tests: bool = False,
        limits: Mapping[str, float] | None = None,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        self.rubric = reward.CodeRewardConfig(weights, scale, shift, entry_format)
        self.stop_above = None if stop_above is None else reward.finite_float("stop_above", stop_above)
        choice("feedback", feedback, get_args(Mode))
        expert_advisor = advisor(expert)
        if (feedback == "expert") != (expert_advisor is not None):
            raise ConfigError("feedback='expert' needs expert=, and expert= needs feedback='expert'")
        turns = whole_number("num_turns", num_turns, 1, MOST_TURNS)
        num_visible = (
            None if visible_tests is None else whole_number("visible_tests", visible_tests, -MOST_TESTS, MOST_TESTS)
        )
        loaded_tasks, known = problems.load(tasks, sample=self.sample, split=self.split)
        super().__init__(
            loaded_tasks,
            known,
            agents=agents,
            num_turns=turns,
            limits=read_limits(limits),
            mode=feedback,
            visible_tests=num_visible,
            advisor=expert_advisor,
            own_tests=own_tests,
            source=tasks,
            render_mode=render_mode,
            max_length=max_length,
        )
        self.max_return = max_episode_return(self.rubric.max_reward, turns, self.stop_above)

    def rewards(self, facts: ProgramFacts) -> dict[str, float]:
        """The published components."""
        return reward.score(self.rubric, facts)

    def ends(self, _reward: float) -> bool:
        """Return whether the turn's reward is above `stop_above`."""
        return self.stop_above is not None and _reward > self.stop_above


def max_episode_return(turn: float, turns: int, stop_above: float | None) -> float:
    """Upper bound of the episode return.

    Args:
        turn: the largest reward of one turn.
        turns: of an episode.
        stop_above: a turn with a larger reward is the last.

    >>> [max_episode_return(*of) for of in ((4.0, 2, None), (4.0, 2, 3.8), (0.0, 2, -0.2))]
    [8.0, 7.8, 0.0]
    """
    before = turn if stop_above is None else min(turn, stop_above)
    return turn + (turns - 1) * before if stop_above is None or before > 0 else turn


def read_limits(given: Mapping[str, float] | None) -> Limits:
    """The sandbox's limits with some replaced.

    Raises:
        ConfigError: no such limit, or a value that is no number above 0.
    """
    if given is None:
        return DEFAULT
    if not isinstance(given, Mapping):
        raise ConfigError(f"limits must map names to numbers, got {given!r:.60}")
    known = {field.name: field.type for field in fields(Limits)}
    for name, value in given.items():
        if name not in known:
            raise ConfigError(f"limits has no {name!r}.{did_you_mean(str(name), known)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
            raise ConfigError(f"limits.{name} must be a number above 0, got {value!r:.60}")
        if known[name] == "int" and value != int(value):
            raise ConfigError(f"limits.{name} must be a whole number, got {value!r:.60}")
    changes: dict[str, Any] = {name: int(v) if known[name] == "int" else float(v) for name, v in given.items()}
    return replace(DEFAULT, **changes)
