"""One agent answers, the other answers with knowledge of that answer.

CORY's workflow around a single-agent environment. The `pioneer` answers the task of the inner environment. Then the
`observer` is shown the same task with the pioneer's answer and answers too. Both are rewarded for both answers, so the
pioneer gains from an answer that helps, and the observer from one that is better still.

## Observation

At the start the pioneer sees the inner environment's prompt to its one agent, and the observer waits. After the first
turn the observer sees the same text, then the pioneer's answer, then the request for an answer of its own.

## Action

Whatever the inner environment takes: any text.

## Rewards

Both agents receive the inner reward of the answer just given, in the inner environment's components with the author's
name in front: `pioneer_…` in the first turn, `observer_…` in the second. Over the episode each agent earns r(task,
pioneer's answer) + r(task, observer's answer).

Metrics of the inner environment are passed on, for the answer of the turn.

## Termination

After two turns.

## Data

Whatever the inner environment reads.

## Differences from the publication

Ma et al., "Coevolving with the other you", arXiv:2410.06101 (NeurIPS 2024), fine-tune two copies of one model so and
swap their roles now and then; the swap belongs to training and is no part of the environment. The observer's prompt is
our own.

## Version history

* v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from palaver.core import ConfigError
from palaver.envs.base.env import MAX_LENGTH, StepResult, TextEnv
from palaver.envs.base.tasks import Task
from palaver.registry import make, spec

SEATS = ("pioneer", "observer")


class PioneerEnv(TextEnv):
    """Two answers in a row to a task of a single-agent environment; see the module's docstring.

    Args:
        env: id of the inner environment; made with `agents=1` where it takes that keyword.
        tasks: of the inner environment.
        keywords: more keywords of the inner environment.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: the inner environment has more agents than one, or does not end after one turn.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "pioneer_v0"}
    first_to_act = SEATS[:1]

    def __init__(
        self,
        env: str = "arxiv-v0",
        tasks: str | Path = "sample",
        keywords: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        alone = {"agents": 1} if "agents" in spec(env).keywords() else {}
        inner = make(env, **{"tasks": tasks, **alone, **(keywords or {})})
        if not isinstance(inner, TextEnv) or len(inner.possible_agents) != 1:
            raise ConfigError(f"env={env!r} must have one agent to be answered twice")
        self.inner: TextEnv = inner
        (self.next_agent,) = inner.possible_agents
        trial = inner.fork()
        trial.reset(seed=0, options={"task": 0})
        trial.step({self.next_agent: ""})
        if trial.agents:
            raise ConfigError(f"env={env!r} must end after one turn to be answered twice")
        self.max_return = None if inner.max_return is None else 2 * inner.max_return
        self.question = ""
        super().__init__(SEATS, inner.tasks, render_mode=render_mode, max_length=max_length, source=inner.source)

    def initial_observations(self, task: Task) -> dict[str, str]:
        """Put the inner task to the pioneer."""
        seed = int(self.rng.integers(2**31))
        self.question = self.inner.reset(seed=seed, options={"task": task.id})[0][self.next_agent]
        return {"pioneer": self.question}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Pay both for the answer given, and show the pioneer's to the observer."""
        who = SEATS[self.turn]
        _, _, _, _, infos = self.inner.fork().step({self.next_agent: actions[who]})
        parts = {f"{who}_{name}": value for name, value in infos[self.next_agent]["reward_components"].items()}
        metrics = dict(infos[self.next_agent]["metrics"])
        illegal = int(metrics.pop("illegal"))
        observations = {} if self.turn else {"observer": observer(self.question, actions[who])}
        return StepResult(
            dict.fromkeys(self.agents, parts),
            observations,
            terminated=bool(self.turn),
            metrics=metrics,
            illegal={who: illegal},
            can_act=SEATS[1:],
        )


def observer(question: str, answer: str) -> str:
    """The task, and the pioneer's answer between marks.

    Whatever the answer holds is put in as it is.
    """
    request = "End of the partner's answer. Write your own answer to the task."
    return f"{question}\n\nA partner answered:\n\n{answer}\n\n{request}"
