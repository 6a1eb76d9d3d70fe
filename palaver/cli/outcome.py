"""Output of `palaver train` at the end of a run: before and after, in numbers and in text."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from palaver.benchmarks.reports.frames import FrameRenderer
from palaver.benchmarks.reports.run_folder import RunFolder
from palaver.benchmarks.reports.samples import Side, samples
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
    found = score(run)
    if found.before or found.after:
        console.print()
        console.print(numbers(run))
    console.print()
    console.print(facts([("status", status(run).text), *key_figures(run)]))


def numbers(run: RunFolder) -> Table:
    """Table of mean, interval, n, and every reward component and metric, before and after."""
    found, most = score(run), max_reward(run)
    kind = "greedy" if found.greedy else "sampled"
    made = table(f"evaluation, {kind}", "before", "after", "change", right=("before", "after", "change"))
    change = f"{found.after.mean - found.before.mean:+.3f}" if found.before and found.after else "–"
    name = f"mean reward (of {most:g})" if most else "mean reward"
    made.add_row(name, _mean(found.before), _mean(found.after), change, style="bold")
    made.add_row("95 % interval", _interval(found.before), _interval(found.after), "")
    made.add_row("episodes", _count(found.before), _count(found.after), "")
    for title, rows in comparison(run):
        made.add_section()
        made.add_row(Text(title.lower(), style="dim"))
        for row in rows:
            made.add_row(
                Text(f"  {one_line(row.name, 40)}"), _number(row.before), _number(row.after), _number(row.change, "+")
            )
    return made


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
        for said in turn.completions:
            body.append(f"{said.agent}", style="bold").append(f"  {said.words} words\n", style="dim")
            body.append(said.text[:TEXT_SHOWN] if said.text.strip() else "says nothing")
            body.append(f"\ntaken for: {said.executed}" if said.executed else "", style="italic").append("\n\n")
        if turn.reason:
            body.append(f"{turn.reason}\n", style="italic")
        for agent, bars in turn.rewards:
            body.append(f"{agent} " if agent else "", style="bold")
            body.append(", ".join(f"{bar.name} {bar.value:.2f}" for bar in bars) + "\n", style="dim")
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


def _number(value: float | None, sign: str = "") -> str:
    return "–" if value is None else format(value, f"{sign}.3f")
