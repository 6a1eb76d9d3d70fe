"""Any one-turn environment as the task of a workflow.

Examples are writing after a discussion, and code with a reviewer. The `env` keyword names the task's environment,
`workflow` the stages and the texts they see; [workflows](../workflows.md) shows all of them, and how to declare your
own. By default two authors plan in a sentence what they are going to write, read each other's sentence, and then write
`arxiv-v0`'s two paragraphs. With `env="coding-mini-v0", workflow="review"` a coder writes a program, a reviewer
criticises it, and the coder writes it again.

## Observation

New text for an agent, when its turn comes: the inner environment's prompt if it has not spoken yet, then what the
workflow shows of the others' texts, and its instruction. Others' texts are shown under the name of their author, each
line behind `> `; one longer than `shown` characters is cut, with a mark. An agent that does not speak in a turn
observes nothing.

    background said:
    > Three sentences on data, then the gap.

    Now write it.

## Action

Any text. In a stage that answers it is the action of the inner environment, in one that talks it is what others are
shown; a verdict is the last of the words APPROVE and REJECT; a choice is the number after the last `####`, else the
last whole number.

## Rewards

A score is the inner environment's reward over its upper bound, so at most 1. An inner environment with one agent scores
every answer by itself; one with several agents scores their texts together. `reward_scheme` sets how scores become
rewards, see [workflows](../workflows.md#rewards); by default every turn gives each agent the mean score of the turn's
answers (component `score`), and talk gives nothing.

Metrics: `correct`, the score of the team's current answer; `stopped`, 1 if the episode ended before its last
stage; where the turn answers `mean_score`, `best_score`, `answered`, `agreement` (the share of the majority), `tied`;
where it judges `approved`, `verdict_right`; and those of the inner environment, as means over the answers of the turn.

## Termination

After the last stage, or where a stage ends it.

## Data

Whatever the inner environment reads; the same task always gives the same prompt.

## Version history

* v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from palaver.envs.base.env import MAX_LENGTH, TextEnv
from palaver.envs.workflows.builtin import workflow as find
from palaver.envs.workflows.env import WorkflowEnv
from palaver.envs.workflows.graph import Workflow
from palaver.envs.workflows.reward_scheme import RewardScheme, parse_reward_scheme
from palaver.envs.workflows.scoring import EnvScorer


class OtherEnv(WorkflowEnv):
    """A workflow around another environment; see the module's docstring.

    Args:
        env: id of the environment that sets the task and scores it; it must end after one turn.
        workflow: a name, a `.yaml` or `.json` file, or a mapping, see docs/workflows.md.
        options: keywords of a workflow that is given by name.
        tasks: of the inner environment.
        keywords: more keywords of the inner environment.
        reward_scheme: how scores become rewards, by name; None takes the defaults.
        shown: most characters of a text that others are shown.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a workflow, an option or an environment that does not fit.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "workflow_v0"}

    def __init__(
        self,
        env: str = "arxiv-v0",
        workflow: str | Path | Mapping[str, Any] | Workflow = "discussion",
        options: Mapping[str, Any] | None = None,
        tasks: str | Path = "sample",
        keywords: Mapping[str, Any] | None = None,
        reward_scheme: Mapping[str, Any] | RewardScheme | None = None,
        shown: int = 2000,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        flow = find(workflow, options)
        scorer = EnvScorer(env, tasks, keywords or {}, flow)
        super().__init__(
            flow,
            scorer,
            scorer.inner.tasks,
            parse_reward_scheme(reward_scheme),
            shown=shown,
            source=scorer.inner.source,
            render_mode=render_mode,
            max_length=max_length,
        )
