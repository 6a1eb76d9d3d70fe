"""Games in lockstep: at every turn each policy is queried once for all games that need it.

`palaver.trainers.rollout.episodes` is the counterpart for training, with one team per call. Here every game has its own
pairing, a finished game is replaced by the next, and a player may be a function of `infos`, or a batched player that
keeps a state per game and decides for all games at once.
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
class _Agent:
    """State of one player in one game; `history` is empty for players without a conversation."""

    player: Player
    policy: Policy | None = None
    choose: Choose | None = None
    game_state: Any = None  # of this game, by a crowd
    history: Conversation = ()
    unread: str = ""
    decisions: int = 0
    illegal: int | None = 0
    seconds: float = 0.0

    def conversation(self, observation: str, fresh: bool) -> Conversation:
        """Conversation with all unanswered observations as the last message."""
        text = observation if fresh else "\n\n".join(message for message in (self.unread, observation) if message)
        return (*(() if fresh else self.history), Message("user", text))


@dataclass
class _Live:
    """A running game, whose environment is reused by the next."""

    game: GameSpec
    env: TextEnv
    task: str
    seed: int
    agents: dict[str, _Agent]
    observations: Mapping[str, str]
    infos: Mapping[str, Mapping[str, Any]]
    watcher: Watcher | None = None
    returns: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    turns: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class _Query:
    """An agent that may act, and the seed of its draw."""

    live: _Live
    agent: str
    seed: int

    @property
    def state(self) -> _Agent:
        return self.live.agents[self.agent]


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
    language model in fp32). A game whose environment is lost ends as failed, and the others go on.

    Args:
        setting: setting of the arena.
        env: environment with the team set; is forked, never stepped itself.
        players: by label.
        games: games to play, in this order.
        watch: called at the beginning of each game for its observer, which does not affect the game.
        turn: called before every turn with the running games.
    """
    waiting = list(games)[::-1]
    forks = [env.fork() for _ in range(min(setting.parallel, len(waiting)))]
    free, live = list(forks), list[_Live]()
    try:
        with ThreadPoolExecutor(max_workers=max(1, setting.workers)) as threads:
            while live or waiting:
                while waiting and free:
                    opened = _open(setting, free[-1], players, waiting.pop(), watch)
                    if isinstance(opened, GameResult):
                        yield opened
                    else:
                        live.append(opened)
                        free.pop()
                turn([live_game.game for live_game in live])
                ended = list(zip(live, _turn(setting, live, threads), strict=True))
                live = [live_game for live_game, played in ended if not played]
                free += [live_game.env for live_game, played in ended if played]
                yield from (played for _, played in ended if played)
    finally:
        for fork in forks:
            fork.close()


def _turn(setting: TournamentConfig, live: Sequence[_Live], threads: ThreadPoolExecutor) -> list[GameResult | None]:
    """Play one turn of every game; return the records of those that ended in it."""
    began = time.perf_counter()
    answers, lost = _decide(setting, live)
    going = [live_game for live_game in live if id(live_game) not in lost]
    for live_game in going:
        if live_game.watcher:
            live_game.watcher.before(live_game.observations)
    moves = [{agent: answers[id(live_game)].get(agent) for agent in live_game.env.agents} for live_game in going]
    try:
        steps = _step(setting, going, moves, threads) if going else []
    except EpisodeLostError as error:  # of one of them, and it is not known which
        lost |= {id(live_game): str(error) for live_game in going}
        going, steps = [], []
    spent = (time.perf_counter() - began) / max(1, len(live))
    ended: dict[int, GameResult | None] = {}
    for live_game in live:
        live_game.seconds += spent
    for live_game, step in zip(going, steps, strict=True):
        ended[id(live_game)] = _follow(live_game, answers[id(live_game)], step)
    return [
        _lost(live_game, lost[id(live_game)]) if id(live_game) in lost else ended[id(live_game)] for live_game in live
    ]


def _step(
    setting: TournamentConfig, live: Sequence[_Live], moves: Sequence[Mapping[str, Any]], threads: ThreadPoolExecutor
) -> list[Step]:
    if setting.workers > 1:
        return list(threads.map(TextEnv.step, (live_game.env for live_game in live), moves))
    return type(live[0].env).step_together([live_game.env for live_game in live], moves)


def match_seed(setting: TournamentConfig, game: GameSpec) -> int:
    """Seed with which the environment of a game is reset."""
    return _match(setting, game) % 2**31


def _match(setting: TournamentConfig, game: GameSpec) -> int:
    return stable_seed(setting.seed, "match", game.teamset, game.match)


def _open(
    setting: TournamentConfig, env: TextEnv, players: Mapping[str, Player], game: GameSpec, watch: Watch | None
) -> _Live | GameResult:
    """Begin a game; return its record as failed if its environment is lost at once."""
    began = time.perf_counter()
    match = _match(setting, game)
    task = env.tasks[match % len(env.tasks)].id
    try:
        observations, infos = env.reset(seed=match_seed(setting, game), options={"task": task})
        agents = {}
        for agent, label in zip(env.possible_agents, game.seating, strict=True):
            player, agent_seed = players[label], stable_seed(match, game.swapped, agent)
            if player.batched is not None:
                agents[agent] = _Agent(player, game_state=player.batched.begin(env, agent, agent_seed))
            elif player.begin is None:
                agents[agent] = _Agent(player, policy=player.policies[agent])
            else:
                agents[agent] = _Agent(player, choose=player.begin(env, agent, agent_seed))
        watcher = watch(env, game) if watch else None
    except EpisodeLostError as error:
        return failed(game, str(error), task, time.perf_counter() - began)
    live = _Live(game, env, task, match, agents, observations, infos, watcher)
    live.seconds = time.perf_counter() - began
    return live


def failed(game: GameSpec, why: str, task: str = "", seconds: float = 0.0) -> GameResult:
    """Make the record of a failed game, which does not count."""
    nothing = PlayerStats(0, None, 0.0)
    return GameResult(game, task, 0.5, 0, "truncated", (nothing, nothing), round(seconds, 6), why)


def _lost(live: _Live, why: str) -> GameResult:
    return failed(live.game, why, live.task, live.seconds)


def _decide(setting: TournamentConfig, live: Sequence[_Live]) -> tuple[dict[int, dict[str, str]], dict[int, str]]:
    """Query all agents that may act, in one batch per batched player, policy or shared host.

    Returns:
        By `id` of the game, agent -> text; and by `id` the reason why a game is lost.
    """
    hosts: dict[int, list[_Query]] = defaultdict(list)
    texts: dict[int, dict[str, str]] = {id(live_game): {} for live_game in live}
    lost: dict[int, str] = {}
    for live_game in live:
        for agent in live_game.env.agents:
            if not live_game.infos[agent].get("can_act", True):
                continue
            state = live_game.agents[agent]
            query = _Query(
                live_game, agent, stable_seed(live_game.seed, live_game.game.swapped, agent, live_game.turns)
            )
            state.decisions += 1
            if state.choose is not None:
                began = time.perf_counter()
                try:
                    texts[id(live_game)][agent] = state.choose(live_game.observations[agent], live_game.infos[agent])
                except EpisodeLostError as error:
                    lost[id(live_game)] = str(error)
                state.seconds += time.perf_counter() - began
            else:
                host: object = state.player.batched or getattr(state.policy, "shared_engine", state.policy)
                hosts[id(host)].append(query)
    for waiting in hosts.values():
        began = time.perf_counter()
        try:
            answers = _answers(setting, waiting)
        except EpisodeLostError as error:  # of one of them, and it is not known which
            lost |= {id(query.live): str(error) for query in waiting}
            continue
        spent = (time.perf_counter() - began) / len(waiting)
        for query, answer in zip(waiting, answers, strict=True):
            query.state.seconds += spent
            texts[id(query.live)][query.agent] = answer
    return texts, lost


def _answers(setting: TournamentConfig, waiting: Sequence[_Query]) -> list[str]:
    """Answers of one host to all its requests."""
    crowd = waiting[0].state.player.batched
    if crowd is None:
        return [answer[0].text for answer in act_batched([_request(setting, query) for query in waiting])]
    return crowd.decide(
        [
            PendingDecision(query.state.game_state, query.live.observations[query.agent], query.live.infos[query.agent])
            for query in waiting
        ]
    )


def _request(setting: TournamentConfig, query: _Query) -> tuple[Policy, Request]:
    state, env = query.state, query.live.env
    assert state.policy is not None
    fresh = env.metadata.get("conversation") == "fresh"
    conversation = state.conversation(query.live.observations[query.agent], fresh)
    return state.policy, Request(query.agent, conversation, (query.seed,), setting.sampling)


def _follow(live: _Live, answers: Mapping[str, str], step: Step) -> GameResult | None:
    """Update a game with the result of a step; return its record if it ended."""
    observations, rewards, terminations, _, infos = step
    if live.watcher:
        live.watcher.after(rewards, infos)
    fresh = live.env.metadata.get("conversation") == "fresh"
    for agent, info in infos.items():
        state = live.agents[agent]
        live.returns[agent] += rewards[agent]
        illegal = info.get("illegal")
        state.illegal = None if illegal is None or state.illegal is None else state.illegal + bool(illegal)
        if fresh or state.policy is None:
            continue
        conversation = state.conversation(live.observations[agent], fresh)
        if agent in answers:
            state.history, state.unread = (*conversation, Message("assistant", answers[agent])), ""
        else:
            state.unread = conversation[-1].content
    live.observations, live.infos = observations, infos
    live.turns += 1
    if live.env.agents and not any(info.get("unscored") for info in infos.values()):
        return None
    played = _record(live, infos, all(terminations.values()))
    if live.watcher:
        live.watcher.ended(played)
    return played


def _record(live: _Live, infos: Mapping[str, Mapping[str, Any]], terminated: bool) -> GameResult:
    one, two = live.env.possible_agents
    info: Mapping[str, Any] = next(iter(infos.values()))
    gap = info.get("metrics", {}).get("outcome", live.returns[one] - live.returns[two])
    score = 0.5 if abs(gap) < 1e-9 else float(gap > 0)  # of the first agent
    failed = next((str(i.get("reason") or "it could not be scored") for i in infos.values() if i.get("unscored")), "")
    by_label = {
        state.player.label: PlayerStats(state.decisions, state.illegal, round(1000 * state.seconds, 3))
        for state in live.agents.values()
    }
    game = live.game
    return GameResult(
        game,
        live.task,
        1 - score if game.swapped else score,
        live.turns,
        "terminated" if terminated else "truncated",
        (by_label[game.first], by_label[game.second]),
        round(live.seconds, 6),
        failed,
    )
