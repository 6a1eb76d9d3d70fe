"""Evaluation of a self-play run against a fixed opponent, where agents compete.

The mean reward of a zero-sum game is constant, and each agent's return in self-play is measured against a rival that
learns too. Here every trained agent plays the tasks and seeds of the evaluation with `eval.opponent` as all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from palaver.agents.base.policy import Policy
from palaver.agents.make_policy import PLAIN, parse_policy, parse_team_names
from palaver.core import ConfigError
from palaver.envs.base.env import TextEnv
from palaver.episodes import Episode, only_scored
from palaver.registry import spec
from palaver.trainers.config.run import RunConfig
from palaver.trainers.rollout.metrics import agent_returns
from palaver.trainers.rollout.team import model_options, parse_team, refuse_tiny
from palaver.trainers.run.files import CONFIG


def refuse_opponent(config: RunConfig, env: TextEnv) -> None:
    """Refuse an `eval.opponent` that cannot play in the environment, without loading models.

    Raises:
        ConfigError: the agents of the environment do not compete, or there is no such run.
        PolicyError: there is no such agent or scripted policy, an agent has no policy, or the tiny model cannot read
            the tasks.
    """
    name = config.eval.opponent
    if name is None:
        return
    if not (env.zero_sum or spec(config.env.id).competes(env)):
        raise ConfigError(
            f"eval.opponent is for games whose agents compete, and {config.env.id} is none here: leave it out"
        )
    refuse_rival("eval.opponent", name, config, env, lambda: load_opponent(config, env, "cpu"))


def refuse_rival(key: str, name: str, config: RunConfig, env: TextEnv, load: Callable[[], object]) -> None:
    """Refuse the team `name` of the setting `key` as a rival, without loading models.

    Args:
        key: dotted key of the setting.
        name: the team, as `--team` names it.
        config: config of the run.
        env: its environment.
        load: loads the team; called if that takes no model.

    Raises:
        ConfigError: there is no such run.
        PolicyError: there is no such agent or scripted policy, an agent has no policy, or the tiny model cannot read
            the tasks.
    """
    partners = [parse_policy(partner) for partner in parse_team_names(name, env.possible_agents).values()]
    for partner in partners:
        if partner.kind == "run" and not (Path(partner.source) / CONFIG).is_file():
            raise ConfigError(f"{key}: there is no run in {partner.source!r}: it has no {CONFIG}")
    kinds = {partner.kind for partner in partners}
    if "tiny" in kinds:
        refuse_tiny(env.source, config.policy.force)
    if kinds <= {*PLAIN, "scripted"}:
        load()


def load_opponent(
    config: RunConfig, env: TextEnv, device: str, note: Callable[[str], None] = lambda _: None
) -> dict[str, Policy]:
    """Agent -> the opponent's policy for it; empty without `eval.opponent` or evaluations.

    Raises:
        PolicyError, CheckpointError, ConfigError: as `parse_team`.
    """
    name = config.eval.opponent
    if name is None or not config.eval.n:
        return {}
    return load_rival(name, config, env, device, note)


def load_rival(
    name: str, config: RunConfig, env: TextEnv, device: str, note: Callable[[str], None] = lambda _: None
) -> dict[str, Policy]:
    """Agent -> its policy of the team `name`, with the run's options.

    Raises:
        PolicyError, CheckpointError, ConfigError: as `parse_team`.
    """
    options = model_options(config, device)
    agents = env.possible_agents
    team = parse_team(name, spec(config.env.id), agents, options, env.source, config.policy.force, note)
    return {agent: team[agent] for agent in agents}


def against(
    team: Mapping[str, Policy],
    opponent: Mapping[str, Policy],
    trained: Sequence[str],
    play: Callable[[Mapping[str, Policy]], Sequence[Episode]],
) -> dict[str, float]:
    """`AGENT/win_rate` and `AGENT/return` of each trained agent with the opponent as all others.

    Args:
        team: agent -> its policy.
        opponent: agent -> the opponent's policy for it; empty: nothing is played.
        trained: agents to evaluate, one after the other.
        play: episodes of an evaluation of a team, as of `evaluate`; the opponent samples with the settings of the agent
            it replaces.

    Raises:
        ScoringError: none of an agent's episodes could be scored.
    """
    results = {}
    for agent in trained if opponent else ():
        episodes = only_scored(play({**opponent, agent: team[agent]}), f"of {agent} against the opponent")
        results[f"{agent}/win_rate"] = sum(win(episode, agent) for episode in episodes) / len(episodes)
        results[f"{agent}/return"] = sum(agent_returns(episode)[agent] for episode in episodes) / len(episodes)
    return results


def win(episode: Episode, agent: str) -> float:
    """Return 1 if the agent's return is above all others', 1/2 if it ties with the best, else 0.

    Returns that differ by rounding are equal.
    """
    returns = agent_returns(episode)
    own_return, best = returns[agent], max(value for other, value in returns.items() if other != agent)
    if math.isclose(own_return, best, rel_tol=1e-9, abs_tol=1e-9):
        return 0.5
    return float(own_return > best)
