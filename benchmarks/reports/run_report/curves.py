"""The curves of a run: each function draws one thing on one chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from palaver.benchmarks.reports.charts import Chart, Drawing, label, save_figure, smoothed, window_of
from palaver.benchmarks.reports.palette import algorithm_look, looks, nth_look
from palaver.benchmarks.reports.run_folder import RunFolder, number
from palaver.benchmarks.reports.run_report.league import draw_exploitability, nash_conv
from palaver.benchmarks.reports.summary import point
from palaver.core import ConfigError
from palaver.registry import spec

Drawings = dict[str, Drawing]  # by a name that is unique on the page

FAR = 8  # a bound above so many heights of the curve would leave a flat line


def draw_reward(chart: Chart, run: RunFolder, max_reward: float | None = None) -> None:
    """Draw the training reward and the evaluations with 95 % intervals."""
    steps, values = run.series("reward/mean")
    window = window_of(len(values))
    if values:
        look = algorithm_look(run.config.algorithm.name) if run.config else nth_look(0)
        chart.dots(steps, values, chart.color(look.color), size=3, alpha=0.3)
        name = f"training, mean of {window} steps" if window > 1 else "training"
        chart.line(steps, smoothed(values), chart.color(look.color), name, width=2.2, dashes=look.style)
    if points := [evaluation for line in run.evals if (evaluation := point(line)) is not None]:
        chart.dots(
            [evaluation.step for evaluation in points],
            [evaluation.mean for evaluation in points],
            chart.theme.ink,
            "evaluation, 95 % interval",
            ends=[(evaluation.low, evaluation.high) for evaluation in points],
            marker="o:",
        )
    bound = max_reward if values or run.evals else None
    low, high = chart.ax.get_ylim()
    if bound is not None and bound - low > FAR * (high - low):
        chart.note(f"most possible {bound:g}, not drawn", None, high, (0, 2), ha="right", va="bottom")
        bound = None
    if bound is not None:
        chart.rule(bound)
        chart.note(f"most possible {bound:g}", None, bound, (0, 2), ha="right", va="bottom")
    if chart.ax.dataLim.y0 >= 0:
        chart.ax.set_ylim(bottom=-0.02 * chart.ax.get_ylim()[1])  # room for points that lie on 0
    if bound is not None:
        low = chart.ax.get_ylim()[0]
        chart.ax.set_ylim(top=bound + 0.09 * (bound - low))  # room for the note, above the points
    chart.labels("step", "reward")


def draw_comparison(chart: Chart, runs: Sequence[RunFolder], names: Sequence[str], env: str = "") -> None:
    """Draw the moving mean of several runs' training reward, in the colours of their algorithms."""
    styles = looks([run.config.algorithm.name if run.config else "" for run in runs])
    for run, name, look in zip(runs, names, styles, strict=True):
        steps, values = run.series("reward/mean")
        if values:
            color = chart.color(look.color)
            chart.dots(steps, values, color, size=2.5, alpha=0.18)
            chart.line(steps, smoothed(values), color, label(name), width=2.2, dashes=look.style)
    chart.labels("step", f"reward in {label(env, 60)}" if env else "reward")


def draw_lines(chart: Chart, run: RunFolder, names: Mapping[str, str]) -> None:
    """Draw the moving mean of several train keys; `names` maps key -> name in the legend."""
    for index, (key, name) in enumerate(names.items()):
        steps, values = run.series(key)
        if values:
            chart.line(steps, smoothed(values), chart.color(index), label(name) if len(names) > 1 else "")
    chart.labels("step")
    if chart.ax.dataLim.y0 >= 0:
        chart.ax.set_ylim(bottom=0)


def draw_time(chart: Chart, run: RunFolder) -> None:
    """Draw the seconds of a step, stacked by stage; an unrecorded stage counts as 0."""
    keys = [key for key in run.keys("time/") if run.series(key)[1]]
    lines = [line for line in run.train if any(number(line, key) is not None for key in keys)]
    names = [label(key.removeprefix("time/").removesuffix("_s")) for key in keys]
    if len(lines) > 1:
        _draw_areas(chart, lines, keys, names)
    else:
        seconds = [number(lines[0], key) or 0.0 for key in keys]
        chart.bars(names, seconds, [chart.color(i) for i in range(len(keys))])
        chart.labels("seconds")


def draw_shares(chart: Chart, run: RunFolder, names: Mapping[str, str], heading: str = "") -> None:
    """Draw metrics that are shares of a whole as a stacked area; `names` maps label -> metric."""
    keys = [f"metric/{name}" for name in names.values()]
    lines = [line for line in run.train if all(number(line, key) is not None for key in keys)]
    _draw_areas(chart, lines, keys, list(names))
    chart.ax.set_ylim(0, 1)
    chart.heading = label(heading)


def _draw_areas(chart: Chart, lines: Sequence[Mapping[str, Any]], keys: Sequence[str], names: Sequence[str]) -> None:
    parts = [smoothed([number(line, key) or 0.0 for line in lines]) for key in keys]
    chart.areas([int(line["step"]) for line in lines], parts, names)
    chart.labels("step")


def reward(run: RunFolder, max_reward: float | None) -> Drawing:
    """The reward curve as wide as the page."""
    return Drawing("Reward over training steps", "", (10, 3.6), partial(draw_reward, run=run, max_reward=max_reward))


def share_panels(run: RunFolder) -> Drawings:
    """Figures of the recorded shares that the run's environment declares for drawing."""
    return {
        f"shares{index}": Drawing(title, "", (4.9, 2.6), partial(draw_shares, run=run, names=names))
        for index, (title, names) in enumerate(_shares(run).items())
    }


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


def measured(run: RunFolder) -> Drawings:
    """Figures of the metrics that are not rewards and not 0 throughout."""
    names = {key: name for key, name in _names(run, "metric/").items() if any(run.series(key)[1])}
    return {
        f"measured{index}": Drawing(
            _heading(label(name)), "", (4.9, 2.3), partial(draw_lines, run=run, names={key: name})
        )
        for index, (key, name) in enumerate(names.items())
    }


def panels(run: RunFolder) -> Drawings:
    """Smaller figures in the order of the page; those without data are left out."""
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
    drawn: Drawings = {}
    for title, note, names in wanted:
        series = {key: name for key, name in names.items() if any(run.series(key)[1])}
        if title == "Learning rate" and all(len(set(run.series(key)[1])) == 1 for key in series):
            continue
        if series:
            drawn[f"panel{len(drawn)}"] = Drawing(title, note, (4.9, 2.6), partial(draw_lines, run=run, names=series))
    if any(run.series(key)[1] for key in run.keys("time/")):
        note = "What a step's time went into."
        drawn["time"] = Drawing("Seconds per step", note, (4.9, 2.6), partial(draw_time, run=run))
    return drawn


def _names(run: RunFolder, prefix: str) -> dict[str, str]:
    return {key: key.removeprefix(prefix) for key in run.keys(prefix)}


def _heading(name: str) -> str:
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def _of(agents: Sequence[str], what: str) -> dict[str, str]:
    return {f"{agent}/{what}": agent for agent in agents}


def write_png(run: RunFolder, path: Path, max_reward: float | None, title: str) -> None:
    """Write the reward curve as PNG, next to the declared shares or else two or more components.

    An environment declares its shares. Where NashConv was computed it takes the place of the reward, which in self-play
    of a zero-sum game is 0 at any strength.
    """
    main = draw_exploitability if nash_conv(run) else partial(draw_reward, max_reward=max_reward)
    share_groups, components = _shares(run), _names(run, "component/")
    if len(components) == 1:
        components = {}  # it is the reward

    def draw(curve: Chart, *parts: Chart) -> None:
        main(curve, run=run)
        if components and not share_groups:
            draw_lines(parts[0], run, components)
            parts[0].labels("step", "reward by component")
        for chart, (heading, names) in zip(parts, share_groups.items(), strict=False):
            draw_shares(chart, run, names, heading)

    count = len(share_groups) or bool(components)
    layout = [[0, index] for index in range(1, count + 1)]
    wide: dict[str, Any] = {"layout": layout, "width_ratios": (3, 2)} if count else {}
    save_figure(path, title, (11 if count else 8, 4.2), draw, **wide)
