"""Settings and games of an arena."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from palaver.agents.llm.model.options import ModelOptions
from palaver.core import EXTRAS, ConfigError, PolicyError, Sampling, did_you_mean, missing
from palaver.envs.base.env import TextEnv
from palaver.registry import Spec, spec, specs
from palaver.text import one_line
from palaver.trainers.rollout.episodes import text_env

ALL = "all"
SEATS = 2
_LABEL = re.compile(r"[A-Za-z0-9_][\w.@:+-]*")


class GameSpec(NamedTuple):
    """One game.

    Its match is the same task and seed for all pairings, and is played twice, sides swapped.
    """

    teamset: str
    first: str
    second: str
    match: int
    swapped: bool

    @property
    def seating(self) -> tuple[str, str]:
        """Labels of the players of the environment's first and second agent."""
        return (self.second, self.first) if self.swapped else (self.first, self.second)


@dataclass(frozen=True)
class TournamentConfig:
    """An arena.

    Attributes:
        env: id of the environment.
        players: label -> policy, as `read_players` returns them.
        keywords: keywords of the environment.
        teamsets: values of the keyword that the spec names; () plays with the keywords alone.
        battles: games of each pairing on each team set, an even number.
        seed: seed of tasks, environments and sampling.
        agent: label of the player that meets all others, which do not meet each other; "": all meet.
        sampling: sampling parameters of models, the same for all.
        options: how models are loaded.
        force: allow the tiny model on real data.
        parallel: games that advance together.
        workers: threads that step their environments.
        patience: seconds that a process may take for one turn of its games before it counts as stalled.
    """

    env: str
    players: Mapping[str, str]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    teamsets: tuple[str, ...] = ()
    battles: int = 100
    seed: int = 0
    agent: str = ""
    sampling: Sampling = field(default_factory=Sampling)
    options: ModelOptions = field(default_factory=ModelOptions)
    force: bool = False
    parallel: int = 32
    workers: int = 1
    patience: float = 900.0

    def __post_init__(self) -> None:
        if len(self.players) < 2:
            raise ConfigError("an arena needs two players or more; give them as --players A,B")
        if self.battles < 2 or self.battles % 2:
            raise ConfigError(
                f"battles must be an even number of 2 or more, for every match is played twice, sides swapped; "
                f"got {self.battles}"
            )
        if self.agent and self.agent not in self.players:
            raise PolicyError(f"there is no player {self.agent!r} here.{did_you_mean(self.agent, self.players)}")
        if len(set(self.teamsets)) < len(self.teamsets):
            raise ConfigError(f"a team set is named twice in {', '.join(self.teamsets)}")

    @property
    def spec(self) -> Spec:
        """Spec of the environment."""
        return spec(self.env)

    @property
    def sets(self) -> tuple[str, ...]:
        """The team sets by name; "" is the keywords alone."""
        return self.teamsets or ("",)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Unordered pairings, in the order of the players."""
        pairings = itertools.combinations(self.players, 2)
        return [pair for pair in pairings if not self.agent or self.agent in pair]

    def games(self) -> list[GameSpec]:
        """All games, ordered so that finished games are spread evenly over the pairings."""
        return [
            GameSpec(teamset, *pair, match, swapped)
            for teamset in self.sets
            for match in range(self.battles // 2)
            for pair in self.pairs
            for swapped in (False, True)
        ]

    def environment(self, teamset: str) -> TextEnv:
        """Make the environment with a team set.

        Raises:
            ConfigError: it does not exist, cannot be made so, or is not a contest between two agents.
            TaskError: its tasks cannot be read.
        """
        env_spec = self.spec
        keywords = dict(self.keywords)
        if teamset:
            if env_spec.teamsets in keywords:
                raise ConfigError(f"the team sets are named twice: give either --teamsets or {env_spec.teamsets}=")
            keywords[env_spec.teamsets] = teamset
        if not env_spec.competitive:
            others = ", ".join(candidate.id for candidate in specs().values() if candidate.competitive)
            raise ConfigError(f"{env_spec.id} is not competitive: its agents share a reward. Competitive are: {others}")
        env = text_env(env_spec.id, keywords)
        if env.competitive is False:
            raise ConfigError(
                f"{env_spec.id} gives its agents equal rewards with {_keywords_text(keywords)}; choose other keywords"
            )
        if len(env.possible_agents) != SEATS:
            raise ConfigError(f"the arena needs two agents, and {env_spec.id} has {len(env.possible_agents)}")
        return env


def read_players(text: str, env_spec: Spec) -> dict[str, str]:
    """Parse label -> policy from `A,B,name=C`.

    `all` is every player that the environment provides and that can play here, see `left_out`. A policy's label is its
    own name; `name=policy` gives it another.

    Raises:
        ConfigError: a label twice, or one that cannot be one.
    """
    players: dict[str, str] = {}
    absent = left_out(env_spec)
    for entry in (entry.strip() for entry in text.split(",")):
        label, equals, policy = entry.partition("=")
        if not (equals and _LABEL.fullmatch(label) and policy):
            label, policy = entry, entry
        for name, player in (
            {known: known for known in provided(env_spec) if known not in absent}.items()
            if entry == ALL
            else [(label, policy)]
        ):
            if not name:
                raise ConfigError(f"--players {text!r} has an empty place; write A,B,C")
            if name in players and entry != ALL:
                raise ConfigError(f"the player {name!r} is named twice; give one another name, as second={player}")
            players.setdefault(name, player)
    return players


def provided(env_spec: Spec) -> list[str]:
    """Players of an environment: those of the arena, and its scripted policies by bare name."""
    return list(dict.fromkeys([*env_spec.players, *env_spec.scripted]))


def left_out(env_spec: Spec) -> dict[str, str]:
    """Player that `all` leaves out -> the extra it needs, which is not installed.

    A player of another library is named `EXTRA:NAME`.
    """
    needs = {player: player.partition(":")[0] for player in env_spec.players if ":" in player}
    return {player: extra for player, extra in needs.items() if missing(EXTRAS.get(extra, ()))}


def _keywords_text(keywords: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={one_line(value, 40)}" for key, value in keywords.items()) or "its default keywords"
