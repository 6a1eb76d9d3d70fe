"""Measurements of a league: exploitability, cross-play, ratings, cycles."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from palaver.agents.base.policy import Policy
from palaver.core import Sampling, stable_seed
from palaver.envs.base.env import TextEnv
from palaver.envs.base.exact import ExactGame
from palaver.trainers.league.chances import team_chances
from palaver.trainers.league.pool import MAIN, Pool
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.trainers.rollout.opponent import win
from palaver.trainers.run.session import RunSession
from palaver.utils.ratings import PairedResults, Rating, rate
from palaver.utils.run_folder import replace_text

CHANCES = "chances.json"  # of a member: probabilities of its actions in every information set
PRESENT = "present"  # the team as it is now, in a table of cross-play
ANCHOR = 1000.0


@dataclass(frozen=True, slots=True)
class CrossPlay:
    """Results of pairings of all players.

    Attributes:
        players: names.
        points: row -> column -> mean points of the row's player against the column's; 1/2 on the diagonal.
        ratings: Elo ratings with 95 % intervals; the first player has 1000.
        intransitivity: share of triples of players that beat each other in a circle.
        games: episodes of each pairing.
    """

    players: tuple[str, ...]
    points: tuple[tuple[float, ...], ...]
    ratings: tuple[Rating, ...]
    intransitivity: float
    games: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        elo = [{"elo": r.elo, "low": r.low, "high": r.high, "bounded": r.bounded} for r in self.ratings]
        return {
            "players": list(self.players),
            "points": [list(row) for row in self.points],
            "ratings": elo,
            "intransitivity": self.intransitivity,
            "games": self.games,
        }


def exact_metrics(
    game: ExactGame | None, pool: Pool, team: Mapping[str, Policy], sampling: Mapping[str, Sampling]
) -> dict[str, float]:
    """NashConv of a team and of the pool's mixture; empty if the game is too large."""
    if game is None:
        return {}
    chances, mass = team_chances(game, team, sampling)
    metrics = {"nash_conv": game.nash_conv(chances), "legal_mass": mass}
    files = [pool.folder_of(member.name) / CHANCES for member in pool.members if member.line == MAIN]
    past = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return metrics | ({"nash_conv/pool": game.nash_conv(game.mixture(past))} if past else {})


def crossplay(
    session: RunSession,
    env: TextEnv,
    pool: Pool,
    team: Mapping[str, Policy],
    sampling: Mapping[str, Sampling],
    step: int,
) -> dict[str, float]:
    """Play the present team and members of the pool, and write the table to the run's folder.

    Args:
        session: the run.
        env: environment of the evaluations; its first tasks are played.
        pool: its members.
        team: the present team.
        sampling: agent -> sampling parameters, of all players.
        step: updates done.

    Returns:
        Elo rating of the present team and intransitivity; empty if there are fewer than two players or no games.
    """
    config = session.config
    names = evenly_spaced([member.name for member in pool.members], config.league.field)
    if not names or not config.league.games:
        return {}
    players = {**pool.teams(names), PRESENT: team}
    tasks = [task.id for task in env.tasks][: config.league.games]
    seed = stable_seed(config.eval.seed, "cross-play")
    table = play_pairs(session, env, players, tasks, sampling, seed)
    if session.distributed.is_main:
        record = {"step": step, **table.to_dict()}
        pool.folder.mkdir(exist_ok=True)
        replace_text(pool.folder / f"crossplay-{step:06d}.json", json.dumps(record, indent=1) + "\n")
    return {"league/elo": table.ratings[-1].elo, "league/intransitivity": table.intransitivity}


def play_pairs(
    session: RunSession,
    env: TextEnv,
    players: Mapping[str, Mapping[str, Policy]],
    tasks: Sequence[str],
    sampling: Mapping[str, Sampling],
    seed: int,
) -> CrossPlay:
    """Play all pairs on the same tasks: one acts for each agent in turn, the other for the rest."""
    names, agents = tuple(players), env.possible_agents
    pairs = list(itertools.combinations(range(len(names)), 2))
    games = [
        (pair, match, agent, focal)
        for pair in range(len(pairs))
        for match in range(len(tasks))
        for agent in agents
        for focal in (0, 1)
        if len(agents) > 2 or focal == 0
    ]
    mine = session.distributed.shard(list(enumerate(games)))
    teams = []
    for _, (pair, _, agent, focal) in mine:
        one, others = players[names[pairs[pair][focal]]], players[names[pairs[pair][1 - focal]]]
        teams.append({**others, agent: one[agent]})
    episodes = rollout(
        env,
        teams,
        [tasks[match] for _, (_, match, _, _) in mine],
        SamplingPlan(),
        sampling=sampling,
        seed=seed,
        workers=session.config.train.workers,
        places=[place for place, _ in mine],
    )
    won = [(place, win(e, agent)) for e, (place, (_, _, agent, _)) in zip(episodes, mine, strict=True) if e.scored]
    points, played = (np.zeros((len(pairs), len(tasks))) for _ in range(2))
    for place, value in session.distributed.gather(won):
        pair, match, _, focal = games[place]
        points[pair, match] += value if focal == 0 else 1 - value
        played[pair, match] += 1
    return cross_play_table(names, np.array(pairs), points, played)


def cross_play_table(names: Sequence[str], pairs: Any, points: Any, played: Any) -> CrossPlay:
    """Table of results.

    Args:
        names: P players; the first anchors the ratings.
        pairs: (K, 2) indices of players.
        points: (K, M) of the first of each pair, by task.
        played: (K, M) games.
    """
    means = np.full((len(names), len(names)), 0.5)
    for (row, column), mean in zip(pairs.tolist(), points.sum(1) / played.sum(1), strict=True):
        means[row, column], means[column, row] = mean, 1 - mean
    ratings, _ = rate(PairedResults(tuple(names), pairs, points, played), names[0], ANCHOR)
    rows = tuple(tuple(row) for row in means.tolist())
    return CrossPlay(tuple(names), rows, tuple(ratings), intransitivity(rows), int(played.sum(1).min()))


def intransitivity(points: Sequence[Sequence[float]]) -> float:
    """Share of triples of players that beat each other in a circle; 0 without triples.

    >>> intransitivity([[0.5, 1, 0], [0, 0.5, 1], [1, 0, 0.5]])
    1.0
    """
    beats = [[value > 0.5 for value in row] for row in points]
    triples = list(itertools.combinations(range(len(points)), 3))
    circles = sum(
        (beats[a][b] and beats[b][c] and beats[c][a]) or (beats[b][a] and beats[c][b] and beats[a][c])
        for a, b, c in triples
    )
    return circles / len(triples) if triples else 0.0


def evenly_spaced(names: Sequence[str], count: int) -> list[str]:
    """At most `count` of the names, evenly spaced, the first and the last among them."""
    if len(names) <= count:
        return list(names)
    return [names[round(n * (len(names) - 1) / (count - 1))] for n in range(count)]
