"""The report of `palaver bench teams` as a table."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from palaver.benchmarks.performance.training.crowd import ONE
from palaver.utils.tables import Table

COLUMNS = ("team", "trained", "held", "peak GiB", "x one", "s/step", "rollout", "update", "CPU s", "tokens")
GIB = 1 << 30
TITLES = {ONE: "one agent"}


def show(report: dict[str, Any], console: Console | None = None) -> None:
    """Print the measurements and their interpretation."""
    console = console or Console(highlight=False)
    rows = [_row(result) for result in report["results"]]
    work = report["work"]
    console.print(
        f"{report['agents']} agents, {report['size']} parameters, {report['algorithm']}, {work['prompts']} prompt(s) x "
        f"G = {work['group']}, at most {work['new_tokens']} tokens, {report['device']}, {report['threads']} thread(s)"
    )
    console.print(Table(head=COLUMNS, rows=rows, right=range(1, len(COLUMNS))).rich())
    console.print(
        "trained, held: millions of weights with a gradient, and in all models. peak: the most memory above what was "
        "taken before the models were loaded. x one: of one agent that trains a whole model. seconds: median of "
        f"{report['repeats']} x {work['steps']} steps.",
        style="dim",
    )


def _row(result: dict[str, Any]) -> list[str]:
    peak, share = result["peak_bytes"], result["memory_of_one"]
    return [
        TITLES.get(result["kind"], result["kind"]),
        f"{result['trained'] / 1e6:,.1f}",
        f"{result['held'] / 1e6:,.1f}",
        "-" if peak is None else f"{peak / GIB:,.2f}",
        "-" if share is None else f"{share:.2f}",
        *(f"{result[stage]['wall_s']:,.2f}" for stage in ("step", "rollout", "update")),
        f"{result['step']['cpu_s']:,.2f}",
        f"{result['tokens']:,.0f}",
    ]
