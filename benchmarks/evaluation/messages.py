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
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from palaver.agents.base.policy import Policy
from palaver.agents.llm.model.options import ModelOptions
from palaver.benchmarks.evaluation.rescore import source
from palaver.core import ConfigError, Message, Request, Sampling, stable_seed
from palaver.envs.base.env import Step, TextEnv
from palaver.envs.base.questions import truth_of, words_of
from palaver.episodes import Episode, only_scored
from palaver.registry import spec
from palaver.text import one_line
from palaver.trainers.rollout.branches import Branch, Joint, first_joint
from palaver.trainers.rollout.episodes import EpisodeRunner, Queries, StepAll, complete, ready_env, record, starts
from palaver.trainers.rollout.team import parse_team
from palaver.utils.stats.intervals import over_tasks

Place = tuple[int, int, str]  # episode, turn, agent
FEWEST = 2  # letters of a text that can be recognised in an observation


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


@dataclass(frozen=True)
class Players:
    """A team in an environment.

    Attributes:
        env: is forked.
        team: agent -> its policy.
        sampling: agent -> how it samples.
        tasks: ids of the tasks.
        seed: of every draw.
    """

    env: TextEnv
    team: Mapping[str, Policy]
    sampling: Mapping[str, Sampling]
    tasks: Sequence[str]
    seed: int = 0


@dataclass(frozen=True)
class _Played:
    """Episodes of a condition, and facts of single agents in them: (episode, holder, words)."""

    episodes: list[Episode]
    facts: frozenset[tuple[int, str, tuple[str, ...]]]


def of_run(folder: Path, tasks: int, seed: int) -> MessageWorth:
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


def of_episodes(file: Path, team: str, tasks: int, seed: int) -> MessageWorth:
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
    drawn = Sampling(**row.sampling) if row is not None and "temperature" in row.sampling else Sampling()
    ids = list(dict.fromkeys(episode.task for episode in stored.episodes))[:tasks]
    return measure(Players(env, made, dict.fromkeys(env.possible_agents, drawn), ids, seed), stored.env)


def measure(players: Players, env: str) -> MessageWorth:
    """Play all conditions and compare them.

    Raises:
        ConfigError: the agents compete, so that the team's return has no meaning, or there are fewer than two tasks.
        ScoringError: nothing could be scored.
    """
    if players.env.competitive:
        raise ConfigError(f"the agents of {env} compete: what one gains by a message another loses")
    if len(players.tasks) < 2:
        raise ConfigError("shuffled messages come from another task: analyse two tasks or more")
    plain = _play(players, {})
    only_scored(plain.episodes, "of the analysis")
    sent = _messages(plain.episodes)
    agents = players.env.possible_agents
    silenced = {a: _play(players, {place: "" for place in sent if place[2] == a}) for a in agents}
    conditions = {
        "removed": _play(players, dict.fromkeys(sent, "")),
        "shuffled": _play(players, _shuffled(sent, len(plain.episodes))),
        **{f"silenced/{agent}": played for agent, played in silenced.items()},
    }
    mean = float(np.mean([episode.team_return() for episode in plain.episodes]))
    spent = float(np.mean([_spent(episode) for episode in plain.episodes]))
    changed = {a: {b: _changed(plain, silenced[a], a, b, sent) for b in agents if b != a} for a in agents}
    return MessageWorth(
        env,
        len(plain.episodes),
        mean,
        len(sent) / len(plain.episodes),
        spent,
        100 * mean / spent if spent else 0.0,
        {name: _effect(plain, played) for name, played in conditions.items()},
        {a: {b: float(np.mean(flags)) if flags else 0.0 for b, flags in row.items()} for a, row in changed.items()},
        _facts(plain, silenced, sent),
    )


def _play(players: Players, edits: Mapping[Place, str]) -> _Played:
    """Play every task once, with other texts in some places."""
    own: dict[str, dict[str, str]] = {}  # node -> agent -> the text that it keeps in its conversation
    facts: set[tuple[int, str, tuple[str, ...]]] = set()

    def queries(branch: Branch) -> Queries:
        for agent in branch.env.agents:
            if branch.can_act(agent):
                seeds = (stable_seed(players.seed, branch.root, len(branch.turns), agent),)
                legal = branch.legal_actions(agent)
                request = Request(agent, branch.conversations[agent], seeds, players.sampling[agent], (), legal)
                yield players.team[branch.role(agent, players.team)], request

    def play_turn(live: list[Branch], step_together: StepAll) -> list[Branch]:
        joints = []
        for branch, candidates in zip(live, complete(live, queries), strict=True):
            facts.update((int(branch.root), *fact) for fact in _held(branch.env))
            joint = first_joint(branch, candidates)
            places = {agent: (int(branch.root), len(branch.turns), agent) for agent in joint.completions}
            own[joint.node] = {a: c.text for a, c in joint.completions.items() if places[a] in edits}
            texts = {a: replace(c, text=edits.get(places[a], c.text)) for a, c in joint.completions.items()}
            joints.append(replace(joint, completions=texts))
        return step_together(joints)

    ends = EpisodeRunner(play_turn, partial(_keeping, own=own)).run_all(
        starts(players.env, players.tasks, players.seed)
    )
    names = {agent: policy.name for agent, policy in players.team.items()}
    return _Played([record(branch, names) for branch in ends], frozenset(facts))


def _keeping(joint: Joint, _step: Step, branch: Branch, own: Mapping[str, Mapping[str, str]]) -> Branch:
    """Put the texts that agents wrote back into their conversations, and into the record."""
    kept = own[joint.node]
    if not kept:
        return branch
    conversations = dict(branch.conversations)
    for agent, text in kept.items():
        past = list(conversations[agent])
        for n in range(len(past) - 1, -1, -1):
            if past[n].role == "assistant":
                past[n] = Message("assistant", text)
                break
        conversations[agent] = tuple(past)
    last = branch.turns[-1]
    texts = {a: replace(c, text=kept.get(a, c.text)) for a, c in last.completions.items()}
    return replace(branch, conversations=conversations, turns=(*branch.turns[:-1], replace(last, completions=texts)))


def _held(env: TextEnv) -> list[tuple[str, tuple[str, ...]]]:
    """Holder and words of each fact that the environment would ask for now."""
    asked = [question for agent in env.agents for question in env.questions(agent, {})]
    return [
        (question.about, tuple(sorted(truth_of(question).weights)))
        for question in asked
        if question.kind == "slots" and question.truth is not None and not question.options
    ]


def _messages(episodes: Sequence[Episode]) -> dict[Place, str]:
    """Completions that another agent's next observation holds."""
    sent: dict[Place, str] = {}
    for index, episode in enumerate(episodes):
        for turn, following in zip(episode.turns, episode.turns[1:], strict=False):
            for agent, completion in turn.completions.items():
                text = one_line(completion.text)
                read = (one_line(seen, 100_000) for other, seen in following.observations.items() if other != agent)
                if len(text) >= FEWEST and any(text in seen for seen in read):
                    sent[index, turn.index, agent] = completion.text
    return sent


def _shuffled(sent: Mapping[Place, str], count: int) -> dict[Place, str]:
    """Each message replaced by that of the next episode that has one of the same agent and turn."""
    found = {}
    for episode, turn, agent in sent:
        others = ((episode + shift) % count for shift in range(1, count))
        found[episode, turn, agent] = next((sent[n, turn, agent] for n in others if (n, turn, agent) in sent), "")
    return found


def _effect(plain: _Played, played: _Played) -> Effect:
    """Compare two conditions task by task, episodes without a score in either left out."""
    pairs = [
        (a.team_return(), b.team_return())
        for a, b in zip(plain.episodes, played.episodes, strict=True)
        if a.scored and b.scored
    ]
    before, after = np.array(pairs).T
    low, high = over_tasks(after - before)
    return Effect(float(after.mean()), float((after - before).mean()), low, high)


def _changed(plain: _Played, other: _Played, sender: str, receiver: str, sent: Mapping[Place, Any]) -> list[bool]:
    """Return by episode with a message of the sender if the receiver's later texts differ."""
    first: dict[int, int] = {}
    for episode, turn, agent in sent:
        if agent == sender:
            first[episode] = min(turn, first.get(episode, turn))
    return [
        _texts_after(plain.episodes[n], receiver, turn) != _texts_after(other.episodes[n], receiver, turn)
        for n, turn in first.items()
    ]


def _texts_after(episode: Episode, agent: str, turn: int) -> list[str]:
    return [later.completions[agent].text for later in episode.turns[turn + 1 :] if agent in later.completions]


def _facts(plain: _Played, silenced: Mapping[str, _Played], sent: Mapping[Place, str]) -> Facts | None:
    """Shares of the facts that were sent, and that made a difference."""
    if not plain.facts:
        return None
    written: dict[tuple[int, str], set[str]] = {}
    for (episode, _, agent), text in sent.items():
        written.setdefault((episode, agent), set()).update(words_of(text))
    named = [fact for fact in plain.facts if set(fact[2]) <= written.get(fact[:2], set())]
    used = 0
    for episode, holder, _ in named:
        pair = plain.episodes[episode], silenced[holder].episodes[episode]
        texts = [[{a: c.text for a, c in t.completions.items() if a != holder} for t in e.turns] for e in pair]
        used += texts[0] != texts[1]
    return Facts(len(plain.facts), len(named) / len(plain.facts), used / len(named) if named else 0.0)


def _spent(episode: Episode) -> float:
    """Sampled tokens of an episode; words of policies without tokens."""
    answers = [completion for turn in episode.turns for completion in turn.completions.values()]
    return float(sum(answer.sampled_tokens or len(answer.text.split()) for answer in answers))
