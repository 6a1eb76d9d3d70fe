"""Episodes and evaluations of teams."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, cast

from palaver import plugins
from palaver.agents.base.policy import Policy
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.simple import ScriptedPolicy
from palaver.benchmarks.evaluation.evaluate import EvaluationConfig, as_trained, measure
from palaver.benchmarks.evaluation.results import EvaluationOutcome
from palaver.core import Conversation, PalaverWarning, PolicyError, Sampling, did_you_mean
from palaver.envs.base.env import TextEnv
from palaver.episodes import Episode, roles_in
from palaver.registry import Spec, spec
from palaver.trainers.config.run import EVAL_SEED
from palaver.trainers.rollout.episodes import ready_env
from palaver.trainers.rollout.evaluation import evaluate as play
from palaver.trainers.rollout.team import parse_team
from palaver.utils.config import merged

Player = str | Policy | Callable[[Conversation, int], str]
Env = str | type[TextEnv]


class Evaluation(NamedTuple):
    """An evaluation and what it was made from.

    Attributes:
        result: mean return with its interval, components, metrics; see `palaver.benchmarks.evaluation.results`.
        episodes: all episodes, in the order of the tasks.
    """

    result: EvaluationOutcome
    episodes: list[Episode]


def evaluate(
    env: Env,
    team: Player | Mapping[str, Player] = "tiny",
    *,
    n: int = 32,
    samples: int = 1,
    seed: int = EVAL_SEED,
    sampling: Sampling | None = None,
    options: ModelOptions | None = None,
    force: bool = False,
    trust: bool = False,
    **keywords: Any,
) -> Evaluation:
    """Play tasks of an environment with a team, and summarise the episodes.

    Args:
        env: id of an environment, `module:attribute`, or the class of one.
        team: a policy for all agents, or agent -> policy. A policy is an object with a method `act`, a function of
            (conversation, seed) that answers, or a name as of `palaver evaluate --team`, such as `tiny`, `hf:NAME` or
            `run:FOLDER`. A run plays with its own keywords, held-out tasks and sampling, unless others are given.
        n: number of tasks, the first ones; 0 for all.
        samples: episodes per task.
        seed: of every draw.
        sampling: how models draw their tokens.
        options: how models are loaded.
        force: let the tiny model run on tasks from files.
        trust: load code that the files of a run name.
        keywords: of the environment.

    Raises:
        ConfigError: no such environment or keyword.
        TaskError: the tasks cannot be read.
        PolicyError: the team cannot be made.
    """
    with restricted(trust, env, team, keywords):
        id, options = spec(env).id, options or ModelOptions()
        known, drawn, by_agent = as_trained(_names(team), id, _note)
        setting = EvaluationConfig(
            env=id,
            keywords=merged(known, keywords),
            team=team if isinstance(team, str) else "",
            n=n,
            samples=samples,
            seed=seed,
            sampling=sampling or drawn,
            agent_sampling={} if sampling else by_agent,
            options=options,
            force=force,
        )
        if isinstance(team, str):
            return Evaluation(*measure(setting, _note))
        return Evaluation(*measure(setting, _note, lambda made: policies(team, spec(id), made, options, force)))


def rollout(
    env: Env | TextEnv,
    team: Player | Mapping[str, Player] = "tiny",
    *,
    tasks: Sequence[str] = (),
    samples: int = 1,
    seed: int = EVAL_SEED,
    sampling: Sampling | None = None,
    options: ModelOptions | None = None,
    force: bool = False,
    trust: bool = False,
    **keywords: Any,
) -> list[Episode]:
    """Play episodes with a team.

    Args:
        env: as for `evaluate`, or an environment, which is forked.
        team: as for `evaluate`; a run plays with the `keywords` and the `sampling` given here.
        tasks: ids of tasks; none: all of the environment.
        samples: episodes per task.
        seed: of every draw.
        sampling: how models draw their tokens.
        options: how models are loaded.
        force: let the tiny model run on tasks from files.
        trust: load code that the files of a run name.
        keywords: of the environment, if it is made here.

    Raises:
        ConfigError, TaskError, PolicyError: as `evaluate`.
    """
    with restricted(trust, env, team, keywords):
        env_spec = spec(env if isinstance(env, str | type) else type(env))
        made = cast("TextEnv", env) if isinstance(env, TextEnv) else ready_env(env_spec.id, keywords)
        known = [task.id for task in made.tasks]
        if unknown := [task for task in tasks if task not in known]:
            raise PolicyError(f"there is no task {unknown[0]!r} in this environment.{did_you_mean(unknown[0], known)}")
        players = policies(team, env_spec, made, options or ModelOptions(), force)
        settings = dict.fromkeys(made.possible_agents, sampling or Sampling())
        return play(made, players, list(tasks) or known, samples=samples, sampling=settings, seed=seed)


def policies(
    team: Player | Mapping[str, Player], env_spec: Spec, env: TextEnv, options: ModelOptions, force: bool = False
) -> dict[str, Policy]:
    """Agent -> policy; those of one name or object share one.

    Raises:
        PolicyError: an agent without a policy, an unknown agent, or a policy that cannot be made.
    """
    agents = env.possible_agents
    if isinstance(team, str):
        return parse_team(team, env_spec, agents, options, env.source, force, _note)
    named = dict(team) if isinstance(team, Mapping) else dict.fromkeys(agents, team)
    roles = roles_in(named, agents)
    for agent in (*named, *agents):
        if agent not in (*agents, *roles) or agent not in named:
            problem = f"there is no agent {agent!r}" if agent not in agents else f"the agent {agent!r} has no policy"
            raise PolicyError(f"{problem}; the agents are {', '.join(agents)}")
    texts = {agent: player for agent, player in named.items() if isinstance(player, str)}
    loaded = {
        text: parse_team(text, env_spec, agents, options, env.source, force, _note) for text in set(texts.values())
    }
    made: dict[str, Policy] = {}
    for agent, player in named.items():
        if isinstance(player, str):
            made[agent] = loaded[player][agent]
        elif isinstance(player, Policy):
            made[agent] = player
        elif callable(player):
            made[agent] = ScriptedPolicy(player)
        else:
            raise PolicyError(
                f"the policy of {agent!r} is a {type(player).__name__}: give a name, an object with a "
                "method act, or a function of (conversation, seed)"
            )
    return made


def _names(team: Player | Mapping[str, Player]) -> str | dict[str, str]:
    """Part of a team that is stated by names."""
    if isinstance(team, str):
        return team
    named = team if isinstance(team, Mapping) else {}
    return {agent: player for agent, player in named.items() if isinstance(player, str)}


def restricted(trust: bool, *arguments: object) -> AbstractContextManager[None]:
    """Load only code that the arguments name; with `trust` any. See `palaver.plugins`."""
    return plugins.restricted([plugins.TRUST] if trust else map(repr, arguments))


def _note(message: str) -> None:
    warnings.warn(message, PalaverWarning, stacklevel=3)
