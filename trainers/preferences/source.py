"""Preference pairs of a config: from a file, or from judged joint actions of a team."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import palaver
from palaver.agents.base.rewards import make_reward
from palaver.agents.llm.model.options import ModelOptions
from palaver.core import ConfigError, Sampling, ScoringError, TaskError, stable_seed
from palaver.episodes import Episode, Turn, only_scored
from palaver.scoring import AnswerPair, Comparer
from palaver.trainers.config.preferences import PairsConfig, choose, some
from palaver.trainers.config.reward_model import SourceConfig
from palaver.trainers.preferences.record import PreferenceRecord, read
from palaver.trainers.rollout.episodes import SamplingPlan, rollout, text_env
from palaver.trainers.rollout.team import parse_team

MOST_FAILURES, FEWEST = 0.2, 20  # a judge that fails more often, of so many questions at least, ends the work


@dataclass(frozen=True, slots=True)
class JointActionGroup:
    """Distinct joint actions of one task, after the same observations of all agents.

    Attributes:
        task: its id.
        observations: agent -> all its observations when it acted.
        completions: (G) agent -> its completion.
        values: (G,) team return from this turn on, mean over all continuations that were played; undiscounted.
        env: name of the environment.
    """

    task: str
    observations: Mapping[str, str]
    completions: Sequence[Mapping[str, str]]
    values: Sequence[float]
    env: str = ""


def groups(episodes: Sequence[Episode]) -> list[JointActionGroup]:
    """Return every group in these episodes, at every turn; unscored episodes are left out.

    Joint actions are compared if the task, the group and all observations of the agents are equal.
    """
    scored = [episode for episode in episodes if episode.scored]
    worth = _values(scored)
    grouped: dict[tuple[object, ...], dict[tuple[tuple[str, str], ...], float]] = defaultdict(dict)
    for episode in scored:
        observations: dict[str, list[str]] = defaultdict(list)
        for turn in episode.turns:
            for agent, text in turn.observations.items():
                observations[agent] += [text] if text else []
            joint = tuple((agent, completion.text) for agent, completion in turn.completions.items())
            context = tuple((agent, "\n\n".join(observations[agent])) for agent, _ in joint)
            grouped[episode.env, episode.task, turn.group, context].setdefault(joint, worth[turn.node])
    return [
        JointActionGroup(str(task), dict(context), [dict(joint) for joint in actions], list(actions.values()), str(env))  # type: ignore[call-overload]
        for (env, task, _, context), actions in grouped.items()
    ]


def by_reward(groups: Sequence[JointActionGroup], config: PairsConfig, seed: int) -> list[PreferenceRecord]:
    """Preferences by environment reward; ties are dropped."""
    return [
        _preference(group, better, worse, group.values[better] - group.values[worse], f"env:{group.env}")
        for index, group in enumerate(groups)
        for better, worse in choose(group.values, config, stable_seed(seed, "pairs", index))
    ]


def _preference(group: JointActionGroup, better: int, worse: int, margin: float, source: str) -> PreferenceRecord:
    answers = group.completions[better], group.completions[worse]
    return PreferenceRecord(group.task, group.observations, *answers, margin=margin, source=source)


def by_judge(
    groups: Sequence[JointActionGroup], judge: Comparer, config: PairsConfig, seed: int
) -> list[PreferenceRecord]:
    """Preferences by a judge, in one batch; `margin` is 2 P(better) - 1, and ties are dropped.

    Of each group at most `config.most` pairs are judged, drawn at random; `config.select` is ignored, for the best is
    not known before.

    Raises:
        ScoringError: the judge failed too often.
    """
    questions = [
        (group, pair)
        for index, group in enumerate(groups)
        for pair in some(
            list(itertools.combinations(range(len(group.completions)), 2)),
            config.most,
            stable_seed(seed, "asked", index),
        )
    ]
    if not questions:
        return []
    joint = [_preference(group, *pair, 0.0, judge.name).to_dict() for group, pair in questions]
    pairs = [AnswerPair(one["prompt"], one["chosen"], one["rejected"]) for one in joint]
    records, failures = [], []
    for (group, (first, second)), verdict in zip(questions, judge.compare(pairs), strict=True):
        if verdict.first is None:
            failures.append(verdict.failure)
            continue
        margin = 2 * verdict.first - 1
        if margin and abs(margin) >= config.gap:
            better, worse = (first, second) if margin > 0 else (second, first)
            records.append(_preference(group, better, worse, abs(margin), judge.name))
    if len(failures) == len(questions) or (len(questions) >= FEWEST and len(failures) > MOST_FAILURES * len(questions)):
        raise ScoringError(f"{judge.name} failed on {len(failures)} of {len(questions)} pairs: {failures[0]}")
    return records


def _values(episodes: Sequence[Episode]) -> dict[str, float]:
    """Node -> undiscounted team return: its team reward plus the mean value of its children."""
    turns: dict[str, Turn] = {turn.node: turn for episode in episodes for turn in episode.turns}
    children: dict[str, list[float]] = defaultdict(list)
    worth: dict[str, float] = {}
    for turn in sorted(turns.values(), key=lambda turn: -turn.index):
        worth[turn.node] = turn.team_reward + (fmean(children[turn.node]) if children[turn.node] else 0.0)
        if turn.parent:
            children[turn.parent].append(worth[turn.node])
    return worth


Note = Callable[[str], None]


def check(config: SourceConfig) -> str:
    """Check what `gather` needs without loading models; return a summary of the work.

    Raises:
        ConfigError: an unknown environment, or a judge that cannot compare.
        TaskError: the tasks or the file cannot be read.
    """
    if config.file:
        return f"{len(read(config.file)):,} pairs in {config.file}"
    env = text_env(config.env.id, config.env.keywords())
    who = _judge(config.judge).name if config.judge else "the environment's reward"
    n = len(env.tasks) * config.rounds
    return f"{n:,} groups of {config.group_size} joint actions of {config.env.id}, compared by {who}"


def gather(config: SourceConfig, seed: int, device: str, note: Note = lambda _: None) -> list[PreferenceRecord]:
    """Gather the pairs of a config.

    Args:
        config: source of the pairs.
        seed: seed of the draws.
        device: device of the team's models.
        note: called with each message for the user.

    Raises:
        TaskError: the file or the tasks cannot be read, or there is no pair of unequal worth.
        PolicyError: the team cannot be loaded.
        ScoringError: nothing could be scored, or the judge failed too often.
    """
    if config.file:
        return read(config.file)
    joint_groups = groups(play(config, seed, device, note))
    judge = _judge(config.judge) if config.judge else None
    pairs = by_reward(joint_groups, config, seed) if judge is None else by_judge(joint_groups, judge, config, seed)
    if not pairs:
        raise TaskError(
            f"none of {len(joint_groups)} groups holds two joint actions of different worth; raise pairs.group_size, "
            "or lower pairs.gap"
        )
    return pairs


def play(config: SourceConfig, seed: int, device: str, note: Note = lambda _: None) -> list[Episode]:
    """Play the episodes to compare: `rounds` groups of every task."""
    env = text_env(config.env.id, config.env.keywords())
    options = ModelOptions(device=device)
    team = parse_team(config.team, palaver.spec(config.env.id), env.possible_agents, options, env.source, note=note)
    how = Sampling(config.temperature, config.top_p, config.top_k, config.max_tokens)
    episodes = []
    for round_index in range(config.rounds):
        played = rollout(
            env,
            team,
            [task.id for task in env.tasks],
            SamplingPlan(config.group_size),
            sampling=dict.fromkeys(env.possible_agents, how),
            seed=stable_seed(seed, "pairs", round_index),
        )
        episodes += [_of_round(episode, round_index) for episode in played]
    return only_scored(episodes, "that were to be compared")


def _of_round(episode: Episode, round_index: int) -> Episode:
    """Rename the nodes and groups of an episode uniquely for its round."""
    turns = [
        replace(
            turn,
            node=f"{round_index}:{turn.node}",
            parent=turn.parent and f"{round_index}:{turn.parent}",
            group=f"{round_index}:{turn.group}",
        )
        for turn in episode.turns
    ]
    return replace(episode, turns=tuple(turns))


def _judge(name: str) -> Comparer:
    judge = make_reward(name)
    if not isinstance(judge, Comparer):
        raise ConfigError(f"{name!r} scores single answers and compares none; name a judge as judge:SPEC")
    return judge
