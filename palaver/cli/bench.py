"""`palaver bench`: how fast a step is, beside the peer where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import typer

HELP = """Measure speed: one training step, by stage, and beside the peer where it is installed.

  palaver bench step --help
"""


def register(app: typer.Typer) -> None:
    """Add the command where its benchmark is there."""
    if importlib.util.find_spec("palaver.benchmarks.step") is None:
        return
    group = typer.Typer(help=HELP, no_args_is_help=True)
    passed_on: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    group.command("step", context_settings=passed_on, help="Time one training step.")(step)
    group.callback()(_group)
    app.add_typer(group, name="bench")


def _group() -> None:
    """Measure speed."""


def step(context: typer.Context) -> None:
    """Hand everything after `bench step` to the benchmark, `--help` included."""
    benchmark = importlib.import_module("palaver.benchmarks.step")
    raise typer.Exit(int(benchmark.main(context.args) or 0))
