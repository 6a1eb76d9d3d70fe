"""Options that several commands share."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, cast

import typer

from palaver.agents.llm.model.options import ModelOptions
from palaver.core import Sampling

TEAM_HELP = (
    "Policy: [bold]tiny[/bold], [bold]random[/bold], [bold]echo[/bold], [bold]human[/bold], "
    "[bold]scripted:NAME[/bold], [bold]hf:MODEL_OR_FOLDER[/bold], [bold]run:FOLDER[/bold] (a trained team), "
    "[bold]openai:MODEL@URL[/bold] (a server); "
    "for all agents, or per agent as a=hf:X,b=human."
)
Team = Annotated[str, typer.Option("--team", "-t", help=TEAM_HELP)]
Pairs = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Keywords of the environment; values are YAML.")
]
Seed = Annotated[int, typer.Option(help="Seed of the tasks drawn and of sampling.")]
Greedy = Annotated[bool, typer.Option("--greedy", help="Take the most likely token each time.")]
Temperature = Annotated[
    float | None, typer.Option(help="Divides the logits before sampling.", min=0, show_default="1.0, or the run's")
]
MaxTokens = Annotated[
    int | None, typer.Option(help="Most tokens in one answer.", min=1, show_default="256, or the run's")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]
DType = Annotated[str, typer.Option(help="fp32 or bf16.")]
Force = Annotated[bool, typer.Option("--force", help="Let the tiny model run on real data, which it cannot read well.")]


def model_options(device: str, dtype: str) -> ModelOptions:
    """Return the options for loading models.

    Raises:
        ConfigError: no such number format.
    """
    return ModelOptions(dtype=cast(Literal["fp32", "bf16"], dtype), device=device)


def sampling(base: Sampling, temperature: float | None, max_tokens: int | None, greedy: bool) -> Sampling:
    """Return the sampling settings `base` with the given options changed."""
    heat = 0.0 if greedy else base.temperature if temperature is None else temperature
    return replace(base, temperature=heat, max_tokens=max_tokens or base.max_tokens)
