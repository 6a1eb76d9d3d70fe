"""Environments as tasks of Inspect; the agents are model roles.

    inspect eval palaver/arxiv --model-role background=openai/gpt-4o --model-role method=ollama/llama3.2

An agent without a role is played by `--model`. Every environment is the task `palaver/NAME`; those without a registered
id are `palaver/environment -T id=module:attribute`.
"""

from __future__ import annotations

import sys
from typing import Any

from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai._util.package import get_installed_package_name
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.viewer import ViewerConfig
from rich.markup import escape

from palaver import plugins
from palaver.benchmarks.doors.inspect_ai.solver import play_environment
from palaver.benchmarks.doors.inspect_ai.transcripts import agent_returns, task_name, team_return
from palaver.core import PalaverError
from palaver.registry import NAMESPACE, spec, specs
from palaver.trainers.config.run import EVAL_SEED
from palaver.trainers.rollout.episodes import ready_env


def environment_task(id: str, *, seed: int = EVAL_SEED, **keywords: Any) -> Task:
    """Task of an environment: a sample is a task of it, an epoch an episode.

    An episode has the seed that it has in `palaver evaluate`. The scores are the team's and the agents' returns; an
    episode that could not be scored has none.

    Args:
        id: environment.
        seed: of the episodes.
        keywords: of the environment.

    Raises:
        PalaverError: see `ready_env`.
    """
    env = ready_env(id, keywords)
    samples = [
        Sample(id=each.id, input=f"Task {each.id} of {spec(id).id}.", metadata={"place": place, "seed": seed})
        for place, each in enumerate(env.tasks)
    ]
    return Task(
        dataset=MemoryDataset(samples, name=env.source),
        solver=play_environment(env),
        scorer=[team_return(), agent_returns()],
        version=spec(id).id.rpartition("-v")[2],
        metadata={"environment": spec(id).id, "agents": list(env.possible_agents)},
        viewer=ViewerConfig(trust_content=False),  # what models write is shown as plain text
    )


# Inspect adds the name of an installed package, and does not see one that runs from its checkout
_PREFIX = "" if get_installed_package_name(environment_task) else f"{NAMESPACE}/"


@task(name=f"{_PREFIX}environment")  # type: ignore[untyped-decorator]
def environment(id: str, seed: int = EVAL_SEED, **keywords: Any) -> Task:
    """Task of any environment, by id or as `module:attribute`.

    Raises:
        PrerequisiteError: a mistake, in one line.
    """
    try:
        with plugins.restricted(sys.argv):  # else the arguments in a log that is run again could name any code
            return environment_task(id, seed=seed, **keywords)
    except PalaverError as error:
        raise PrerequisiteError(escape(str(error))) from error


def _task_of(id: str) -> None:
    @task(name=f"{_PREFIX}{task_name(id)}")  # type: ignore[untyped-decorator]
    def named(seed: int = EVAL_SEED, **keywords: Any) -> Task:
        return environment(id, seed, **keywords)


for _id in specs():
    _task_of(_id)
