"""Recipes and their keys, printed."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel
from rich.text import Text

from palaver.cli.output import console, say, table
from palaver.trainers.config.defaults import defaults
from palaver.trainers.config.run import RunConfig
from palaver.utils.config import KINDS, leaves, recipes


def list_recipes(kind: str = "run") -> None:
    """Print every shipped recipe of a kind with its first line."""
    grid = table("recipe", "description")
    for name, summary in recipes(kind).items():
        grid.add_row(Text(name, style="bold", no_wrap=True), Text(summary))
    console.print(grid)
    command = KINDS[kind].command
    say(Text(f"\n{command} RECIPE --explain shows its keys; a YAML file may stand in a recipe's place.", style="dim"))


def explain(config: BaseModel, prefix: str = "") -> None:
    """Print every key of a config with its value, and the default if it differs."""
    grid = table("key", "value", "default", "meaning")
    for key, value, default, meaning in leaves(config, prefix):
        changed = value != default
        grid.add_row(
            Text(key, style="bold" if changed else ""),
            Text(_format_value(value), style="bold" if changed else ""),
            Text(_format_value(default) if changed else "", style="dim"),
            Text(meaning, style="dim"),
        )
    console.print(grid)


def explain_run(config: RunConfig, origins: Mapping[str, str]) -> None:
    """Print the changed settings, then all other keys.

    Changed settings differ from the defaults or are set by the algorithm's name.

    Args:
        config: of the run.
        origins: dotted key -> origin of its value (`palaver.trainers.config.origins`).
    """
    name = config.algorithm.name
    recipe_defaults = defaults(name)
    grid, others = table("key", "value", "default", f"{name} sets", "from"), table("key", "default", "meaning")
    grid.columns[0].no_wrap = others.columns[0].no_wrap = True  # users copy them
    for key, value, default, meaning in leaves(config):
        if value != default or key in recipe_defaults:
            grid.add_row(
                Text(key, style="bold"),
                Text(_format_value(value), style="bold"),
                Text(_format_value(default), style="dim"),
                Text(_format_value(recipe_defaults[key]) if key in recipe_defaults else "", style="dim"),
                Text(origins.get(key, "")),
            )
        else:
            others.add_row(Text(key), Text(_format_value(value)), Text(meaning, style="dim"))
    console.print(grid)
    say(Text("\nAll other keys have the defaults of their sections:\n", style="dim"))
    console.print(others)


def _format_value(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_format_value, value)) + "]"
    return repr(value) if value == "" else f"{value:g}" if isinstance(value, float) else str(value)
