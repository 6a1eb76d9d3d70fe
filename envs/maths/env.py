"""Base of the question environments: a workflow around a question with one right answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palaver.envs.base.tasks import Task
from palaver.envs.maths.scorer import MathsScorer
from palaver.envs.workflows.builtin import workflow as find
from palaver.envs.workflows.env import WorkflowEnv
from palaver.envs.workflows.graph import Workflow
from palaver.envs.workflows.reward_scheme import RewardScheme, parse_reward_scheme


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
        source: str | Path,
        render_mode: str | None,
        max_length: int,
    ) -> None:
        numbers = {name: value for name, value in {"agents": agents, "rounds": rounds}.items() if value is not None}
        super().__init__(
            find(workflow, {**numbers, **(options or {})}),
            MathsScorer(),
            tasks,
            parse_reward_scheme(reward_scheme),
            shown=shown,
            source=source,
            render_mode=render_mode,
            max_length=max_length,
        )
