"""Metrics of a rollout: expected returns (same definition for all algorithms), tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from palaver.episodes import Episode
from palaver.trainers.objectives.lambda_returns import AllSum, local_sum
from palaver.trainers.rollout.batch import Batch, by_step
from palaver.trainers.rollout.evaluation import components, metrics, tokens
from palaver.utils.stats.pass_at_k import passes


def expected_returns(
    episodes: Sequence[Episode],
    batch: Batch,
    discount: float,
    kl_penalty: Tensor | None = None,
    total: AllSum = local_sum,
) -> dict[str, float]:
    """Mean over episodes of sum_t gamma^t r_t, with r_t the mean reward of the agents in turn t.

    `raw` is the environment's reward, `shaped` that less the KL penalty of each agent's completions; in both gamma is
    1, and the algorithm's discount in those `_discounted`. Monte Carlo: no critic's value is used. Episodes that were
    left for a better sibling (`pruned`) are excluded.

    Args:
        episodes: episodes of a rollout.
        batch: table of the same episodes.
        discount: gamma, per turn.
        kl_penalty: (R,) KL penalty of each completion; None is 0.
        total: sums over the processes that share the rollout.
    """
    costs = [0.0] * len(batch.steps)
    if kl_penalty is not None:
        agents = next(len(turn.rewards) for episode in episodes for turn in episode.turns)  # without the batch's roles
        costs = (by_step(batch, batch.by_action(kl_penalty)).nan_to_num().sum(dim=1) / agents).tolist()
    cost = {turn.node: turn_cost for turn, turn_cost in zip(batch.steps, costs, strict=True)}
    ended = [episode for episode in episodes if episode.stop != "pruned"]
    sums = [0.0] * 4
    for episode in ended:
        for turn in episode.turns:
            raw, weight = turn.team_reward, discount**turn.index
            shaped = raw - cost[turn.node]
            for index, term in enumerate((raw, weight * raw, shaped, weight * shaped)):
                sums[index] += term
    count, *sums = total(float(len(ended)), *sums)
    names = ("raw", "raw_discounted", "shaped", "shaped_discounted")
    return {f"return/{name}": value / count for name, value in zip(names, sums, strict=True)}


def agent_returns(episode: Episode) -> dict[str, float]:
    """Agent -> undiscounted sum of its own rewards."""
    returns: dict[str, float] = {}
    for turn in episode.turns:
        for agent, reward in turn.rewards.items():
            returns[agent] = returns.get(agent, 0.0) + reward
    return returns


def own_returns(episodes: Sequence[Episode]) -> dict[str, float]:
    """Agent -> mean undiscounted return of its own; empty if rewards are shared in every turn."""
    if all(len(set(turn.rewards.values())) <= 1 for episode in episodes for turn in episode.turns):
        return {}
    returns: dict[str, float] = {}
    for episode_returns in map(agent_returns, episodes):
        for agent, value in episode_returns.items():
            returns[agent] = returns.get(agent, 0.0) + value / len(episodes)
    return returns


def describe(episodes: Sequence[Episode]) -> dict[str, float]:
    """Metrics of a step: undiscounted team return, its components, environment metrics, tokens."""
    lost = sum(not episode.scored for episode in episodes)
    episodes = [episode for episode in episodes if episode.scored and episode.stop != "pruned"]
    rewards = np.array([episode.team_return() for episode in episodes])
    return {
        "reward/mean": float(rewards.mean()),
        "reward/std": float(rewards.std()),
        **{f"component/{name}": value for name, value in components(episodes).items()},
        **{f"metric/{name}": value for name, value in (metrics(episodes) | passes(episodes)).items()},
        **{f"{agent}/tokens": value for agent, value in tokens(episodes).items()},
        **{f"{agent}/return": value for agent, value in own_returns(episodes).items()},
        **({"episodes/unscored": lost} if lost else {}),
    }
