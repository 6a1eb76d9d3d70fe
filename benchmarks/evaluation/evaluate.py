"""Evaluate a team on fixed tasks with fixed seeds. A result records all that reproduces it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from palaver.agents.base.policy import Policy
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.make_policy import parse_policy, parse_team_names, split_team
from palaver.benchmarks.evaluation import results as rows
from palaver.benchmarks.evaluation.focal import (
    FocalRound,
    answered,
    around_switch,
    focal,
    refuse_rivals,
    seated,
    silenced,
)
from palaver.benchmarks.evaluation.results import fingerprint
from palaver.benchmarks.reports.run_folder import read
from palaver.benchmarks.reports.summary import most_possible
from palaver.core import ConfigError, PolicyError, Sampling, TaskError, need
from palaver.envs.base.env import TextEnv
from palaver.envs.base.wrappers import rewarded
from palaver.episodes import Episode
from palaver.registry import Spec, spec
from palaver.trainers.config.loading import load
from palaver.trainers.config.run import EVAL_SEED, RunConfig
from palaver.trainers.rollout.episodes import ready_env
from palaver.trainers.rollout.evaluation import evaluate, summarize
from palaver.trainers.rollout.team import parse_team
from palaver.trainers.run.files import CONFIG, ended
from palaver.utils.machine import cache_folder
from palaver.utils.provenance import provenance


@dataclass(frozen=True)
class EvaluationConfig:
    """Settings of an evaluation.

    Attributes:
        env: id.
        keywords: of the environment, `tasks` among them.
        team: as `parse_team` reads it: `tiny`, `a=hf:X,b=random`, `run:FOLDER`, ….
        n: number of tasks, the first ones; 0 for all.
        samples: episodes per task.
        seed: of every draw.
        sampling: how models draw their tokens.
        agent_sampling: agent -> its sampling settings, where they differ from `sampling`.
        options: how models are loaded.
        force: let the tiny model run on real data.
        seatings: focal agents and the policies of the others, one evaluation each; none: the team in self-play.
        scenario: name of these seatings.
        max_reward: upper bound of the return; None for that of the environment.
        added: score the focal agents by their return less that of silent agents, see
            `palaver.benchmarks.evaluation.focal`.
    """

    env: str
    keywords: Mapping[str, Any] = field(default_factory=dict)
    team: str = "tiny"
    n: int = 32
    samples: int = 1
    seed: int = EVAL_SEED
    sampling: Sampling = field(default_factory=Sampling)
    agent_sampling: Mapping[str, Sampling] = field(default_factory=dict)
    options: ModelOptions = field(default_factory=ModelOptions)
    force: bool = False
    seatings: tuple[FocalRound, ...] = ()
    scenario: str = ""
    max_reward: float | None = None
    added: bool = False


def as_trained(
    team: str | Mapping[str, str], env: str, note: Callable[[str], None] = lambda _: None
) -> tuple[dict[str, Any], Sampling, dict[str, Sampling]]:
    """Return the keywords and sampling settings of a team's runs that were trained on `env`.

    The keywords include the held-out tasks; those that differ between runs of a team are left out, and `note` is
    called with a message. The third value holds the sampling settings of agents that have others than the second: the
    agents of a heterogeneous run, or, where a run plays only some of the agents, these. Without a run the keywords are
    empty and the settings are the defaults.

    A team of `recipe:NAME` is trained first if it does not exist yet; `note` is called with a message.

    Raises:
        CheckpointError: a run folder does not exist.
        PolicyError: the team cannot be read.
    """
    wanted = spec(env).id
    sampling, agent_sampling = Sampling(), dict[str, Sampling]()
    runs: dict[str, dict[str, Any]] = {}  # name -> keywords
    for agent, name in (split_team(resolved(team, note)) if isinstance(team, str) else team).items():
        policy = parse_policy(name)
        config = read(policy.source).config if policy.kind == "run" else None
        if config is None or spec(config.env.id).id != wanted:
            continue
        runs[name] = config.env.keywords(config.eval.tasks)
        own = _agent_sampling(config, policy.source)
        if agent:
            agent_sampling[agent] = own.get(agent, config.policy.sampling())
        else:
            sampling, agent_sampling = config.policy.sampling(), own
    keywords = {key: value for each in runs.values() for key, value in each.items()}
    differing = [
        key for key in keywords if any(key not in each or each[key] != keywords[key] for each in runs.values())
    ]
    if differing:
        note(f"the runs of this team differ in {', '.join(differing)}; the environment's defaults hold unless given")
    return {key: value for key, value in keywords.items() if key not in differing}, sampling, agent_sampling


def _agent_sampling(config: RunConfig, folder: str) -> dict[str, Sampling]:
    """Sampling settings of a heterogeneous run's agents, at its latest valid checkpoint."""
    seats: dict[str, str] = {}  # each policy's initial agent -> its current one
    if config.team.agents and config.team.swap_every:
        need(f"run:{folder}", "train", error=PolicyError)
        from palaver.trainers.run import checkpoint

        homes = checkpoint.agents_of(checkpoint.newest(Path(folder))[0])
        seats = {home: agent for agent, home in homes.items()}
    return {seats.get(agent, agent): config.agent(agent).sampling() for agent in config.team.agents}


def measure(
    setting: EvaluationConfig,
    note: Callable[[str], None] = lambda _: None,
    players: Callable[[TextEnv], Mapping[str, Policy]] | None = None,
) -> tuple[rows.EvaluationOutcome, list[Episode]]:
    """Play the episodes and summarise them.

    Every seating plays all tasks; the episodes are in the order of the seatings.

    Args:
        setting: of the evaluation.
        note: called with warnings, such as a corrupt checkpoint.
        players: makes agent -> policy for the environment, in place of those that `setting.team` names.

    Raises:
        ConfigError: no such environment or keyword, or rivals whose returns cancel out.
        TaskError: the tasks cannot be read, or there are none.
        PolicyError: the team cannot be made.
    """
    env_spec = spec(setting.env)
    env = ready_env(setting.env, setting.keywords)
    ids = [task.id for task in env.tasks][: setting.n or None]
    if not ids:
        raise TaskError(f"there are no tasks to evaluate in {env.source!r}")
    seats = env.possible_agents
    if players is None:
        refuse_players_of_the_arena(parse_team_names(setting.team, seats).values(), env_spec)
    refuse_rivals(env, env_spec, setting.seatings)

    def make(names: str) -> dict[str, Policy]:
        return parse_team(resolved(names, note), env_spec, seats, setting.options, env.source, setting.force, note)

    teams = seated(make(setting.team) if players is None else dict(players(env)), setting.seatings, make)
    start = time.perf_counter()
    sampling = dict.fromkeys(seats, setting.sampling) | dict(setting.agent_sampling)

    def episodes(team: dict[str, Policy]) -> list[Episode]:
        return evaluate(env, team, ids, samples=setting.samples, sampling=sampling, seed=setting.seed)

    played = [episodes(team) for team in teams]
    seconds = time.perf_counter() - start
    silent = [episodes(team) for team in silenced(teams, setting.seatings)] if setting.added else []
    max_return = most_possible(env, env_spec) if setting.max_reward is None else setting.max_reward
    return (
        _result(setting, ids, teams, (played, silent), seconds, max_return, scoring(env)),
        [episode for group in played for episode in group],
    )


def scoring(env: TextEnv) -> dict[str, float]:
    """Usage and failures of a judge or a reward model since the last call; empty without one."""
    judged = rewarded(env)
    return judged.measured() if judged is not None else {}


def _result(
    setting: EvaluationConfig,
    ids: list[str],
    teams: list[dict[str, Policy]],
    episodes: tuple[list[list[Episode]], list[list[Episode]]],
    seconds: float,
    max_return: float,
    usage: dict[str, float],
) -> rows.EvaluationOutcome:
    played, silent = episodes
    summary = summarize([episode for group in played for episode in group])
    sampling = asdict(setting.sampling) | {
        agent: asdict(agent_sampling) for agent, agent_sampling in setting.agent_sampling.items()
    }
    policies = _named(teams, lambda policy: policy.name)
    weights = {agent: digest for agent, digest in _named(teams, fingerprint).items() if digest}
    facts: dict[str, Any] = {
        "env": spec(setting.env).id,
        "keywords": dict(setting.keywords),
        "scenario": setting.scenario,
        "seed": setting.seed,
        "samples": setting.samples,
        "sampling": sampling,
    }
    config = rows.config_hash(
        **facts, ids=ids, policies=policies, weights=weights, focal=[seating.focal for seating in setting.seatings]
    )
    return rows.EvaluationOutcome(
        **facts,
        team=setting.team,
        policies=policies,
        weights=weights,
        config=config,
        tasks=len(ids),
        mean=summary.mean,
        low=summary.low,
        high=summary.high,
        n=summary.n,
        max_reward=max_return,
        focal=focal(played, setting.seatings, silent) if setting.seatings else None,
        answers=answered(played, [seating.focal for seating in setting.seatings]),
        components=dict(summary.components),
        metrics=dict(summary.metrics) | around_switch(played, setting.seatings),
        tokens=dict(summary.tokens),
        passes=dict(summary.passes),
        by_task=dict(summary.by_task),
        unscored=summary.unscored,
        seconds=seconds,
        cost=rows.spent_by({f"{n}/{agent}": policy for n, team in enumerate(teams) for agent, policy in team.items()}),
        provenance=provenance(),
        scoring=usage,
    )


def _named(teams: list[dict[str, Policy]], of: Callable[[Policy], str]) -> dict[str, str]:
    """Map each agent to the description of its policy, or of its policies in all seatings."""
    names = dict.fromkeys(agent for team in teams for agent in team)
    return {name: " | ".join(dict.fromkeys(of(team[name]) for team in teams if name in team)) for name in names}


def to_row(result: rows.EvaluationOutcome, episodes: list[Episode], label: str, folder: Path) -> rows.EvaluationResult:
    """Write a result, its episodes and its row, into `folder`.

    Raises:
        ConfigError: something cannot be written.
    """
    made_with = {"made_with": result.provenance, "max_reward": rows.finite(result.max_reward)}
    return rows.write_row(result.model_dump(exclude={"provenance"}) | made_with, result.env, episodes, label, folder)


def refuse_players_of_the_arena(names: Iterable[str], env_spec: Spec) -> None:
    """Refuse arena-only players: battle nets, and players that need the environment itself.

    Raises:
        ConfigError: one of the names is of such a player.
    """
    for name in names:
        if parse_policy(name).kind == "net" or name in env_spec.players:
            raise ConfigError(
                f"{name!r} reads the environment and not a conversation, so it plays in the arena alone: "
                f"palaver arena {env_spec.id} --players {name},OTHER"
            )


Note = Callable[[str], None]


def resolved(team: str, note: Note) -> str:
    """Return `team` with the run of each recipe in its place, trained first if missing.

    Raises:
        PalaverError: see `ensure`.
    """
    entries = []
    for agent, name in split_team(team).items():
        policy = parse_policy(name)
        made = f"run:{ensure(policy.source, note)}" if policy.kind == "recipe" else name
        entries.append(f"{agent}={made}" if agent else made)
    return ",".join(entries)


def home(made_by: str) -> Path:
    """Cache folder of the run of `NAME+key=value+...`, named by a hash of its settings.

    Options at their default and the section `tuning` do not count, so that a new option moves no run.

    Raises:
        ConfigError: no such recipe, or an override that does not fit.
    """
    recipe, *overrides = made_by.split("+")
    chosen = load(recipe, overrides).model_dump(mode="json", exclude_defaults=True, exclude={"tuning"})
    key = hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:12]
    return cache_folder() / "trained" / f"{Path(recipe).stem}-{key}"


def ensure(made_by: str, note: Note) -> Path:
    """Return the folder of the finished run of `NAME+key=value+...`; train or resume if needed.

    Training takes minutes, so `note` is called before it begins.

    Raises:
        PolicyError: the training was interrupted.
        PalaverError: the recipe does not fit, or cannot be trained here.
    """
    need(f"recipe:{made_by}", "train", error=PolicyError)
    from palaver.trainers import train as trainer

    folder = home(made_by)
    if ended(folder):
        return folder
    recipe, *overrides = made_by.split("+")
    note(f"training {' '.join((recipe, *overrides))}, once: {folder}")
    if (folder / CONFIG).is_file():
        trainer.resume(folder)
    else:
        launch = {"recipe": recipe, "overrides": overrides, **provenance()}
        trainer.train(load(recipe, overrides), folder, launch=launch)
    if not ended(folder):
        raise PolicyError(f"the training in {str(folder)!r} was interrupted; the same command resumes it")
    return folder
