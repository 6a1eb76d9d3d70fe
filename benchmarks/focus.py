"""Agents in focus: a team's members among partners or against rivals, and what they themselves earned.

As in Melting Pot (J. Leibo et al., "Scalable Evaluation of Multi-Agent Reinforcement Learning with Melting Pot",
arXiv:2107.06857): who is measured sits among others who stand still, and the score is the mean return of the focal
agents alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from palaver.agents.policy import Policy
from palaver.benchmarks.rows import Focal
from palaver.benchmarks.weights import fingerprint
from palaver.core import ConfigError, Episode, PolicyError, nearest
from palaver.envs.base import TextEnv
from palaver.registry import Spec
from palaver.trainers.evaluation import interval, only_scored


@dataclass(frozen=True)
class Seating:
    """Who is measured in one round of all tasks, and who sits beside: seat -> policy by name.

    A seat that is neither keeps the team's own policy. `weights` says of seats which weights a partner must have there.
    """

    focal: tuple[str, ...]
    partners: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The seats in focus."""
        return "+".join(self.focal)


def seated(
    team: dict[str, Policy], seatings: Sequence[Seating], make: Callable[[str], dict[str, Policy]]
) -> list[dict[str, Policy]]:
    """The whole team of each seating; partners of one name share one copy.

    Raises:
        PolicyError: a seating names a seat that is not there, or a partner that cannot be made or is another now.
    """
    made: dict[str, dict[str, Policy]] = {}
    teams = []
    for seating in seatings:
        for seat in (*seating.focal, *seating.partners):
            if seat not in team:
                raise PolicyError(f"there is no seat {seat!r} to put in focus.{nearest(seat, team)}")
        for name in seating.partners.values():
            made[name] = made.get(name) or make(name)
        beside = {seat: made[name][seat] for seat, name in seating.partners.items()}
        _refuse_others(beside, seating)
        teams.append(team | beside)
    return teams or [team]


def _refuse_others(beside: Mapping[str, Policy], seating: Seating) -> None:
    for seat, wanted in seating.weights.items():
        if seat in beside and (found := fingerprint(beside[seat])) != wanted:
            raise PolicyError(
                f"the partner {seating.partners[seat]!r} has other weights in seat {seat!r} than were fixed: "
                f"{found or 'none'}, not {wanted}; the scenario's results would not compare"
            )


def refuse_rivals(env: TextEnv, found: Spec, seatings: Sequence[Seating]) -> None:
    """Refuse to add up what rivals earn: what one wins another loses.

    Raises:
        ConfigError: the environment is competitive and nobody is in focus.
    """
    rivals = found.competitive if env.competitive is None else env.competitive
    if rivals and not seatings:
        first, second = env.possible_agents[0], env.possible_agents[-1]
        raise ConfigError(
            f"{found.id} is competitive here, so its seats are not one team: name the seat that is measured, as "
            f"--focal {first} --team {first}=POLICY,{second}=OPPONENT, or rate players with: palaver arena {found.id}"
        )


def focal(played: Sequence[Sequence[Episode]], seatings: Sequence[Seating]) -> Focal:
    """What the focal agents earned. An episode's score is the mean of their undiscounted returns; the seatings and
    samples of one task are averaged before the bootstrap over tasks.

    Raises:
        ScoringError: no episode of a seating could be scored.
    """
    by_task: dict[str, list[float]] = defaultdict(list)
    by_seating: dict[str, float] = {}
    for episodes, seating in zip(played, seatings, strict=True):
        scores = [
            (episode.task, sum(turn.rewards[seat] for turn in episode.turns for seat in seating.focal))
            for episode in only_scored(episodes, f"with {seating.name} in focus")
        ]
        by_seating[seating.name] = float(np.mean([total / len(seating.focal) for _, total in scores]))
        for task, total in scores:
            by_task[task].append(total / len(seating.focal))
    means = np.array([float(np.mean(values)) for values in by_task.values()])
    low, high = interval(means)
    seats = tuple(seating.focal for seating in seatings)
    return Focal(seatings=seats, mean=float(means.mean()), low=low, high=high, by_seating=by_seating)
