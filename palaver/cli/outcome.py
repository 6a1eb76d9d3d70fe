"""Output of `palaver train` at the end of a run: before and after, in numbers and in text."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from palaver.benchmarks.reports.frames import FrameRenderer
from palaver.benchmarks.reports.run_folder import RunFolder
from palaver.benchmarks.reports.run_report.page import Side, samples
from palaver.benchmarks.reports.summary import EvaluationPoint, comparison, key_figures, max_reward, score, status
from palaver.cli.output import console, facts, say, table
from palaver.text import one_line

TEXT_SHOWN = 1200


def show(run: RunFolder) -> None:
    """Print a sample and a table before and after, and the cost of the run."""
    for sample in samples(run, 1, FrameRenderer()):
        console.print()
        say(Text(f"A sample, not chosen: task {sample.task}", style="bold"))
        console.print(_pair(_side(sample.before, "before"), _side(sample.after, "after")))
    result = score(run)
    if result.before or result.after:
        console.print()
        console.print(evaluation_table(run))
    console.print()
    console.print(facts([("status", status(run).text), *key_figures(run)]))


def evaluation_table(run: RunFolder) -> Table:
    """Table of mean, interval, n, and every reward component and metric, before and after."""
    result, maximum = score(run), max_reward(run)
    kind = "greedy" if result.greedy else "sampled"
    grid = table(f"evaluation, {kind}", "before", "after", "change", right=("before", "after", "change"))
    change = f"{result.after.mean - result.before.mean:+.3f}" if result.before and result.after else "–"
    name = f"mean reward (of {maximum:g})" if maximum else "mean reward"
    grid.add_row(name, _mean(result.before), _mean(result.after), change, style="bold")
    grid.add_row("95 % interval", _interval(result.before), _interval(result.after), "")
    grid.add_row("episodes", _count(result.before), _count(result.after), "")
    for title, rows in comparison(run):
        grid.add_section()
        grid.add_row(Text(title.lower(), style="dim"))
        for row in rows:
            grid.add_row(
                Text(f"  {one_line(row.name, 40)}"),
                _format_number(row.before),
                _format_number(row.after),
                _format_number(row.change, "+"),
            )
    return grid


def _pair(left: RenderableType, right: RenderableType) -> RenderableType:
    """Place side by side if the terminal is wide enough, else one below the other."""
    if console.width < 80:
        return Columns([left, right], expand=True)
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=1)
    grid.add_column(ratio=1)
    grid.add_row(left, right)
    return grid


def _side(side: Side | None, name: str) -> Panel:
    if side is None:
        return Panel(Text("no episode was saved", style="dim"), title=name, title_align="left")
    body = Text()
    for turn in side.turns:
        for completion in turn["completions"]:
            body.append(completion["agent"], style="bold").append(f"  {completion['words']} words\n", style="dim")
            body.append(completion["text"][:TEXT_SHOWN] if completion["text"].strip() else "says nothing")
            body.append(
                f"\ntaken for: {completion['executed']}" if completion["executed"] else "", style="italic"
            ).append("\n\n")
        if turn["reason"]:
            body.append(f"{turn['reason']}\n", style="italic")
        for agent, bars in turn["rewards"]:
            body.append(f"{agent} " if agent else "", style="bold")
            body.append(", ".join(f"{bar['name']} {bar['value']:.2f}" for bar in bars) + "\n", style="dim")
    body.rstrip()
    title = Text(f"{name}, step {side.step}: reward {side.total:.2f}")
    return Panel(body, title=title, title_align="left", border_style="dim" if name == "before" else "green")


def _mean(point: EvaluationPoint | None) -> str:
    return f"{point.mean:.3f}" if point else "–"


def _interval(point: EvaluationPoint | None) -> str:
    if point is None or point.low is None or point.high is None:
        return "–"
    return f"{point.low:.3f} – {point.high:.3f}"


def _count(point: EvaluationPoint | None) -> str:
    return str(point.n) if point else "–"


def _format_number(value: float | None, sign: str = "") -> str:
    return "–" if value is None else format(value, f"{sign}.3f")
