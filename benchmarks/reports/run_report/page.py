"""Report of a run on one page: configuration, improvement, samples, reproduction commands.

`write` makes `report.html` (a single static file: no script, nothing loaded from elsewhere) and `curve.png` in the run
folder, and `episodes.html` with all episodes. Model text is untrusted: the template escapes everything, unsafe
characters are replaced, and the page forbids scripts by its own content policy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from palaver.benchmarks.reports import html as pages
from palaver.benchmarks.reports.charts import Chart, Draw, Drawing, save_figure
from palaver.benchmarks.reports.frames import FrameRenderer, Frames, frame_renderer
from palaver.benchmarks.reports.run_folder import RunFolder, read
from palaver.benchmarks.reports.run_report import curves
from palaver.benchmarks.reports.run_report.conventions import conventions
from palaver.benchmarks.reports.run_report.league import league, nash_conv
from palaver.benchmarks.reports.run_report.messages import messages
from palaver.benchmarks.reports.summary import (
    comparison,
    interval,
    key_figures,
    last_time,
    made_with,
    max_reward,
    reproduce,
    score,
    status,
)
from palaver.benchmarks.viewer import page as viewer
from palaver.benchmarks.viewer.album import taken_for
from palaver.episodes import Episode, Turn
from palaver.text import clean, one_line
from palaver.utils.run_folder import replace_text, writing
from palaver.utils.tool_calls import transcript

HERE = Path(__file__).resolve().parent
REPORT, CURVE = "report.html", "curve.png"
COMPARISON, CURVES = "comparison.html", "comparison.png"


def write(run: RunFolder | Path | str, n_samples: int = 4, out: Path | None = None) -> Path:
    """Write `report.html`, `curve.png` and `episodes.html`; return the first.

    Args:
        run: or its folder.
        n_samples: tasks shown before and after training.
        out: folder of the files; None: that of the run.

    Raises:
        CheckpointError: the folder is not a run folder.
        ConfigError: the files cannot be written.
    """
    run = run if isinstance(run, RunFolder) else read(run)
    out = out or run.folder
    with writing(out):
        viewed = viewer.write(run, out / viewer.PAGE, viewer.Choices(pictures=2 * n_samples))
        curves.write_png(run, out / CURVE, max_reward(run), _title(run))
        return _save(out / REPORT, "report.html.j2", page(run, n_samples, viewed))


def compare(runs: Sequence[RunFolder], out: Path) -> Path:
    """Write a page and a picture of several runs' curves into `out`, not into the runs.

    Runs of different environments are drawn on axes of their own. Returns the path of the page.
    """
    names = _names([run.folder.resolve() for run in runs])
    out.mkdir(parents=True, exist_ok=True)
    overlays = _overlays(runs, names)

    def draw(*charts: Chart) -> None:
        for chart, one in zip(charts, overlays, strict=True):
            one(chart)

    save_figure(out / CURVES, "", (9, 4.2 * len(overlays)), draw, layout=[[row] for row in range(len(overlays))])
    rows = [
        (name, run, score(run), status(run), last_time(run, "wall_s")) for name, run in zip(names, runs, strict=True)
    ]
    figures = [
        Drawing("Reward of several runs", "", (10, 4), one).svg(f"comparison{row}") for row, one in enumerate(overlays)
    ]
    return _save(out / COMPARISON, "comparison.html.j2", {"rows": rows, "curves": figures})


def _overlays(runs: Sequence[RunFolder], names: Sequence[str]) -> list[Draw]:
    """One drawing for each environment with its keywords; runs without a config are apart."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index, run in enumerate(runs):
        env = run.config.env if run.config else None
        keywords = json.dumps(env.model_extra, sort_keys=True, default=str) if env else ""
        groups.setdefault((env.id if env else "an unknown environment", keywords), []).append(index)
    several = len(groups) > 1
    return [
        partial(
            curves.draw_comparison,
            runs=[runs[index] for index in members],
            names=[names[index] for index in members],
            env=env if several else "",
        )
        for (env, _), members in groups.items()
    ]


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the folders' names, or if two are equal their paths relative to the common parent."""
    names = [folder.name for folder in folders]
    if len(set(names)) == len(set(folders)):
        return names
    common = os.path.commonpath([folder.parent for folder in folders])
    return [str(folder.relative_to(common)) for folder in folders]


def page(run: RunFolder, n_samples: int, viewed: viewer.WrittenPage) -> dict[str, Any]:
    """Values for the template."""
    max_return = max_reward(run)
    drawing = frame_renderer(run)
    return {
        "run": run,
        "title": one_line(run.name, 80),
        "status": status(run),
        "score": score(run),
        "limit": max_return,
        "figures": key_figures(run),
        "curve": curves.reward(run, max_return).svg("reward") if run.train or run.evals else None,
        "shares": curves.share_panels(run),
        "league": league(run),
        "conventions": conventions(run),
        "messages": messages(run),
        "panels": curves.panels(run),
        "measured": curves.measured(run),
        "tables": comparison(run),
        "samples": samples(run, n_samples, drawing),
        "viewed": viewed,
        "not_drawn": drawing.notes,
        "config_text": clean(run.config_text),
        "made_with": made_with(run),
        "reproduce": [clean(line) for line in reproduce(run)],
    }


def _title(run: RunFolder) -> str:
    exact, evaluation = nash_conv(run), score(run)
    if len(exact) > 1:
        return f"{run.name}: NashConv {exact[0][1]:.2f} → {exact[-1][1]:.2f} in {exact[-1][0]} steps"
    if evaluation.before and evaluation.after:
        return (
            f"{run.name}: {evaluation.before.mean:.2f} → {evaluation.after.mean:.2f} in {evaluation.after.step} steps"
        )
    return f"{run.name}: {run.step} steps"


def _save(path: Path, template: str, values: dict[str, Any]) -> Path:
    text = pages.render(HERE, template, values, {"interval": lambda point: interval(point.low, point.high, 2)})
    replace_text(path, text)
    return path


TEXT_LIMIT = 8_000


@dataclass(frozen=True)
class Side:
    """One episode on one side of a card."""

    step: int
    total: float
    turns: list[dict[str, Any]]
    film: Frames | None


@dataclass(frozen=True)
class TaskSample:
    """One task before and after."""

    task: str
    before: Side | None
    after: Side | None

    @property
    def prompts(self) -> Any:
        """Initial observations of the agents."""
        side = self.before or self.after
        return side.turns[0]["shown"] if side and side.turns else []


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
        turns = [turn for episode in (before.get(task), after.get(task)) if episode for turn in episode.turns]
        parts = (value for turn in turns for rewards in turn.components.values() for value in rewards.values())
        scale = max((abs(float(value)) for value in parts if isfinite(value)), default=0.0) or 1.0
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


def _side(episode: Episode | None, step: int, scale: float, camera: FrameRenderer) -> Side | None:
    if episode is None:
        return None
    return Side(step, episode.team_return(), [_turn(turn, scale) for turn in episode.turns], camera.film(episode))


def _turn(turn: Turn, scale: float) -> dict[str, Any]:
    """One turn: new observations, completions, reward and its reason, components, metrics."""
    return {
        "number": turn.index + 1,
        "shown": [(one_line(agent, 40), clean(text)) for agent, text in turn.observations.items()],
        "completions": [
            {
                "agent": one_line(agent, 40),
                "text": clean(transcript(completion), TEXT_LIMIT),
                "words": len(completion.text.split()),
                "cut": completion.finish == "length",
                "executed": taken_for(turn, agent),
            }
            for agent, completion in turn.completions.items()
        ],
        "reward": turn.team_reward,
        "rewards": _reward_bars(turn, scale),
        "metrics": [(one_line(name, 40), float(value)) for name, value in turn.metrics.items()],
        "reason": one_line(turn.reason, 400),
    }


def _reward_bars(turn: Turn, scale: float) -> list[tuple[str, list[dict[str, Any]]]]:
    """Reward components by agent; one entry without a name if all agents have the same."""
    components = {agent: dict(parts) for agent, parts in turn.components.items()}
    every = list(components.values())
    if every and all(parts == every[0] for parts in every):
        return [("", _bars(every[0], scale))]
    return [(one_line(agent, 40), _bars(parts, scale)) for agent, parts in components.items()]


def _bars(parts: Mapping[str, float], scale: float) -> list[dict[str, Any]]:
    """Reward components with the lengths of their bars, in per cent of the card's largest."""
    return [
        {
            "name": one_line(name, 40),
            "value": float(value),
            "width": min(100.0, 100 * abs(value) / scale) if isfinite(value) else 0.0,
        }
        for name, value in parts.items()
    ]
