"""Preference pairs of a config: from a file, or from judged joint actions of a team."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import palaver
from palaver.agents.base.rewards import make_reward
from palaver.agents.llm.model.options import ModelOptions
from palaver.core import ConfigError, Episode, Sampling, TaskError, stable_seed
from palaver.scoring import Comparer
from palaver.trainers.config.reward_model import SourceConfig
from palaver.trainers.preferences.files import read
from palaver.trainers.preferences.groups import by_judge, by_reward, groups
from palaver.trainers.preferences.record import PreferenceRecord
from palaver.trainers.rollout.episodes import SamplingPlan, rollout, text_env
from palaver.trainers.rollout.evaluation import only_scored
from palaver.trainers.rollout.team import parse_team

Note = Callable[[str], None]


def check(config: SourceConfig) -> str:
    """Check what `gather` needs without loading models; return a summary of the work.

    Raises:
        ConfigError: an unknown environment, or a judge that cannot compare.
        TaskError: the tasks or the file cannot be read.
    """
    if config.file:
        return f"{len(read(config.file)):,} pairs in {config.file}"
    env = text_env(config.env.id, config.env.keywords())
    who = _judge(config.judge).name if config.judge else "the environment's reward"
    n = len(env.tasks) * config.rounds
    return f"{n:,} groups of {config.group_size} joint actions of {config.env.id}, compared by {who}"


def gather(config: SourceConfig, seed: int, device: str, note: Note = lambda _: None) -> list[PreferenceRecord]:
    """Gather the pairs of a config.

    Args:
        config: source of the pairs.
        seed: seed of the draws.
        device: device of the team's models.
        note: called with each message for the user.

    Raises:
        TaskError: the file or the tasks cannot be read, or there is no pair of unequal worth.
        PolicyError: the team cannot be loaded.
        ScoringError: nothing could be scored, or the judge failed too often.
    """
    if config.file:
        return read(config.file)
    joint_groups = groups(play(config, seed, device, note))
    judge = _judge(config.judge) if config.judge else None
    pairs = by_reward(joint_groups, config, seed) if judge is None else by_judge(joint_groups, judge, config, seed)
    if not pairs:
        raise TaskError(
            f"none of {len(joint_groups)} groups holds two joint actions of different worth; raise pairs.group_size, "
            "or lower pairs.gap"
        )
    return pairs


def play(config: SourceConfig, seed: int, device: str, note: Note = lambda _: None) -> list[Episode]:
    """Play the episodes to compare: `rounds` groups of every task."""
    env = text_env(config.env.id, config.env.keywords())
    options = ModelOptions(device=device)
    team = parse_team(config.team, palaver.spec(config.env.id), env.possible_agents, options, env.source, note=note)
    how = Sampling(config.temperature, config.top_p, config.top_k, config.max_tokens)
    episodes = []
    for round_index in range(config.rounds):
        played = rollout(
            env,
            team,
            [task.id for task in env.tasks],
            SamplingPlan(config.group_size),
            sampling=dict.fromkeys(env.possible_agents, how),
            seed=stable_seed(seed, "pairs", round_index),
        )
        episodes += [_of_round(episode, round_index) for episode in played]
    return only_scored(episodes, "that were to be compared")


def _of_round(episode: Episode, round_index: int) -> Episode:
    """Rename the nodes and groups of an episode uniquely for its round."""
    turns = [
        replace(
            turn,
            node=f"{round_index}:{turn.node}",
            parent=turn.parent and f"{round_index}:{turn.parent}",
            group=f"{round_index}:{turn.group}",
        )
        for turn in episode.turns
    ]
    return replace(episode, turns=tuple(turns))


def _judge(name: str) -> Comparer:
    judge = make_reward(name)
    if not isinstance(judge, Comparer):
        raise ConfigError(f"{name!r} scores single answers and compares none; name a judge as judge:SPEC")
    return judge
