"""Options, settings and recipes that several commands share, and their lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from pydantic import BaseModel, Field
from rich.text import Text

from palaver.agents.llm.model.options import ModelOptions
from palaver.cli.output import console, say, table
from palaver.core import ConfigError, Sampling
from palaver.trainers.config.defaults import defaults
from palaver.trainers.config.run import RunConfig
from palaver.utils.config import KINDS, Section, leaves, parse_overrides, recipes, validated
from palaver.utils.run_folder import writing

S = TypeVar("S", bound=Section)

group = partial(typer.Typer, no_args_is_help=True, rich_markup_mode="rich")  # of commands

TEAM_HELP = (
    "Policy: [bold]tiny[/bold], [bold]random[/bold], [bold]echo[/bold], [bold]human[/bold], "
    "[bold]scripted:NAME[/bold], [bold]hf:MODEL_OR_FOLDER[/bold], [bold]run:FOLDER[/bold] (a trained team), "
    "[bold]openai:MODEL@URL[/bold] (a server); "
    "for all agents, or per agent as a=hf:X,b=human."
)
Team = Annotated[str, typer.Option("--team", "-t", help=TEAM_HELP)]
Pairs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE", help="Keywords of the environment, and settings as --explain lists them; values are YAML."
    ),
]
Settings = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings, as --explain lists them; values are YAML.")
]
Seed = Annotated[int, typer.Option(help="Seed of the tasks drawn and of sampling.")]
Greedy = Annotated[bool, typer.Option("--greedy", help="Take the most likely token each time.")]
Explain = Annotated[bool, typer.Option("--explain", help="List the settings with their values, and stop.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def out_folder(help: str, default: str | bool = True) -> Any:
    """Return the option `--out FOLDER` (docs/commands.md)."""
    return typer.Option("--out", metavar="FOLDER", callback=_no_file, help=help, show_default=default)


def out_file(help: str, default: str | bool = True) -> Any:
    """Return the option `--out FILE`; a file of that name is replaced."""
    return typer.Option("--out", metavar="FILE", callback=_no_folder, help=help, show_default=default)


def _no_file(out: Path | None) -> Path | None:
    if out is not None and out.exists() and not out.is_dir():
        raise ConfigError(f"--out {str(out)!r} is a file; name a folder")
    return out


def _no_folder(out: Path | None) -> Path | None:
    if out is not None and out.is_dir():
        raise ConfigError(f"--out {str(out)!r} is a folder; name a file")
    return out


def make_parent(out: Path | None) -> None:
    """Make the folder of `--out FILE` before any work.

    Raises:
        ConfigError: it cannot be made.
    """
    if out is not None:
        with writing(out.parent):
            pass


Out = Annotated[Path | None, out_folder("Of the run; the same command resumes it.", "runs/RECIPE-TIME")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check the settings, print the plan, and stop.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]
DType = Annotated[Literal["fp32", "bf16"], typer.Option(help="Number format of generation.")]


class SamplingSettings(Section):
    """Sampling of language models."""

    temperature: float | None = Field(
        None, ge=0, description="divides the logits; 0 is greedy; none: 1.0, or the run's"
    )
    max_tokens: int | None = Field(None, ge=1, description="of an answer; none: 256, or the run's")


class ModelSettings(Section):
    """Loading of language models."""

    device: str = Field("auto", description="auto, cpu, cuda, cuda:1, mps")
    dtype: Literal["fp32", "bf16"] = Field("fp32", description="number format of generation")
    force: bool = Field(False, description="let the tiny model run on real data, which it cannot read well")

    def options(self) -> ModelOptions:
        """Return the options for loading models."""
        return ModelOptions(dtype=self.dtype, device=self.device)


class PlayerSettings(Section):
    """Settings of the models that play."""

    sampling: SamplingSettings = SamplingSettings()
    model: ModelSettings = ModelSettings()

    def draws(self, base: Sampling, greedy: bool = False) -> Sampling:
        """Return the sampling settings `base` with the given ones changed."""
        given = self.sampling.temperature
        heat = 0.0 if greedy else base.temperature if given is None else given
        return replace(base, temperature=heat, max_tokens=self.sampling.max_tokens or base.max_tokens)


def split(model: type[S], pairs: Sequence[str] | None) -> tuple[S, Mapping[str, Any]]:
    """Split `key=value` pairs into a command's settings and the keywords of the environment.

    Raises:
        ConfigError: a pair, a key or a value that does not fit.
    """
    keywords = parse_overrides(pairs or [])
    given = {key: keywords.pop(key) for key in model.model_fields if key in keywords}
    return validated(model, given), keywords


def settings(model: type[S], pairs: Sequence[str] | None) -> S:
    """Return a command's settings with `key=value` pairs changed.

    Raises:
        ConfigError: see `split`; also a key that is none of the settings.
    """
    return validated(model, parse_overrides(pairs or []))


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
        origins: dotted key -> origin of its value (`palaver.trainers.config.loading.origins`).
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
