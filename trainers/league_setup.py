"""Set-up of a league: checks, fixed opponents, exploiters, and the state of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from palaver.agents.base.policy import Policy
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.core import refuse
from palaver.envs.base.env import TextEnv
from palaver.registry import spec
from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import RunConfig
from palaver.trainers.league.pool import Pool
from palaver.trainers.league_loop import Exploiter, League, LeagueLoop
from palaver.trainers.placement.in_process import make_learners, without_penalty
from palaver.trainers.policy_gradient import PolicyGradientLoop
from palaver.trainers.rollout.opponent import load_rival, refuse_rival
from palaver.trainers.rollout.team import model_options, trainable_team
from palaver.trainers.run import checkpoint
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.updater import Updater


def refuse_league(config: RunConfig, algorithm: Algorithm, env: TextEnv) -> None:
    """Refuse a league that cannot be played, without loading models.

    Raises:
        ConfigError: the environment is not competitive, the pool would stay empty, or other settings do not fit.
        PolicyError: a fixed opponent does not exist, or lacks an agent.
    """
    league, team, a = config.league, config.team, config.algorithm
    if not league.active:
        return
    refuse(
        [
            (
                not spec(config.env.id).competes(env) or len(env.possible_agents) < 2,
                f"a league is for agents that compete, and those of {config.env.id} do not: leave the section league "
                "out, or set env.id to a competitive environment (palaver envs)",
            ),
            (
                league.self_play < 1 and not (league.snapshot_every or league.opponents or league.exploiters),
                "league.self_play is below 1 and the pool would stay empty: set league.snapshot_every, "
                "league.opponents or league.exploiters",
            ),
            (
                team.kind == "lora",
                "league: each past self of a team with adapters would hold a base of its own: set team.kind=shared or "
                "separate",
            ),
            (
                team.frozen or team.swap_every,
                "league: opponents act for agents in turns, which team.frozen and team.swap_every fix otherwise: name "
                "fixed opponents in league.opponents, and leave both out of the team",
            ),
            (
                league.exploiters and team.kind == "heterogeneous",
                "league.exploiters need one model for all agents or the same for each: set team.kind=shared or "
                "separate, or league.exploiters=0",
            ),
            (
                algorithm.mixer != "none" or algorithm.pairs,
                f"league: {algorithm.name} learns from all agents of a team together: set algorithm.name=magrpo, rae "
                "or ippo, and algorithm.credit=own",
            ),
            (
                a.turns not in ("tree", "independent"),
                f"league: algorithm.turns={a.turns} goes on from the team's best, and an opponent is no part of the "
                "team: set algorithm.turns to tree or independent",
            ),
            (
                config.train.rollout_lead or config.placement.shard != "none",
                "league: members of the pool are drawn and saved in step with the updates of one process: set "
                "train.rollout_lead=0 and placement.shard=none",
            ),
            (a.resample, "league: a replaced task would have no opponent: set algorithm.resample=0"),
        ]
    )
    for name in league.opponents:
        refuse_rival("league.opponents", name, config, env, partial(load_rival, name, config, env, "cpu"))


def league_loop(
    loop: PolicyGradientLoop,
    algorithm: Algorithm,
    distributed: Distributed,
    start: Path | None,
    note: Callable[[str], None] = lambda _: None,
) -> LeagueLoop:
    """Return the loop with a pool and exploiters, at a checkpoint if given.

    Raises:
        PolicyError, CheckpointError, ConfigError: a fixed opponent or a saved member cannot be loaded.
    """
    config, env = loop.session.config, loop.env
    fixed = {name: load_rival(name, config, env, distributed.device, note) for name in config.league.opponents}
    pool = Pool(loop.session.folder, config.league.size, fixed, partial(_load, config, distributed.device))
    make = partial(_exploiter, config, algorithm, env.possible_agents, distributed)
    state: dict[str, Any] = checkpoint.load_updater(start)["league"] if start else {}
    if state:
        pool.load_state_dict(state["pool"])
    exploiters = [make(f"exploiter-{n}", start, state) for n in range(1, config.league.exploiters + 1)]
    league = League(pool, make, exploiters, env.exact_game())
    return LeagueLoop(
        loop.session, env, loop.eval_env, loop.team, loop.updater, loop.pairs, loop.opponent, league=league
    )


def _load(config: RunConfig, device: str, folder: Path, agent: str) -> Policy:
    """Load a saved policy of the pool; a copy that only answers needs no engine of its own."""
    options = model_options(config, device, agent)
    return LLMPolicy.load(str(folder), replace(options, engine="auto") if options.engine == "vllm" else options)


def _exploiter(
    config: RunConfig,
    algorithm: Algorithm,
    agents: Sequence[str],
    distributed: Distributed,
    name: str,
    start: Path | None = None,
    state: Mapping[str, Any] | None = None,
) -> Exploiter:
    """Make an exploiter with the weights that the run began with, or with those of a checkpoint.

    It learns without a KL penalty, which is there to keep the main team from being exploited.
    """
    free = without_penalty(config)
    policies = trainable_team(free, spec(config.env.id), agents, distributed.device)
    for policy in {id(policy): policy for policy in policies.values()}.values():
        policy.name = name if config.team.kind == "shared" else f"{name}-{policy.name}"
        if start:
            policy.restore(str(start / "policies" / policy.name))
    learners = make_learners(free, policies, distributed, start)
    updater = Updater(algorithm, free, learners, distributed)
    if state:
        updater.load_state_dict(state["exploiters"][name])
    return Exploiter(name, dict(policies), updater)
