"""Games in lockstep: at every turn each policy is queried once for all games that need it.

`palaver.trainers.rollout.episodes` is the counterpart for training, with one team per call. Here every game has its own
pairing, and a finished game is replaced by the next. A player is a policy, a function of `observation` and `info`, or a
batched player, which keeps a state per game and decides for all games at once.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from palaver.agents.base.policy import Policy, act_batched
from palaver.core import Conversation, EpisodeLostError, Message, Request, stable_seed
from palaver.envs.base.env import Step, TextEnv
from palaver.trainers.matches.batched_players import PendingDecision
from palaver.trainers.matches.config import GameSpec, TournamentConfig
from palaver.trainers.matches.players import Choose, Player
from palaver.trainers.matches.results import GameResult, PlayerStats


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
        history: the conversation up to the last answer; empty without a policy.
        unread: observations since the last answer.
        decisions: number of decisions.
        illegal: number of illegal ones; None if the environment does not report it by agent.
        seconds: time of its decisions.
    """

    player: Player
    policy: Policy | None = None
    choose: Choose | None = None
    game_state: Any = None
    history: Conversation = ()
    unread: str = ""
    decisions: int = 0
    illegal: int | None = 0
    seconds: float = 0.0

    def conversation(self, observation: str, fresh: bool) -> Conversation:
        """Conversation that ends with all unanswered observations.

        If `fresh`, it is `observation` only.
        """
        if fresh:
            return (Message("user", observation),)
        unanswered = "\n\n".join(text for text in (self.unread, observation) if text)
        return (*self.history, Message("user", unanswered))


@dataclass(eq=False)
class _RunningGame:
    """A game in progress, hashed by identity; its environment is reused by the next game.

    Attributes:
        game: the game.
        env: its environment.
        task: id of the task.
        match_seed: seed of all draws of the match.
        players: agent -> state of its player.
        observations, infos: of the last step.
        watcher: its observer.
        returns: agent -> sum of rewards.
        turns: number of turns.
        seconds: its share of the computing time.
    """

    game: GameSpec
    env: TextEnv
    task: str
    match_seed: int
    players: dict[str, _PlayerState]
    observations: Mapping[str, str]
    infos: Mapping[str, Mapping[str, Any]]
    watcher: Watcher | None = None
    returns: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    turns: int = 0
    seconds: float = 0.0

    @property
    def fresh(self) -> bool:
        """True if every observation begins a conversation of its own."""
        return self.env.metadata.get("conversation") == "fresh"


@dataclass(frozen=True)
class _Query:
    """An agent that may act in a running game."""

    running: _RunningGame
    agent: str

    @property
    def player_state(self) -> _PlayerState:
        return self.running.players[self.agent]

    @property
    def observation(self) -> str:
        return self.running.observations[self.agent]

    @property
    def info(self) -> Mapping[str, Any]:
        return self.running.infos[self.agent]

    @property
    def seed(self) -> int:
        running = self.running
        return stable_seed(running.match_seed, running.game.swapped, self.agent, running.turns)


def play(
    setting: TournamentConfig,
    env: TextEnv,
    players: Mapping[str, Player],
    games: Sequence[GameSpec],
    watch: Watch | None = None,
    turn: Callable[[Sequence[GameSpec]], None] = lambda _: None,
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
    waiting = list(games)[::-1]
    forks = [env.fork() for _ in range(min(setting.parallel, len(waiting)))]
    free_envs, live = list(forks), list[_RunningGame]()
    try:
        with ThreadPoolExecutor(max_workers=max(1, setting.workers)) as threads:
            while live or waiting:
                while waiting and free_envs:
                    begun = _begin(setting, free_envs[-1], players, waiting.pop(), watch)
                    if isinstance(begun, GameResult):
                        yield begun
                    else:
                        live.append(begun)
                        free_envs.pop()
                turn([running.game for running in live])
                results = list(zip(live, _play_turn(setting, live, threads), strict=True))
                live = [running for running, result in results if result is None]
                free_envs += [running.env for running, result in results if result is not None]
                yield from (result for _, result in results if result is not None)
    finally:
        for fork in forks:
            fork.close()


def match_seed(setting: TournamentConfig, game: GameSpec) -> int:
    """Seed with which the environment of a game is reset."""
    return _seed_of_match(setting, game) % 2**31


def _seed_of_match(setting: TournamentConfig, game: GameSpec) -> int:
    return stable_seed(setting.seed, "match", game.teamset, game.match)


def _begin(
    setting: TournamentConfig, env: TextEnv, players: Mapping[str, Player], game: GameSpec, watch: Watch | None
) -> _RunningGame | GameResult:
    """Begin a game; return its record as failed if its environment is lost at once."""
    began = time.perf_counter()
    seed = _seed_of_match(setting, game)
    task = env.tasks[seed % len(env.tasks)].id
    try:
        observations, infos = env.reset(seed=match_seed(setting, game), options={"task": task})
        player_states = {
            agent: _begin_player(env, agent, players[label], stable_seed(seed, game.swapped, agent))
            for agent, label in zip(env.possible_agents, game.seating, strict=True)
        }
        watcher = watch(env, game) if watch else None
    except EpisodeLostError as error:
        return failed(game, str(error), task, time.perf_counter() - began)
    running = _RunningGame(game, env, task, seed, player_states, observations, infos, watcher)
    running.seconds = time.perf_counter() - began
    return running


def _begin_player(env: TextEnv, agent: str, player: Player, seed: int) -> _PlayerState:
    if player.batched is not None:
        return _PlayerState(player, game_state=player.batched.begin(env, agent, seed))
    if player.begin is not None:
        return _PlayerState(player, choose=player.begin(env, agent, seed))
    return _PlayerState(player, policy=player.policies[agent])


def _play_turn(
    setting: TournamentConfig, live: Sequence[_RunningGame], threads: ThreadPoolExecutor
) -> list[GameResult | None]:
    """Play one turn of every game.

    Return the record of each that ended in it, None for each that continues.
    """
    began = time.perf_counter()
    actions, lost = _query_players(setting, live)
    stepped = [running for running in live if running not in lost]
    for running in stepped:
        if running.watcher:
            running.watcher.before(running.observations)
    joint_actions = [{agent: actions[running].get(agent) for agent in running.env.agents} for running in stepped]
    try:
        steps = _step(setting, stepped, joint_actions, threads) if stepped else []
    except EpisodeLostError as error:  # one game is lost, and which one is unknown
        lost |= dict.fromkeys(stepped, str(error))
        stepped, steps = [], []
    seconds = (time.perf_counter() - began) / max(1, len(live))
    for running in live:
        running.seconds += seconds
    results = {running: _update(running, actions[running], step) for running, step in zip(stepped, steps, strict=True)}
    return [_lost(running, lost[running]) if running in lost else results[running] for running in live]


def _step(
    setting: TournamentConfig,
    live: Sequence[_RunningGame],
    joint_actions: Sequence[Mapping[str, Any]],
    threads: ThreadPoolExecutor,
) -> list[Step]:
    envs = [running.env for running in live]
    if setting.workers > 1:
        return list(threads.map(TextEnv.step, envs, joint_actions))
    return type(envs[0]).step_together(envs, joint_actions)


def failed(game: GameSpec, reason: str, task: str = "", seconds: float = 0.0) -> GameResult:
    """Make the record of a failed game, which does not count."""
    no_decisions = PlayerStats(0, None, 0.0)
    return GameResult(game, task, 0.5, 0, "truncated", (no_decisions, no_decisions), round(seconds, 6), reason)


def _lost(running: _RunningGame, reason: str) -> GameResult:
    return failed(running.game, reason, running.task, running.seconds)


def _query_players(
    setting: TournamentConfig, live: Sequence[_RunningGame]
) -> tuple[dict[_RunningGame, dict[str, str]], dict[_RunningGame, str]]:
    """Query all agents that may act, in one batch per batched player, policy or shared engine.

    Returns:
        Game -> agent -> action, and lost game -> reason.
    """
    batches: dict[int, list[_Query]] = defaultdict(list)  # by `id` of what answers the batch
    actions: dict[_RunningGame, dict[str, str]] = {running: {} for running in live}
    lost: dict[_RunningGame, str] = {}
    for query in [_Query(running, agent) for running in live for agent in running.env.agents]:
        if not query.info.get("can_act", True):
            continue
        state = query.player_state
        state.decisions += 1
        if state.choose is None:
            engine: object = state.player.batched or getattr(state.policy, "shared_engine", state.policy)
            batches[id(engine)].append(query)
            continue
        began = time.perf_counter()
        try:
            actions[query.running][query.agent] = state.choose(query.observation, query.info)
        except EpisodeLostError as error:
            lost[query.running] = str(error)
        state.seconds += time.perf_counter() - began
    for batch in batches.values():
        began = time.perf_counter()
        try:
            answers = _answer(setting, batch)
        except EpisodeLostError as error:  # one game is lost, and which one is unknown
            lost |= {query.running: str(error) for query in batch}
            continue
        seconds = (time.perf_counter() - began) / len(batch)
        for query, answer in zip(batch, answers, strict=True):
            query.player_state.seconds += seconds
            actions[query.running][query.agent] = answer
    return actions, lost


def _answer(setting: TournamentConfig, batch: Sequence[_Query]) -> list[str]:
    """Action of each query, all of the same batched player, policy or shared engine."""
    batched_player = batch[0].player_state.player.batched
    if batched_player is None:
        return [completions[0].text for completions in act_batched([_request(setting, query) for query in batch])]
    return batched_player.decide(
        [PendingDecision(query.player_state.game_state, query.observation, query.info) for query in batch]
    )


def _request(setting: TournamentConfig, query: _Query) -> tuple[Policy, Request]:
    state = query.player_state
    assert state.policy is not None
    conversation = state.conversation(query.observation, query.running.fresh)
    return state.policy, Request(query.agent, conversation, (query.seed,), setting.sampling)


def _update(running: _RunningGame, actions: Mapping[str, str], step: Step) -> GameResult | None:
    """Update a game with the result of a step; return its record if it ended."""
    observations, rewards, terminations, _, infos = step
    if running.watcher:
        running.watcher.after(rewards, infos)
    for agent, info in infos.items():
        state = running.players[agent]
        running.returns[agent] += rewards[agent]
        illegal = info.get("illegal")
        state.illegal = None if illegal is None or state.illegal is None else state.illegal + bool(illegal)
        if running.fresh or state.policy is None:
            continue
        conversation = state.conversation(running.observations[agent], fresh=False)
        if agent in actions:
            state.history, state.unread = (*conversation, Message("assistant", actions[agent])), ""
        else:
            state.unread = conversation[-1].content
    running.observations, running.infos = observations, infos
    running.turns += 1
    if running.env.agents and not any(info.get("unscored") for info in infos.values()):
        return None
    result = _record(running, infos, all(terminations.values()))
    if running.watcher:
        running.watcher.ended(result)
    return result


def _record(running: _RunningGame, infos: Mapping[str, Mapping[str, Any]], terminated: bool) -> GameResult:
    game = running.game
    first_agent, second_agent = running.env.possible_agents
    metrics: Mapping[str, float] = next(iter(infos.values())).get("metrics", {})  # the same for all agents
    margin = metrics.get("outcome", running.returns[first_agent] - running.returns[second_agent])
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
        running.turns,
        "terminated" if terminated else "truncated",
        (stats[game.first], stats[game.second]),
        round(running.seconds, 6),
        failure,
    )
