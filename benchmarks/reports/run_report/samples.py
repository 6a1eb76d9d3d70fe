"""Samples of a run as plain data for the page: the same tasks before and after, by turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from palaver.benchmarks.reports.frames import FrameRenderer, Frames
from palaver.benchmarks.reports.run_folder import RunFolder
from palaver.benchmarks.reports.summary import score
from palaver.core import Episode, Turn
from palaver.text import clean, one_line

TEXT_LIMIT = 8_000


@dataclass(frozen=True)
class RewardBar:
    """Reward component and the length of its bar, in per cent of the largest on its card."""

    name: str
    value: float
    width: float


@dataclass(frozen=True)
class CompletionView:
    """One completion: agent, text, length in words, and the executed action if it differs."""

    agent: str
    text: str
    words: int
    cut: bool
    executed: str = ""


@dataclass(frozen=True)
class TurnView:
    """One turn: new observations, completions, reward and its reason, components, metrics."""

    number: int
    shown: list[tuple[str, str]]
    completions: list[CompletionView]
    reward: float
    rewards: list[tuple[str, list[RewardBar]]]
    metrics: list[tuple[str, float]]
    reason: str


@dataclass(frozen=True)
class Side:
    """One episode on one side of a card."""

    step: int
    total: float
    turns: list[TurnView]
    film: Frames | None


@dataclass(frozen=True)
class TaskSample:
    """One task before and after."""

    task: str
    before: Side | None
    after: Side | None

    @property
    def prompts(self) -> list[tuple[str, str]]:
        """Initial observations of the agents."""
        side = self.before or self.after
        return side.turns[0].shown if side and side.turns else []


def samples(run: RunFolder, n: int, camera: FrameRenderer) -> list[TaskSample]:
    """First episodes of the first `n` evaluation tasks, before and after.

    They are not selected by reward.
    """
    evaluation = score(run)
    start = evaluation.before.step if evaluation.before else 0
    before = _first_of_each(run.episodes(start))
    after = _first_of_each(run.episodes(evaluation.after.step)) if evaluation.after else {}
    cards = []
    for task in list(dict.fromkeys([*before, *after]))[:n]:
        pair = [episode for episode in (before.get(task), after.get(task)) if episode]
        scale = max((abs(value) for episode in pair for value in _values(episode)), default=0.0) or 1.0
        cards.append(
            TaskSample(
                one_line(task, 120),
                _side(before.get(task), start, scale, camera),
                _side(after.get(task), evaluation.after.step if evaluation.after else 0, scale, camera),
            )
        )
    return cards


def _first_of_each(episodes: list[Episode]) -> dict[str, Episode]:
    first: dict[str, Episode] = {}
    for episode in episodes:
        first.setdefault(str(episode.task), episode)
    return first


def _values(episode: Episode) -> list[float]:
    parts = (value for turn in episode.turns for rewards in turn.components.values() for value in rewards.values())
    return [float(value) for value in parts if isfinite(value)]


def _side(episode: Episode | None, step: int, scale: float, camera: FrameRenderer) -> Side | None:
    if episode is None:
        return None
    turns = [_turn(turn, scale) for turn in episode.turns]
    return Side(step, episode.team_return(), turns, camera.film(episode))


def _turn(turn: Turn, scale: float) -> TurnView:
    answers = [
        CompletionView(
            one_line(agent, 40),
            clean(u.text, TEXT_LIMIT),
            len(u.text.split()),
            u.finish == "length",
            _taken_for(turn, agent),
        )
        for agent, u in turn.completions.items()
    ]
    observations = [(one_line(agent, 40), clean(text)) for agent, text in turn.observations.items()]
    metrics = [(one_line(name, 40), float(value)) for name, value in turn.metrics.items()]
    reason = one_line(turn.reason, 400)
    return TurnView(turn.index + 1, observations, answers, turn.team_reward, _reward_bars(turn, scale), metrics, reason)


def _taken_for(turn: Turn, agent: str) -> str:
    executed = turn.executed.get(agent, "")
    return "" if executed == turn.completions[agent].text.strip() else one_line(executed, 200)


def _reward_bars(turn: Turn, scale: float) -> list[tuple[str, list[RewardBar]]]:
    """Reward components by agent; one entry without a name if all agents have the same."""
    components = {agent: dict(parts) for agent, parts in turn.components.items()}
    every = list(components.values())
    if every and all(parts == every[0] for parts in every):
        return [("", _bars(every[0], scale))]
    return [(one_line(agent, 40), _bars(parts, scale)) for agent, parts in components.items()]


def _bars(parts: Mapping[str, float], scale: float) -> list[RewardBar]:
    return [
        RewardBar(one_line(name, 40), float(value), min(100.0, 100 * abs(value) / scale) if isfinite(value) else 0.0)
        for name, value in parts.items()
    ]
