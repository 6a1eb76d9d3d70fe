"""Base of the question environments: a workflow around a question with one right answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from palaver.core import TaskError
from palaver.envs.base.arguments import truth
from palaver.envs.base.tasks import Generate, Task, check_difficulty, read_tasks
from palaver.envs.base.tools import ToolFunction
from palaver.envs.maths import answers
from palaver.envs.maths.calculator import calculator
from palaver.envs.maths.problems import DIFFICULTIES, Difficulty, rows
from palaver.envs.maths.procedural import ProceduralScorer, is_procedural, load_procedural
from palaver.envs.workflows.builtin import workflow as find
from palaver.envs.workflows.env import WorkflowEnv
from palaver.envs.workflows.graph import Workflow
from palaver.envs.workflows.reward_scheme import RewardScheme, parse_reward_scheme
from palaver.envs.workflows.scoring import Marks
from palaver.text import one_line

SAMPLE = Path(__file__).with_name("sample.jsonl")  # of `gsm8k-v0`: word problems written for this project


class MathsEnv(WorkflowEnv):
    """Questions, answered by a workflow.

    Args:
        tasks: with `question` and `answer`.
        workflow: a name, a `.yaml` or `.json` file, or a mapping, see docs/workflows.md.
        agents: how many take part; None is the workflow's own number.
        rounds: of a workflow that has rounds; None is its own number.
        options: more keywords of a workflow that is given by name.
        reward_scheme: how scores become rewards, by name; None takes the defaults.
        shown: most characters of a text that others are shown.
        calculator: give every agent a calculator as a tool.
        source: where the tasks came from.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        workflow: str | Path | Mapping[str, Any] | Workflow,
        *,
        agents: int | None,
        rounds: int | None,
        options: Mapping[str, Any] | None,
        reward_scheme: Mapping[str, Any] | RewardScheme | None,
        shown: int,
        calculator: bool,
        source: str | Path,
        render_mode: str | None,
        max_length: int,
    ) -> None:
        self.calculator = truth("calculator", calculator)
        numbers = {name: value for name, value in {"agents": agents, "rounds": rounds}.items() if value is not None}
        super().__init__(
            find(workflow, {**numbers, **(options or {})}),
            ProceduralScorer() if is_procedural(source) else MathsScorer(),
            tasks,
            parse_reward_scheme(reward_scheme),
            shown=shown,
            source=source,
            render_mode=render_mode,
            max_length=max_length,
        )

    def tools(self, agent: str) -> Sequence[ToolFunction]:
        """A calculator, with `calculator=True`."""
        return (calculator,) if self.calculator else super().tools(agent)


class MathsScorer:
    """1 for the right answer, else 0: numbers as fractions, anything else word for word."""

    def question(self, task: Task, _agent: str) -> str:
        """The same question for every agent."""
        return answers.opening(task["question"])

    def score(self, task: Task, texts: Mapping[str, str]) -> Marks:
        """Each answer by itself."""
        truth = answers.gold(task["answer"])
        parsed = {agent: answers.read(text) for agent, text in texts.items()}
        scores = {agent: float(answers.right(answer, truth)) for agent, answer in parsed.items()}
        summary = ", ".join(f"{agent} {answer.key or 'nothing'}" for agent, answer in parsed.items())
        return Marks(scores, reason=one_line(f"right is {truth.key}; {summary}", 300))

    def key(self, text: str) -> str:
        """The number as an exact fraction, else the words that are marked."""
        return answers.read(text).key

    def hide(self, text: str) -> str:
        """The text without the number that it answers."""
        return answers.hidden(text)

    def formed(self, text: str) -> bool:
        """Return whether `####` or a box marks an answer."""
        answer = answers.read(text)
        return answer.marked and bool(answer.key)


def load(source: str | Path, sample: Path | Generate) -> tuple[Task, ...]:
    """Tasks with `question` and `answer`.

    `answer` ends with `#### ` and the right answer, or is it; `id` names a task. `rg:NAME:SIZE:SEED` are questions of
    reasoning-gym.

    Raises:
        TaskError: no answer holds one; see `palaver.envs.base.tasks.load_tasks` for the others.
    """

    def check(task: Task) -> None:
        if not answers.gold(task["answer"]).key:
            location = one_line(f"{source}, task {task.id!r}")
            raise TaskError(
                f"{location}: the field 'answer' holds no answer after ####: {one_line(task['answer'], 80)!r}"
            )

    if is_procedural(source):
        return load_procedural(str(source))
    return read_tasks(source, check, sample=sample, fields={"question": str, "answer": str})[0]


def load_made(source: str | Path, difficulty: Difficulty | None) -> tuple[Task, ...]:
    """The same, where `sample` and `generated:SEED:COUNT` are made here.

    Raises:
        ConfigError: a difficulty that does not exist, or one for questions that are not made here.
        TaskError: as `load`.
    """
    check_difficulty(source, difficulty, DIFFICULTIES)
    return load(source, partial(rows, difficulty=difficulty or "medium"))
