"""Options and `key=value` settings that several commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from pydantic import Field

from palaver.agents.llm.model.options import ModelOptions
from palaver.core import Sampling
from palaver.utils.config import Section, parse_overrides, validated

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
Out = Annotated[Path | None, typer.Option(help="Its folder.", show_default="runs/RECIPE-TIME")]
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
