"""Groups of joint actions on one prompt, and preferences among them. Free of torch."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from palaver.core import Episode, ScoringError, Turn, stable_seed
from palaver.scoring import AnswerPair, Comparer
from palaver.trainers.config.preferences import PairsConfig, choose, some
from palaver.trainers.preferences.record import PreferenceRecord

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
    records = []
    for index, group in enumerate(groups):
        for better, worse in choose(group.values, config, stable_seed(seed, "pairs", index)):
            margin = group.values[better] - group.values[worse]
            answers = group.completions[better], group.completions[worse]
            records.append(
                PreferenceRecord(group.task, group.observations, *answers, margin=margin, source=f"env:{group.env}")
            )
    return records


def by_judge(
    groups: Sequence[JointActionGroup], judge: Comparer, config: PairsConfig, seed: int
) -> list[PreferenceRecord]:
    """Preferences by a judge, in one batch; `margin` is 2 P(better) - 1, and ties are dropped.

    Of each group at most `config.most` pairs are judged, drawn at random; `config.select` is ignored, for the best is
    not known before.

    Raises:
        ScoringError: the judge failed too often.
    """
    questions = [(group, pair) for index, group in enumerate(groups) for pair in _drawn(group, config, seed, index)]
    if not questions:
        return []
    pairs = []
    for group, (first, second) in questions:
        one = PreferenceRecord(
            group.task, group.observations, group.completions[first], group.completions[second]
        ).to_dict()
        pairs.append(AnswerPair(one["prompt"], one["chosen"], one["rejected"]))
    records, failures = [], []
    for (group, (first, second)), verdict in zip(questions, judge.compare(pairs), strict=True):
        if verdict.first is None:
            failures.append(verdict.failure)
            continue
        margin = 2 * verdict.first - 1
        if margin and abs(margin) >= config.gap:
            better, worse = (first, second) if margin > 0 else (second, first)
            answers = group.completions[better], group.completions[worse]
            records.append(
                PreferenceRecord(group.task, group.observations, *answers, margin=abs(margin), source=judge.name)
            )
    if len(failures) == len(questions) or (len(questions) >= FEWEST and len(failures) > MOST_FAILURES * len(questions)):
        raise ScoringError(f"{judge.name} failed on {len(failures)} of {len(questions)} pairs: {failures[0]}")
    return records


def _drawn(group: JointActionGroup, config: PairsConfig, seed: int, index: int) -> list[tuple[int, int]]:
    pairs = list(itertools.combinations(range(len(group.completions)), 2))
    return some(pairs, config.most, stable_seed(seed, "asked", index))


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
