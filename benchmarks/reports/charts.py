"""The curves of a run: each function draws one thing on one pair of axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from palaver.benchmarks.reports.plot_style import (
    PAGE,
    PAPER,
    Theme,
    dress,
    entitle,
    figure,
    label,
    legend,
    save_png,
    svg,
)
from palaver.benchmarks.reports.run_folder import RunFolder, number
from palaver.benchmarks.reports.summary import point
from palaver.core import ConfigError
from palaver.registry import spec

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Panel:
    """A drawing for the page, with its heading and one line on how to read it."""

    title: str
    note: str
    svg: str


def moving_mean(values: Sequence[float], window: int) -> NDArray[np.float64]:
    """Mean of the last `window` values, of fewer at the start. Shape (len(values),).

    >>> moving_mean([2.0, 4.0, 9.0], 2).tolist()
    [2.0, 3.0, 6.5]
    """
    array = np.asarray(values, dtype=np.float64)
    total = np.concatenate([[0.0], np.cumsum(array)])
    end = np.arange(1, len(total))
    start = np.maximum(end - window, 0)
    mean = (total[end] - total[start]) / (end - start)
    return np.asarray(np.clip(mean, array.min(), array.max()) if len(array) else mean, dtype=np.float64)


def window_of(length: int) -> int:
    """A tenth of the run, between 1 and 20 steps."""
    return min(20, max(1, length // 10))


def draw_reward(ax: Axes, run: RunFolder, theme: Theme, max_reward: float | None = None) -> None:
    """Draw the training reward (points, moving mean) and the evaluations with 95 % intervals."""
    steps, values = run.series("reward/mean")
    window = window_of(len(values))
    if values:
        ax.plot(steps, values, "o", color=theme.color(0), alpha=0.3, markersize=3, markeredgewidth=0)
        name = f"training, mean of {window} steps" if window > 1 else "training"
        _line(ax, steps, moving_mean(values, window), theme.color(0), name, width=2.2)
    _draw_evaluations(ax, run, theme)
    if max_reward is not None and (values or run.evals):
        ax.axhline(max_reward, color=theme.muted, linewidth=1, linestyle=(0, (4, 4)))
        ax.annotate(
            f"most possible {max_reward:g}",
            (1.0, max_reward),
            xycoords=("axes fraction", "data"),
            xytext=(0, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=8.5,
            color=theme.muted,
        )
        ax.set_ylim(top=max_reward * 1.06)
    if ax.dataLim.y0 >= 0:
        ax.set_ylim(bottom=-0.02 * ax.get_ylim()[1])  # room for points that lie on 0
    dress(ax, theme)
    legend(ax, theme)


def _draw_evaluations(ax: Axes, run: RunFolder, theme: Theme) -> None:
    points = [evaluation for line in run.evals if (evaluation := point(line)) is not None]
    if not points:
        return
    below = [0.0 if evaluation.low is None else evaluation.mean - evaluation.low for evaluation in points]
    above = [0.0 if evaluation.high is None else evaluation.high - evaluation.mean for evaluation in points]
    steps, means = [evaluation.step for evaluation in points], [evaluation.mean for evaluation in points]
    ax.errorbar(
        steps,
        means,
        yerr=np.maximum([below, above], 0),
        fmt="o:",
        color=theme.color(1),
        markersize=6,
        linewidth=1.2,
        elinewidth=2,
        capsize=4,
        label="evaluation, 95 % interval",
        zorder=5,
        clip_on=False,
    )


def draw_lines(ax: Axes, run: RunFolder, theme: Theme, names: Mapping[str, str]) -> None:
    """Draw the moving mean of several train keys; `names` maps key -> name in the legend."""
    for index, (key, name) in enumerate(names.items()):
        steps, values = run.series(key)
        if values:
            _line(ax, steps, moving_mean(values, window_of(len(values))), theme.color(index), label(name))
    dress(ax, theme)
    if ax.dataLim.y0 >= 0:
        ax.set_ylim(bottom=0)
    if len(names) > 1:
        legend(ax, theme)


def draw_time(ax: Axes, run: RunFolder, theme: Theme) -> None:
    """Draw the seconds of a step, stacked by stage; an unrecorded stage counts as 0."""
    keys = [key for key in run.keys("time/") if run.series(key)[1]]
    lines = [line for line in run.train if any(number(line, key) is not None for key in keys)]
    steps = [int(line["step"]) for line in lines]
    parts = [moving_mean([number(line, key) or 0.0 for line in lines], window_of(len(lines))) for key in keys]
    names = [label(key.removeprefix("time/").removesuffix("_s")) for key in keys]
    if len(steps) > 1:
        ax.stackplot(steps, *parts, labels=names, colors=[theme.color(i) for i in range(len(keys))], alpha=0.75)
    else:
        ax.bar(
            names, [float(seconds[0]) for seconds in parts], color=[theme.color(i) for i in range(len(keys))], width=0.5
        )
    dress(ax, theme, "step" if len(steps) > 1 else "")
    if len(steps) <= 1:
        ax.set_xticks(range(len(names)), names)
    legend(ax, theme)


def draw_shares(ax: Axes, run: RunFolder, theme: Theme, names: Mapping[str, str]) -> None:
    """Draw metrics that are shares of a whole as a stacked area; `names` maps label -> metric."""
    keys = [f"metric/{name}" for name in names.values()]
    lines = [line for line in run.train if all(number(line, key) is not None for key in keys)]
    steps, window = [int(line["step"]) for line in lines], window_of(len(lines))
    parts = [moving_mean([number(line, key) or 0.0 for line in lines], window) for key in keys]
    ax.stackplot(steps, *parts, labels=list(names), colors=[theme.color(i) for i in range(len(keys))], alpha=0.75)
    dress(ax, theme)
    ax.set_ylim(0, 1)
    legend(ax, theme)


def draw_comparison(ax: Axes, runs: Sequence[RunFolder], names: Sequence[str], theme: Theme) -> None:
    """Draw the moving mean of several runs' training reward."""
    for index, (run, name) in enumerate(zip(runs, names, strict=True)):
        steps, values = run.series("reward/mean")
        if values:
            ax.plot(steps, values, "o", color=theme.color(index), alpha=0.18, markersize=2.5, markeredgewidth=0)
            _line(ax, steps, moving_mean(values, window_of(len(values))), theme.color(index), label(name), width=2.2)
    dress(ax, theme)
    legend(ax, theme)


def _line(
    ax: Axes, steps: Sequence[int], values: NDArray[np.float64], color: str, name: str, width: float = 1.8
) -> None:
    marker = "o" if len(values) < 3 else ""
    ax.plot(steps, values, color=color, linewidth=width, marker=marker, markersize=5, label=name)


def main_panel(run: RunFolder, max_reward: float | None) -> str:
    """The reward curve as wide as the page."""
    drawing = figure(10, 3.6)
    draw_reward(drawing.add_subplot(), run, PAGE, max_reward)
    return svg(drawing, "reward", "Reward over training steps")


def share_panels(run: RunFolder) -> list[Panel]:
    """Panels of the recorded shares that the run's environment declares for drawing."""
    drawn: list[Panel] = []
    for title, names in _shares(run).items():
        drawing = figure(4.9, 2.6)
        draw_shares(drawing.add_subplot(), run, PAGE, names)
        drawn.append(Panel(title, "", svg(drawing, f"shares{len(drawn)}", "Shares over training steps")))
    return drawn


def _shares(run: RunFolder) -> dict[str, Mapping[str, str]]:
    try:
        share_groups = spec(run.config.env.id).shares if run.config else {}
    except ConfigError:  # an environment of the user's that is not registered here
        return {}
    return {
        title: names
        for title, names in share_groups.items()
        if all(run.series(f"metric/{n}")[1] for n in names.values())
    }


def measured(run: RunFolder) -> list[Panel]:
    """Panels of the metrics that are not rewards and not 0 throughout."""
    drawn: list[Panel] = []
    for key, name in _names(run, "metric/").items():
        if any(run.series(key)[1]):
            drawing = figure(4.9, 2.3)
            draw_lines(drawing.add_subplot(), run, PAGE, {key: name})
            title = _heading(label(name))
            drawn.append(Panel(title, "", svg(drawing, f"measured{len(drawn)}", "A measurement over training steps")))
    return drawn


def panels(run: RunFolder) -> list[Panel]:
    """Smaller panels in the order of the page; those without data are left out."""
    agents = run.agents
    wanted = [
        ("Reward components", "The named parts whose sum is the reward.", _names(run, "component/")),
        ("Tokens per completion", "Mean length of an answer, by agent.", _of(agents, "tokens")),
        ("Loss", "Policy loss, by agent. It need not fall for the reward to rise.", _of(agents, "loss")),
        ("Gradient norm", "Before clipping, by agent.", _of(agents, "grad_norm")),
        ("KL to the start", "How far a policy has moved from its first weights.", _of(agents, "kl")),
        ("TD loss", "Of the mixed values.", {"mixer/td_loss": "loss"}),
        (
            "Values of the team",
            "Mean Q of the joint actions replayed, and how far the target's value of them is.",
            {"mixer/q_tot": "Q", "mixer/target_gap": "distance of the target"},
        ),
        ("Exploration", "Chance of a random action.", {"mixer/epsilon": "epsilon"}),
        ("Learning rate", "After warm-up and schedule.", _of(agents, "lr")),
        ("Tokens per second", "Sampled tokens over the time of a step.", {"tokens_per_s": "tokens/s"}),
        (
            "Groups without a signal",
            "Share of groups whose answers all have the same reward.",
            {"groups/zero_advantage": "share"},
        ),
    ]
    drawn: list[Panel] = []
    for title, note, names in wanted:
        series = {key: name for key, name in names.items() if any(run.series(key)[1])}
        if title == "Learning rate" and all(len(set(run.series(key)[1])) == 1 for key in series):
            continue
        if series:
            drawing = figure(4.9, 2.6)
            draw_lines(drawing.add_subplot(), run, PAGE, series)
            drawn.append(Panel(label(title), note, svg(drawing, f"panel{len(drawn)}", "A curve over training steps")))
    if any(run.series(key)[1] for key in run.keys("time/")):
        drawing = figure(4.9, 2.6)
        draw_time(drawing.add_subplot(), run, PAGE)
        drawn.append(
            Panel("Seconds per step", "What a step's time went into.", svg(drawing, "time", "Seconds per step"))
        )
    return drawn


def _names(run: RunFolder, prefix: str) -> dict[str, str]:
    return {key: key.removeprefix(prefix) for key in run.keys(prefix)}


def _heading(name: str) -> str:
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def _of(agents: Sequence[str], what: str) -> dict[str, str]:
    return {f"{agent}/{what}": agent for agent in agents}


def write_png(run: RunFolder, path: str, max_reward: float | None, title: str) -> None:
    """Write the reward curve as PNG, next to the declared shares or else the components.

    An environment declares its shares.
    """
    share_groups, components = _shares(run), _names(run, "component/")
    drawing = figure(11 if components or share_groups else 8, 4.2)
    entitle(drawing, label(title, 100 if components else 70))
    wide = components or share_groups
    axes = drawing.subplots(1, 2, width_ratios=(3, 2)) if wide else [drawing.add_subplot()]
    draw_reward(axes[0], run, PAPER, max_reward)
    axes[0].set_ylabel("reward", color=PAPER.muted, fontsize=8.5)
    if share_groups:
        grid = axes[1].get_subplotspec().subgridspec(len(share_groups), 1)
        axes[1].remove()
        for ax, (title, names) in zip(
            grid.subplots(sharex=True, squeeze=False)[:, 0], share_groups.items(), strict=True
        ):
            draw_shares(ax, run, PAPER, names)
            ax.set_title(label(title), fontsize=8.5, color=PAPER.muted, loc="left")
            ax.set_xlabel("")
    elif components:
        draw_lines(axes[1], run, PAPER, components)
        axes[1].set_ylabel("reward by component", color=PAPER.muted, fontsize=8.5)
    save_png(drawing, path)


def write_comparison_png(runs: Sequence[RunFolder], names: Sequence[str], path: str) -> None:
    """Write several runs' reward curves on one pair of axes as PNG."""
    drawing = figure(9, 4.2)
    ax = drawing.add_subplot()
    draw_comparison(ax, runs, names, PAPER)
    ax.set_ylabel("reward", color=PAPER.muted, fontsize=8.5)
    save_png(drawing, path)
