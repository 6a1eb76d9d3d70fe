"""Training loop of a league: a main team and exploiters, each against its opponents."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from palaver.agents.base.policy import Policy
from palaver.core import stable_seed
from palaver.envs.base.exact import ExactGame
from palaver.episodes import Episode
from palaver.trainers.league.chances import team_chances
from palaver.trainers.league.evaluation import CHANCES, crossplay, exact_metrics
from palaver.trainers.league.matchmaking import Pairing, matches
from palaver.trainers.league.pool import MAIN, Points, Pool
from palaver.trainers.policy_gradient import PolicyGradientLoop
from palaver.trainers.rollout.metrics import agent_returns
from palaver.trainers.rollout.opponent import win
from palaver.trainers.rollout.tasks import ResampledEpisodes, batch_of_tasks
from palaver.trainers.run import checkpoint
from palaver.trainers.update.learner import Learner
from palaver.trainers.update.updater import Updater


@dataclass(slots=True)
class Exploiter:
    """Policy that learns to beat the main team's present weights.

    Attributes:
        name: `exploiter-1`, ...
        team: agent -> its policy.
        updater: its updater.
    """

    name: str
    team: Mapping[str, Policy]
    updater: Updater


@dataclass(slots=True)
class League:
    """Pool and exploiters of a run.

    Attributes:
        pool: opponents of the main team.
        make_exploiter: name -> a new exploiter with the weights that the run began with.
        exploiters: exploiters that learn.
        game: the whole game, if it is small enough for exact values.
    """

    pool: Pool
    make_exploiter: Callable[[str], Exploiter]
    exploiters: list[Exploiter]
    game: ExactGame | None = None

    def state_dict(self) -> dict[str, Any]:
        """State that the next step depends on; policies and optimisers are saved separately."""
        exploiters = {exploiter.name: exploiter.updater.state_dict() for exploiter in self.exploiters}
        return {"pool": self.pool.state_dict(), "exploiters": exploiters}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeagueLoop(PolicyGradientLoop):
    """Policy-gradient loop in which some tasks are played against a pool.

    Attributes:
        league: pool and exploiters.
        role: `main`, or the name of the exploiter whose step this is.
    """

    league: League
    role: str = MAIN

    def run(self) -> None:
        """Train; the weights that the run begins with are the first member."""
        config = self.session.config.league
        if self.session.done == 0 and config.snapshot_every:
            self._join(0)
        PolicyGradientLoop.run(self)

    def step(self, step: int) -> dict[str, Any]:
        """Make one update of the main team and one of every exploiter, and let the pool grow."""
        metrics = PolicyGradientLoop.step(self, step) | {"league/members": len(self.league.pool.members)}
        main = self.seated(step)
        for exploiter in self.league.exploiters:
            loop = replace(
                self,
                session=replace(self.session, run_logger=None),
                team=exploiter.team,
                updater=exploiter.updater,
                opponent=main,
                role=exploiter.name,
            )
            own = PolicyGradientLoop.step(loop, step)
            metrics |= {f"{exploiter.name}/{name}": own[name] for name in ("league/points", "league/return")}
        self._grow(step)
        return metrics

    def rolled(self, step: int, team: Mapping[str, Policy]) -> ResampledEpisodes:
        """Roll out this process's shard of a step; opponents' completions are not compared."""
        config = self.session.config
        tasks = batch_of_tasks([task.id for task in self.env.tasks], config.train.prompts_per_step, config.seed, step)
        pairings, opponents = self._pairings(step, list(team), len(tasks))
        mine = self.session.distributed.shard(list(enumerate(tasks)))
        teams = [_players(team, pairings[place], opponents) for place, _ in mine]
        rolled = self.play(step, mine, teams, self.role, step)  # in the order of their tasks
        episodes = {place: list(played) for place, played in groupby(rolled, _place)}
        self._record(pairings, {place: played for place, played in episodes.items() if pairings[place].agent})
        learning = [
            _only(episode, [pairings[place].agent] if pairings[place].agent else list(team))
            for place, played in episodes.items()
            for episode in played
        ]
        return ResampledEpisodes(learning, [], 0)

    def describe_draws(self, drawn: ResampledEpisodes) -> dict[str, float]:
        """Mean points and return of the learning agent against opponents; empty without any."""
        played = [(episode, agent) for episode in drawn.episodes if (agent := _learning_agent(episode))]
        points, returns, count = self.session.distributed.all_sum(
            sum(win(episode, agent) for episode, agent in played if episode.scored),
            sum(agent_returns(episode)[agent] for episode, agent in played if episode.scored),
            sum(episode.scored for episode, _ in played),
        )
        return {"league/points": points / count, "league/return": returns / count} if count else {}

    def evaluation(self, step: int) -> tuple[list[Episode], dict[str, Any]]:
        """Evaluation of the main team, with exploitability and cross-play where they are asked for."""
        episodes, metrics = PolicyGradientLoop.evaluation(self, step)
        team, sampling = self.seated(step), self.sampling(step)
        exact = exact_metrics(self.league.game, self.league.pool, team, sampling)
        table = crossplay(self.session, self.eval_env, self.league.pool, team, sampling, step)
        return episodes, {**metrics, **exact, **table}

    def write_checkpoint(self, step: int) -> None:
        """Write the checkpoint after `step`; remove weights of the pool that none needs."""
        PolicyGradientLoop.write_checkpoint(self, step)
        self.league.pool.clean(checkpoint.oldest(self.session.folder))

    @property
    def saved_learners(self) -> Sequence[Learner]:
        """Learners of the main team and of the exploiters."""
        updaters = [self.updater, *(exploiter.updater for exploiter in self.league.exploiters)]
        return [learner for updater in updaters for learner in updater.learners]

    def saved_state(self) -> dict[str, Any]:
        """State of the main team's updater and of the league."""
        return self.updater.state_dict() | {"league": self.league.state_dict()}

    def _pairings(self, step: int, agents: Sequence[str], places: int) -> tuple[list[Pairing], dict[str, Any]]:
        """Pairing of each task, and the teams of the opponents."""
        config, pool = self.session.config, self.league.pool
        if self.role != MAIN:
            pairings = [Pairing(MAIN, agents[(step + place) % len(agents)]) for place in range(places)]
            return pairings, {MAIN: self.opponent}
        seed = stable_seed(config.seed, "matches", step)
        pairings = matches(config.league, pool.members, pool.points, agents, places, seed, step)
        return pairings, pool.teams([match.opponent for match in pairings if match.opponent])

    def _record(self, pairings: Sequence[Pairing], played: Mapping[int, Sequence[Episode]]) -> None:
        """Add the results of the main team to the pool's scores, in the order of the tasks."""
        if self.role != MAIN:
            return
        points = [
            (place, sum(win(episode, pairings[place].agent) for episode in scored) / len(scored))
            for place, episodes in played.items()
            if (scored := [episode for episode in episodes if episode.scored])
        ]
        for place, mean in sorted(self.session.distributed.gather(points)):
            self.league.pool.scores.setdefault(pairings[place].opponent, Points()).add(mean)

    def _grow(self, step: int) -> None:
        """Add past selves and exploiters to the pool when they are due; such exploiters start again."""
        config, league = self.session.config.league, self.league
        if config.snapshot_every and step % config.snapshot_every == 0:
            self._join(step)
        if step % config.exploiter_every == 0:
            for n, exploiter in enumerate(league.exploiters):
                league.pool.add(exploiter.name, step, exploiter.team, main=self.session.distributed.is_main)
                league.exploiters[n] = league.make_exploiter(exploiter.name)
        self.session.distributed.wait()

    def _join(self, step: int) -> None:
        """Add the team to the pool, with the probabilities of its actions where they are exact."""
        main, game, team = self.session.distributed.is_main, self.league.game, self.seated(step)
        texts = {}
        if main and game is not None:
            chances, _ = team_chances(game, team, self.sampling(step))
            texts[CHANCES] = json.dumps(chances)
        self.league.pool.add(MAIN, step, team, texts, main=main)
        self.session.distributed.wait()


def _place(episode: Episode) -> int:
    """Place of an episode's task in its step."""
    return int(episode.turns[0].node.partition("/")[0])


def _players(team: Mapping[str, Policy], match: Pairing, opponents: Mapping[str, Mapping[str, Policy]]) -> Any:
    """Agent -> the policy that acts for it in a task."""
    return {**opponents[match.opponent], match.agent: team[match.agent]} if match.agent else team


def _only(episode: Episode, agents: Sequence[str]) -> Episode:
    """Episode in which only the candidates of these agents are compared, and so trained on."""
    turns = [
        replace(turn, choice={agent: n for agent, n in turn.choice.items() if agent in agents})
        for turn in episode.turns
    ]
    return replace(episode, turns=tuple(turns))


def _learning_agent(episode: Episode) -> str:
    """The agent that learns in an episode against an opponent; "" in self-play."""
    acted = {agent for turn in episode.turns for agent in turn.completions}
    learning = {agent for turn in episode.turns for agent in turn.choice}
    return "" if learning >= acted else next(iter(learning), "")
