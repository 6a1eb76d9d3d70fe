"""Focal agents: team members evaluated among fixed partners or opponents, and their returns.

As in Melting Pot (J. Leibo et al., "Scalable Evaluation of Multi-Agent Reinforcement Learning with Melting Pot",
arXiv:2107.06857): the focal agents act among agents with fixed policies, and the score is the mean return of the focal
agents alone. Among partners it would include what the partners achieve, so there it is the difference to the return of
the same agents when they are silent, in the same tasks with the same seeds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from palaver.agents.base.policy import Policy
from palaver.agents.simple import ScriptedPolicy, SwitchedPolicy
from palaver.benchmarks.evaluation.results import Answers, Focal, fingerprint
from palaver.core import ConfigError, PolicyError, ScoringError, did_you_mean
from palaver.envs.base.env import TextEnv
from palaver.envs.base.inference_wrapper import COMPONENT
from palaver.episodes import Episode, only_scored, roles_in
from palaver.registry import Spec
from palaver.trainers.rollout.evaluation import answers
from palaver.utils.stats.intervals import over_tasks


@dataclass(frozen=True)
class FocalRound:
    """Focal agents of one round of all tasks, and the names of the other agents' policies.

    An agent that is in neither keeps the team's policy. `weights` maps agents to the required fingerprint of a partner.
    After `after` answers partners are replaced by `then`, if that is not "".
    """

    focal: tuple[str, ...]
    partners: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, str] = field(default_factory=dict)
    then: str = ""
    after: int = 0

    @property
    def name(self) -> str:
        """Names of the focal agents."""
        return "+".join(self.focal)


def seated(
    team: dict[str, Policy], seatings: Sequence[FocalRound], make: Callable[[str], dict[str, Policy]]
) -> list[dict[str, Policy]]:
    """Return the policies of each seating; partners of one name share one copy.

    Raises:
        PolicyError: a seating names an unknown agent, or a partner that cannot be made or has other weights now.
    """
    partners: dict[str, dict[str, Policy]] = {}
    teams = []
    for seating in seatings:
        for agent in (*seating.focal, *seating.partners):
            if agent not in team:
                raise PolicyError(f"there is no agent {agent!r} to be focal.{did_you_mean(agent, team)}")
        for name in seating.partners.values():
            partners[name] = partners.get(name) or make(name)
        seated_partners = {agent: partners[name][agent] for agent, name in seating.partners.items()}
        for agent, wanted in seating.weights.items():
            if agent in seated_partners and (digest := fingerprint(seated_partners[agent])) != wanted:
                raise PolicyError(
                    f"the partner {seating.partners[agent]!r} has other weights for {agent!r} than the scenario fixes: "
                    f"{digest or 'none'}, not {wanted}; results would not be comparable"
                )
        if seating.then:
            partners[seating.then] = partners.get(seating.then) or make(seating.then)
            seated_partners = {
                agent: SwitchedPolicy(policy, partners[seating.then][agent], seating.after)
                for agent, policy in seated_partners.items()
            }
        replaced = roles_in(team, seating.partners)
        teams.append({agent: policy for agent, policy in team.items() if agent not in replaced} | seated_partners)
    return teams or [team]


def silenced(teams: Sequence[dict[str, Policy]], seatings: Sequence[FocalRound]) -> list[dict[str, Policy]]:
    """Return the team of each seating with its focal agents silent."""
    mute = ScriptedPolicy(lambda _conversation, _seed: "", "silent")
    return [
        team | dict.fromkeys([*seating.focal, *roles_in(team, seating.focal)], mute)
        for team, seating in zip(teams, seatings, strict=True)
    ]


def refuse_rivals(env: TextEnv, env_spec: Spec, seatings: Sequence[FocalRound]) -> None:
    """Refuse to add the returns of opponents: what one wins another loses.

    Raises:
        ConfigError: the environment is competitive and there are no focal agents.
    """
    if env_spec.competes(env) and not seatings:
        first, second = env.possible_agents[0], env.possible_agents[-1]
        raise ConfigError(
            f"{env_spec.id} is competitive here, so its agents are not one team: name the focal agent, as "
            f"--focal {first} --team {first}=POLICY,{second}=OPPONENT, or rate players with: "
            f"palaver arena {env_spec.id}"
        )


def focal(
    played: Sequence[Sequence[Episode]], seatings: Sequence[FocalRound], silent: Sequence[Sequence[Episode]] = ()
) -> Focal:
    """Score of the focal agents: their mean undiscounted return, or its gain over silence.

    The seatings and samples of one task are averaged before the bootstrap over tasks.

    Args:
        played: the episodes of each seating.
        seatings: the seatings, in the same order.
        silent: the episodes of each seating on the same tasks and seeds with its focal agents silent. With them
            the score of a task is the difference of the two means; tasks unscored in either are left out.

    Raises:
        ScoringError: no episode of a seating could be scored.
    """
    by_task: dict[str, list[tuple[float, float]]] = defaultdict(list)
    by_seating: dict[str, float] = {}
    for index, seating in enumerate(seatings):
        returns = _returns(played[index], seating)
        silent_returns = _returns(silent[index], seating) if silent else {task: [0.0] for task in returns}
        pairs = {
            task: (float(np.mean(returns[task])), float(np.mean(silent_returns[task])))
            for task in returns
            if task in silent_returns
        }
        if not pairs:
            raise ScoringError(f"no task was scored both with {seating.name} in focus and with it silent")
        by_seating[seating.name] = float(np.mean([mine - without for mine, without in pairs.values()]))
        for task, pair in pairs.items():
            by_task[task].append(pair)
    means = np.array([np.mean(pairs, axis=0) for pairs in by_task.values()])
    low, high = over_tasks(means[:, 0] - means[:, 1])
    return Focal(
        seatings=tuple(seating.focal for seating in seatings),
        mean=float((means[:, 0] - means[:, 1]).mean()),
        low=low,
        high=high,
        by_seating=by_seating,
        silent=float(means[:, 1].mean()) if silent else None,
    )


def _returns(episodes: Sequence[Episode], seating: FocalRound) -> dict[str, list[float]]:
    """Map each task to the mean returns of the focal agents in its scored episodes."""
    returns: dict[str, list[float]] = defaultdict(list)
    for episode in only_scored(episodes, f"with {seating.name} in focus"):
        total = sum(turn.rewards[agent] for turn in episode.turns for agent in seating.focal)
        returns[episode.task].append(total / len(seating.focal))
    return returns


def around_switch(played: Sequence[Sequence[Episode]], seatings: Sequence[FocalRound]) -> dict[str, float]:
    """Accuracy of guesses and reward of a turn, before and after the partner was replaced.

    They are `switch/accuracy_before`, `switch/reward_before` and so on; empty without a replacement. A turn belongs to
    the new partner from its first answer on. The rewards are of turns in which a partner acts, those for guesses apart.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for episodes, seating in zip(played, seatings, strict=False):  # without seatings the team plays alone
        for episode in episodes if seating.then else ():
            given = 0
            for turn in episode.turns:
                when = "after" if given >= seating.after else "before"
                if any(agent in turn.completions for agent in seating.partners):
                    given += 1
                    parts = [turn.components[agent].items() for agent in seating.focal]
                    earned = sum(value for items in parts for name, value in items if name != COMPONENT)
                    found[f"reward_{when}"].append(earned / len(seating.focal))
                for agent in seating.focal:
                    if (right := turn.metrics.get(f"inference/accuracy/{agent}")) is not None:
                        found[f"accuracy_{when}"].append(right)
    return {f"switch/{name}": float(np.mean(values)) for name, values in sorted(found.items())}


def answered(played: Sequence[Sequence[Episode]], focal: Sequence[Sequence[str]]) -> Answers:
    """Return how many answers were illegal.

    Args:
        played: the episodes of each seating, or all in one.
        focal: the agents whose answers count in each; empty: all agents.
    """
    whose: Sequence[Sequence[str] | None] = focal or [None] * len(played)
    counted = [answers(episodes, seats) for episodes, seats in zip(played, whose, strict=True)]
    return Answers(due=sum(due for due, _ in counted), illegal=sum(illegal for _, illegal in counted))
