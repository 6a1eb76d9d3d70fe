"""Worth of the messages of a team: what changes when they are removed, shuffled or silenced.

Episodes are played once as they are and again with the same tasks, seeds and random numbers, but with other texts in
place of messages. A message is a completion that another agent's next observation holds word for word. Its sender keeps
its own text in its conversation, so that only the others are affected:

* `removed`: all messages are empty;
* `shuffled`: each message is that of the same agent and turn in an episode of another task;
* `silenced/AGENT`: the messages of one agent are empty.

The difference of the team's return is taken task by task, so that its interval is of paired values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import TypeAdapter

from palaver.agents.llm.model.options import ModelOptions
from palaver.benchmarks.evaluation.interventions import (
    Place,
    Played,
    Players,
    messages_of,
    play,
    readers_of,
    shuffled,
)
from palaver.benchmarks.evaluation.rescore import source
from palaver.core import ConfigError, Sampling
from palaver.envs.base.questions import words_of
from palaver.episodes import Episode, only_scored
from palaver.registry import spec
from palaver.trainers.rollout.episodes import ready_env
from palaver.trainers.rollout.team import parse_team
from palaver.utils.stats.intervals import over_tasks


@dataclass(frozen=True)
class Effect:
    """Return of the team under an intervention, less that without it.

    Attributes:
        mean: mean return with the intervention.
        difference: mean over tasks of the return with it less that without.
        low: lower end of the 95 % bootstrap interval of the difference over tasks; None for one task.
        high: upper end.
    """

    mean: float
    difference: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Facts:
    """Facts that one agent alone has, as the environment asks for them.

    Attributes:
        n: facts of all episodes.
        sent: share that a message of their holder names.
        used: share of the sent ones whose holder's silence changes what another agent does.
    """

    n: int
    sent: float
    used: float


@dataclass(frozen=True)
class SentMessage:
    """A message of one episode.

    Attributes:
        turn: index of its turn.
        agent: sender.
        readers: agents whose next observation holds it.
        facts: words of each fact of the sender alone that it names.
    """

    turn: int
    agent: str
    readers: tuple[str, ...]
    facts: tuple[str, ...] = ()


@dataclass(frozen=True)
class EpisodeMessages:
    """Messages of one episode, and what changes without them.

    Attributes:
        returns: intervention -> the team's return under it less that of the episode; not of what has no score.
        changed: sender -> agents whose later texts change when it is silenced.
        messages: in order.
    """

    returns: Mapping[str, float]
    changed: Mapping[str, tuple[str, ...]]
    messages: tuple[SentMessage, ...]


@dataclass(frozen=True)
class MessageWorth:
    """Table of an analysis.

    Attributes:
        env: id of the environment.
        episodes: number of episodes of each condition.
        mean: mean return of the team as it is.
        messages: mean number of messages of an episode.
        tokens: mean tokens of an episode, words for policies without tokens.
        return_per_100_tokens: the mean return over these, times 100.
        effects: intervention -> its effect.
        influence: sender -> receiver -> share of the receiver's later texts that change when the sender is silenced.
        facts: None if the environment has no questions about what agents hold.
        each: messages of every episode, in the order of the tasks.
    """

    env: str
    episodes: int
    mean: float
    messages: float
    tokens: float
    return_per_100_tokens: float
    effects: Mapping[str, Effect] = field(default_factory=dict)
    influence: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    facts: Facts | None = None
    each: tuple[EpisodeMessages, ...] = ()


class Analysis(NamedTuple):
    """An analysis: its table, and the episodes of the team as it is."""

    worth: MessageWorth
    episodes: list[Episode]


def of_run(folder: Path, tasks: int, seed: int) -> Analysis:
    """Worth of a team's messages, at its run's latest valid checkpoint, on held-out tasks.

    Raises:
        CheckpointError, ConfigError, TaskError, PolicyError: as `palaver.trainers.train.restore`.
    """
    from palaver.trainers.train import restore

    run = restore(folder)
    env = ready_env(run.config.env.id, run.config.env.keywords(run.config.eval.tasks))
    return measure(
        Players(env, run.team, run.sampling, [task.id for task in env.tasks][:tasks], seed), spec(run.config.env.id).id
    )


def of_episodes(file: Path, team: str, tasks: int, seed: int) -> Analysis:
    """Worth of the messages of the team of stored episodes, on their tasks.

    Args:
        file: a row, or its episodes.
        team: as `--team` names it; "" for that of the row.
        tasks: at most so many.
        seed: of every draw.

    Raises:
        ConfigError: there is no row, and no team was named.
        PolicyError: the team cannot be made.
    """
    stored = source(file)
    row = stored.row
    if not team and row is None:
        raise ConfigError(f"{str(file)!r} does not say how to make its team again: name it with --team")
    env = ready_env(stored.env, stored.keywords or {})
    names = team or (row.team if row is not None else "")
    made = parse_team(names, spec(stored.env), env.possible_agents, ModelOptions(), env.source, False)
    stated = {} if row is None else row.sampling  # of all agents, and under their names of those that differ
    read = TypeAdapter(Sampling).validate_python
    sampling = {agent: read(stated.get(agent, stated)) for agent in env.possible_agents}
    ids = list(dict.fromkeys(episode.task for episode in stored.episodes))[:tasks]
    return measure(Players(env, made, sampling, ids, seed), stored.env)


def measure(players: Players, env: str) -> Analysis:
    """Play all conditions and compare them.

    Raises:
        ConfigError: the agents compete, so that the team's return has no meaning, or there are fewer than two tasks.
        ScoringError: nothing could be scored.
    """
    if players.env.competitive:
        raise ConfigError(f"the agents of {env} compete: what one gains by a message another loses")
    if len(players.tasks) < 2:
        raise ConfigError("shuffled messages come from another task: analyse two tasks or more")
    plain = play(players, {})
    only_scored(plain.episodes, "of the analysis")
    sent = messages_of(plain.episodes)
    agents = players.env.possible_agents
    conditions = {
        "removed": play(players, dict.fromkeys(sent, "")),
        "shuffled": play(players, shuffled(sent, len(plain.episodes))),
        **{f"silenced/{a}": play(players, {place: "" for place in sent if place[2] == a}) for a in agents},
    }
    mean = float(np.mean([episode.team_return() for episode in plain.episodes]))
    spent = float(np.mean([_spent(episode) for episode in plain.episodes]))
    each = tuple(_single(n, plain, conditions, sent) for n in range(len(plain.episodes)))
    worth = MessageWorth(
        env,
        len(plain.episodes),
        mean,
        len(sent) / len(plain.episodes),
        spent,
        100 * mean / spent if spent else 0.0,
        {name: _effect(plain, played) for name, played in conditions.items()},
        {a: {b: _influence(each, a, b) for b in agents if b != a} for a in agents},
        _facts(plain, each, sent),
        each,
    )
    return Analysis(worth, plain.episodes)


def _effect(plain: Played, played: Played) -> Effect:
    """Compare two conditions task by task, episodes without a score in either left out."""
    pairs = [
        (a.team_return(), b.team_return())
        for a, b in zip(plain.episodes, played.episodes, strict=True)
        if a.scored and b.scored
    ]
    before, after = np.array(pairs).T
    low, high = over_tasks(after - before)
    return Effect(float(after.mean()), float((after - before).mean()), low, high)


def _single(index: int, plain: Played, conditions: Mapping[str, Played], sent: Mapping[Place, str]) -> EpisodeMessages:
    """Messages of one episode, and how it differs from the same episode under the interventions."""
    episode = plain.episodes[index]
    others = {name: played.episodes[index] for name, played in conditions.items()}
    known = sorted((holder, words) for n, holder, words in plain.facts if n == index)
    own = [(turn, agent, text) for (n, turn, agent), text in sent.items() if n == index]
    listed = []
    for turn, agent, text in own:
        read, named = set(words_of(text)), tuple(readers_of(text, agent, episode.turns[turn + 1].observations))
        facts = tuple(" ".join(words) for holder, words in known if holder == agent and set(words) <= read)
        listed.append(SentMessage(turn, agent, named, facts))
    first = {agent: turn for turn, agent, _ in reversed(own)}
    return EpisodeMessages(
        {n: o.team_return() - episode.team_return() for n, o in others.items() if o.scored and episode.scored},
        {a: _affected(episode, others[f"silenced/{a}"], a, turn) for a, turn in first.items()},
        tuple(listed),
    )


def _affected(episode: Episode, other: Episode, sender: str, turn: int) -> tuple[str, ...]:
    """Agents, the sender apart, whose texts after a turn are not the same in two episodes."""
    agents = [agent for agent in episode.team if agent != sender]
    return tuple(agent for agent in agents if _texts_after(episode, agent, turn) != _texts_after(other, agent, turn))


def _influence(each: Sequence[EpisodeMessages], sender: str, receiver: str) -> float:
    """Share of the sender's episodes in which the receiver's later texts change without it."""
    flags = [receiver in one.changed[sender] for one in each if sender in one.changed]
    return float(np.mean(flags)) if flags else 0.0


def _texts_after(episode: Episode, agent: str, turn: int) -> list[str]:
    return [later.completions[agent].text for later in episode.turns[turn + 1 :] if agent in later.completions]


def _facts(plain: Played, each: Sequence[EpisodeMessages], sent: Mapping[Place, str]) -> Facts | None:
    """Shares of the facts that were sent, and that made a difference."""
    if not plain.facts:
        return None
    written: dict[tuple[int, str], set[str]] = {}
    for (episode, _, agent), text in sent.items():
        written.setdefault((episode, agent), set()).update(words_of(text))
    named = [fact for fact in plain.facts if set(fact[2]) <= written.get(fact[:2], set())]
    used = sum(bool(each[episode].changed[holder]) for episode, holder, _ in named)
    return Facts(len(plain.facts), len(named) / len(plain.facts), used / len(named) if named else 0.0)


def _spent(episode: Episode) -> float:
    """Sampled tokens of an episode; words of policies without tokens."""
    answers = [completion for turn in episode.turns for completion in turn.completions.values()]
    return float(sum(answer.sampled_tokens or len(answer.text.split()) for answer in answers))
