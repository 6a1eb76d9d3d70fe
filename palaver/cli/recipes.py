"""Recipes and their keys, printed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from rich.text import Text

from palaver.benchmarks.lab.recipe import NAME, shipped
from palaver.benchmarks.marlhf.recipe import recipes as reward_models
from palaver.cli.output import console, say, table
from palaver.trainers.config import recipes


def list_recipes() -> None:
    """Every shipped recipe with its first line."""
    made = table("recipe", "what it does")
    for name, summary in sorted((recipes() | reward_models() | {NAME: shipped().splitlines()[0].lstrip("# ")}).items()):
        made.add_row(Text(name, style="bold", no_wrap=True), Text(summary))
    console.print(made)
    say(
        Text("\npalaver train RECIPE --explain shows its keys; a YAML file may stand in a recipe's place.", style="dim")
    )


def explain(config: BaseModel, prefix: str = "") -> None:
    """Every key of a config with its value; where it is not the default, the default too."""
    made = table("key", "value", "default", "meaning")
    for key, value, default, meaning in rows(config, prefix):
        changed = value != default
        made.add_row(
            Text(key, style="bold" if changed else ""), Text(_say(value), style="bold" if changed else ""),
            Text(_say(default) if changed else "", style="dim"), Text(meaning, style="dim"),
        )  # fmt: skip
    console.print(made)


def rows(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any, Any, str]]:
    """(dotted key, value, default, description) of every leaf."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from rows(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value, field.get_default(call_default_factory=False), field.description or ""
    for name, value in (section.model_extra or {}).items():
        yield f"{prefix}{name}", value, None, "keyword of the environment"


def _say(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_say, value)) + "]"
    return repr(value) if value == "" else f"{value:g}" if isinstance(value, float) else str(value)
