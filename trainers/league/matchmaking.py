"""Choice of opponents, and of the tasks that are played against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from palaver.trainers.config.league import LeagueConfig, Matchmaking
from palaver.trainers.league.pool import PoolMember

UNKNOWN = 0.5  # score against an opponent that was not met


@dataclass(frozen=True, slots=True)
class Pairing:
    """Pairing of one task.

    Attributes:
        opponent: name of the member that acts for all agents but one; "" in self-play.
        agent: the agent that the learning team acts for; "" in self-play, where it acts for all.
    """

    opponent: str = ""
    agent: str = ""


def pfsp(scores: Sequence[float]) -> list[float]:
    """Probabilities in proportion to (1 - score)^2; equal ones where every score is 1.

    Prioritised fictitious self-play with the weights of hard opponents (O. Vinyals et al., Grandmaster level in
    StarCraft II using multi-agent reinforcement learning, 2019).

    >>> pfsp([0.5, 1.0, 0.0])
    [0.2, 0.0, 0.8]
    """
    weights = [(1 - score) ** 2 for score in scores]
    total = sum(weights)
    return [weight / total for weight in weights] if total > 0 else [1 / len(scores)] * len(scores)


def probabilities(members: Sequence[PoolMember], scores: Mapping[str, float], how: Matchmaking) -> list[float]:
    """Probability of each member to be drawn.

    Args:
        members: the pool.
        scores: name -> score of the learning team against it, from 0 to 1; 1/2 for one that is missing.
        how: `uniform`; `pfsp`; `latest`: the last past self and the last of each exploiter, and fixed opponents, alike.
    """
    if how == "pfsp":
        return pfsp([scores.get(member.name, UNKNOWN) for member in members])
    last = {member.line: member.name for member in members}
    chosen = [how == "uniform" or last[member.line] == member.name for member in members]
    return [keep / sum(chosen) for keep in chosen]


def matches(
    config: LeagueConfig,
    members: Sequence[PoolMember],
    scores: Mapping[str, float],
    agents: Sequence[str],
    places: int,
    seed: int,
    step: int,
) -> list[Pairing]:
    """Pairings of a step's tasks.

    The share of self-play is met exactly where it is a whole number of tasks, else on average. Each opponent drawn has
    as many tasks as the others, up to one; the agent that learns takes turns from step to step.

    Args:
        config: section of the league.
        members: the pool; none: the team plays itself.
        scores: as of `probabilities`.
        agents: agents of the environment.
        places: number of tasks.
        seed: of the draw; it holds the step.
        step: number of the step.
    """
    rng = np.random.default_rng(seed)
    count = int((1 - config.self_play) * places + rng.random() + 1e-9) if members else 0
    order, pairings = rng.permutation(places), [Pairing()] * places
    if not count:
        return pairings
    chances = probabilities(members, scores, config.matchmaking)
    drawn = rng.choice(len(members), size=min(config.per_step, count), p=chances)
    for n, place in enumerate(order[:count].tolist()):
        turn, index = divmod(n, len(drawn))
        pairings[place] = Pairing(members[drawn[index]].name, agents[(step + turn) % len(agents)])
    return pairings
