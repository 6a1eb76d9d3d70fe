"""Games in lockstep: at every turn each policy is queried once for all games that need it.

The games advance by `palaver.trainers.rollout.episodes.EpisodeRunner`. Every game has its own pairing, and a finished
game is replaced by the next. A player is a policy, a function of `observation` and `info`, or a batched player, which
keeps a state per game and decides for all games at once.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from palaver.agents.base.policy import Policy
from palaver.core import Completion, EpisodeLostError, Request, stable_seed
from palaver.envs.base.env import Step, TextEnv
from palaver.envs.base.tools import schema_of
from palaver.trainers.matches.config import GameSpec, TournamentConfig
from palaver.trainers.matches.players import Choose, PendingDecision, Player
from palaver.trainers.matches.results import GameResult, PlayerStats
from palaver.trainers.rollout.branches import Branch, Joint, first_joint, start
from palaver.trainers.rollout.episodes import EpisodeRunner, StepAll
from palaver.trainers.rollout.tools import act_with_tools


class Watcher(Protocol):
    """Observer of one game."""

    def before(self, observations: Mapping[str, str]) -> None:
        """Called before every step with the last observations; the environment is still unchanged."""

    def after(self, rewards: Mapping[str, float], infos: Mapping[str, Mapping[str, Any]]) -> None:
        """Called after every step with its rewards and infos."""

    def ended(self, played: GameResult) -> None:
        """Called once, before the game is reported."""


Watch = Callable[[TextEnv, GameSpec], Watcher | None]  # (environment after its reset, game) -> its observer


@dataclass
class _PlayerState:
    """State of one player in one game: one of `policy`, `choose` and `game_state` is set.

    Attributes:
        player: the player.
        policy: the policy of its agent.
        choose: the function of a player that the environment provides.
        game_state: the result of `begin` of a batched player.
        decisions: number of decisions.
        illegal: number of illegal ones; None if the environment does not report it by agent.
        seconds: time of its decisions.
    """

    player: Player
    policy: Policy | None = None
    choose: Choose | None = None
    game_state: Any = None
    decisions: int = 0
    illegal: int | None = 0
    seconds: float = 0.0

    @classmethod
    def begin(cls, env: TextEnv, agent: str, player: Player, seed: int) -> _PlayerState:
        """State of a player at the beginning of a game."""
        if player.batched is not None:
            return cls(player, game_state=player.batched.begin(env, agent, seed))
        if player.begin is not None:
            return cls(player, choose=player.begin(env, agent, seed))
        return cls(player, policy=player.policies[agent])

    @property
    def engine(self) -> object:
        """Batched player, policy or shared engine that answers for it; itself if it is a function."""
        return self if self.choose else self.player.batched or getattr(self.policy, "shared_engine", self.policy)


@dataclass
class _RunningGame:
    """A game in progress.

    Attributes:
        game: the game.
        task: id of the task.
        match_seed: seed of all draws of the match.
        players: agent -> state of its player.
        watcher: its observer.
        terminated: True if all agents of the last step were terminated.
        seconds: its share of the computing time.
        lost: why its environment is lost, "" if it is not.
    """

    game: GameSpec
    task: str
    match_seed: int
    players: Mapping[str, _PlayerState]
    watcher: Watcher | None = None
    terminated: bool = False
    seconds: float = 0.0
    lost: str = ""


class _Query(NamedTuple):
    """An agent that may act in a running game."""

    running: _RunningGame
    branch: Branch
    agent: str

    @property
    def player_state(self) -> _PlayerState:
        return self.running.players[self.agent]

    @property
    def pending(self) -> PendingDecision:
        return PendingDecision(
            self.player_state.game_state, self.branch.observations[self.agent], self.branch.infos[self.agent]
        )


def play(
    setting: TournamentConfig,
    env: TextEnv,
    players: Mapping[str, Player],
    games: Sequence[GameSpec],
    watch: Watch | None = None,
    turn: Callable[[Sequence[GameSpec]], None] | None = None,
) -> Iterator[GameResult]:
    """Play games of one team set, `setting.parallel` at a time; yields each as it ends.

    A game depends on the setting's seed, the match, the side and the turn alone, not on the rest of its batch (for a
    language model in fp32). A game whose environment is lost ends as failed, and the others continue.

    Args:
        setting: setting of the arena.
        env: environment with the team set; it is forked, never stepped.
        players: label -> player.
        games: games to play, in this order.
        watch: makes the observer of a game at its beginning; an observer does not affect the game.
        turn: called before every turn with the running games.
    """
    forks = [env.fork() for _ in range(min(setting.parallel, len(games)))]
    table = _Games(setting, players, watch, turn)
    runner = EpisodeRunner(table.play_turn, table.on_step, workers=max(1, setting.workers), compare=False)
    free_envs = list(forks)
    starts = (table.begin(free_envs.pop(), game, str(index)) for index, game in enumerate(games))
    try:
        for branch in runner.run(starts, setting.parallel):
            free_envs.append(branch.env)
            yield table.finish(branch)
    finally:
        for fork in forks:
            fork.close()


def match_seed(setting: TournamentConfig, game: GameSpec) -> int:
    """Seed with which the environment of a game is reset."""
    return _seed_of_match(setting, game) % 2**31


def _seed_of_match(setting: TournamentConfig, game: GameSpec) -> int:
    return stable_seed(setting.seed, "match", game.teamset, game.match)


def failed(game: GameSpec, reason: str, task: str = "", seconds: float = 0.0) -> GameResult:
    """Make the record of a failed game, which does not count."""
    no_decisions = PlayerStats(0, None, 0.0)
    return GameResult(game, task, 0.5, 0, "truncated", (no_decisions, no_decisions), round(seconds, 6), reason)


class _Games:
    """Running games, by the roots of their branches.

    Args:
        setting: see `play`.
        players: see `play`.
        watch: see `play`.
        turn: see `play`.
    """

    def __init__(
        self,
        setting: TournamentConfig,
        players: Mapping[str, Player],
        watch: Watch | None,
        turn: Callable[[Sequence[GameSpec]], None] | None,
    ) -> None:
        self.setting, self.players, self.watch, self.turn = setting, players, watch, turn
        self.running: dict[str, _RunningGame] = {}

    def begin(self, env: TextEnv, game: GameSpec, root: str) -> Branch:
        """Begin a game; one whose environment is lost at once has ended."""
        began, seed = time.perf_counter(), _seed_of_match(self.setting, game)
        task = env.tasks[seed % len(env.tasks)].id
        running = self.running[root] = _RunningGame(game, task, seed, {})
        try:
            branch = start(env, task, seed, root)
            running.players = {
                agent: _PlayerState.begin(env, agent, self.players[label], stable_seed(seed, game.swapped, agent))
                for agent, label in zip(env.possible_agents, game.seating, strict=True)
            }
            running.watcher = self.watch(env, game) if self.watch else None
        except EpisodeLostError as error:
            running.lost = str(error)
            branch = Branch(env, task, seed, root, root, 0, root, {}, {}, {}, stop="unscored")
        running.seconds = time.perf_counter() - began
        return branch

    def play_turn(self, live: list[Branch], step_all: StepAll) -> list[Branch]:
        """Play one turn of every game; those that are lost end."""
        games = [self.running[branch.root] for branch in live]
        if self.turn:
            self.turn([running.game for running in games])
        began = time.perf_counter()
        actions = self.query_players(live)
        going = [branch for branch in live if not self.running[branch.root].lost]
        for branch in going:
            if watcher := self.running[branch.root].watcher:
                watcher.before(branch.observations)
        try:
            stepped = step_all([first_joint(branch, actions[branch.root]) for branch in going])
        except EpisodeLostError as error:  # one game is lost, and which one is unknown
            stepped = []
            for branch in going:
                self.running[branch.root].lost = str(error)
        seconds = (time.perf_counter() - began) / len(live)
        for running in games:
            running.seconds += seconds
        after = {branch.root: branch for branch in stepped}
        return [after.get(branch.root) or replace(branch, stop="unscored") for branch in live]

    def query_players(self, live: Sequence[Branch]) -> dict[str, dict[str, list[Completion]]]:
        """Query all agents that may act, in one batch per batched player, policy or shared engine.

        Returns:
            Game -> agent -> action. Games that were lost are marked.
        """
        batches: dict[int, list[_Query]] = defaultdict(list)  # by `id` of what answers the batch
        actions: dict[str, dict[str, list[Completion]]] = {branch.root: {} for branch in live}
        for branch in live:
            running = self.running[branch.root]
            acting = [agent for agent in branch.env.agents if branch.infos[agent].get("can_act", True)]
            for agent in acting:
                running.players[agent].decisions += 1
                batches[id(running.players[agent].engine)].append(_Query(running, branch, agent))
        for batch in batches.values():
            began = time.perf_counter()
            try:
                answers = self.answer(batch)
            except EpisodeLostError as error:  # one game is lost, and which one is unknown
                answers = []
                for query in batch:
                    query.running.lost = str(error)
            seconds = (time.perf_counter() - began) / len(batch)
            for query in batch:
                query.player_state.seconds += seconds
            for query, text in zip(batch, answers, strict=False):
                actions[query.branch.root][query.agent] = [Completion(text)]
        return actions

    def answer(self, batch: Sequence[_Query]) -> list[str]:
        """Action of each query, all of the same function, batched player, policy or shared engine."""
        state = batch[0].player_state
        pending = [query.pending for query in batch]
        if state.choose is not None:
            return [state.choose(decision.observation, decision.info) for decision in pending]
        if state.player.batched is not None:
            return state.player.batched.decide(pending)
        return [completions[0].text for completions in act_with_tools([self.request(query) for query in batch])]

    def request(self, query: _Query) -> tuple[TextEnv, Policy, Request]:
        """Environment, policy and request of an agent."""
        (running, branch, agent), policy = query, query.player_state.policy
        assert policy is not None
        seed = stable_seed(running.match_seed, running.game.swapped, agent, len(branch.turns))
        tools = tuple(map(schema_of, branch.env.tools(agent)))
        conversation, answered = branch.conversations[agent], branch.answered(agent)
        request = Request(agent, conversation, (seed,), self.setting.sampling, tools, answered=answered)
        return branch.env, policy, request

    def on_step(self, joint: Joint, step: Step, branch: Branch) -> Branch:  # noqa: ARG002 - the runner's signature
        """Count illegal actions; show the step to the observer of the game."""
        running, (_, rewards, terminations, _, infos) = self.running[branch.root], step
        if running.watcher:
            running.watcher.after(rewards, infos)
        for agent, info in infos.items():
            state, illegal = running.players[agent], info.get("illegal")
            state.illegal = None if illegal is None or state.illegal is None else state.illegal + bool(illegal)
        running.terminated = all(terminations.values())
        return branch

    def finish(self, branch: Branch) -> GameResult:
        """Make the record of a game that has ended."""
        running = self.running.pop(branch.root)
        if running.lost:
            return failed(running.game, running.lost, running.task, running.seconds)
        result = _record(running, branch)
        if running.watcher:
            running.watcher.ended(result)
        return result


def _record(running: _RunningGame, branch: Branch) -> GameResult:
    game, infos = running.game, branch.infos
    first_return, second_return = (
        sum(turn.rewards[agent] for turn in branch.turns) for agent in branch.env.possible_agents
    )
    metrics: Mapping[str, float] = next(iter(infos.values())).get("metrics", {})  # the same for all agents
    margin = metrics.get("outcome", first_return - second_return)
    first_score = 0.5 if abs(margin) < 1e-9 else float(margin > 0)
    unscored = [info for info in infos.values() if info.get("unscored")]
    failure = str(unscored[0].get("reason") or "it could not be scored") if unscored else ""
    stats = {
        state.player.label: PlayerStats(state.decisions, state.illegal, round(1000 * state.seconds, 3))
        for state in running.players.values()
    }
    return GameResult(
        game,
        running.task,
        1 - first_score if game.swapped else first_score,
        len(branch.turns),
        "terminated" if running.terminated else "truncated",
        (stats[game.first], stats[game.second]),
        round(running.seconds, 6),
        failure,
    )
