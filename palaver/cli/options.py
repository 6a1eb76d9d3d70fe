"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import typer

from palaver.agents.llm.options import ModelOptions
from palaver.core import ConfigError, Sampling, nearest

TEAM_HELP = (
    "Who plays: [bold]tiny[/bold], [bold]random[/bold], [bold]echo[/bold], [bold]human[/bold], "
    "[bold]scripted:NAME[/bold], [bold]hf:MODEL_OR_FOLDER[/bold], [bold]run:FOLDER[/bold] (a trained team); "
    "for all seats, or seat by seat as a=hf:X,b=human."
)
Team = Annotated[str, typer.Option("--team", "-t", help=TEAM_HELP)]
Pairs = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Keywords of the environment; values are YAML.")
]
Seed = Annotated[int, typer.Option(help="Fixes the tasks drawn and what is sampled.")]
Greedy = Annotated[bool, typer.Option("--greedy", help="Take the most likely token each time.")]
Temperature = Annotated[float, typer.Option(help="Divides the logits before sampling.", min=0)]
MaxTokens = Annotated[int | None, typer.Option(help="Most tokens in one answer.", min=1, show_default="256")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]
DType = Annotated[str, typer.Option(help="fp32 or bf16.")]
Force = Annotated[bool, typer.Option("--force", help="Let the tiny model run on real data, which it cannot read well.")]

DTypeName = Literal["fp32", "bf16"]


def model_options(device: str, dtype: str) -> ModelOptions:
    """How models are loaded.

    Raises:
        ConfigError: no such number format.
    """
    for name in get_args(DTypeName):
        if dtype == name:
            return ModelOptions(dtype=name, device=device)
    raise ConfigError(f"dtype cannot be {dtype!r}.{nearest(dtype, get_args(DTypeName))}")


def sampling(temperature: float, max_tokens: int | None, greedy: bool) -> Sampling:
    """How policies draw their tokens."""
    return Sampling(temperature=0.0 if greedy else temperature, max_tokens=max_tokens or 256)
