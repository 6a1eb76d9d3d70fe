"""`palaver bench`: speed of steps, teams, programs and battles; accuracy of reasoning teams."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from palaver.cli.groups import reasoning
from palaver.cli.output import errors

HELP = """Measure speed and memory; run the table of reasoning teams.

[cyan]palaver bench step --setting C --prompts 8[/cyan]

[cyan]palaver bench teams --agents 4 --size 80M[/cyan]

[cyan]palaver bench sandbox[/cyan]

[cyan]palaver bench pokemon[/cyan]

[cyan]palaver bench reasoning[/cyan]
"""
POKEMON = """Turns per second of random players through pokemon-v1, and through poke-env if it is installed.

All are measured in turns in one run: poke-env's PettingZoo environment, and its players on a server of ours.

[bold]Examples[/bold]

[cyan]palaver bench pokemon[/cyan]

[cyan]palaver bench pokemon --format gen1ou --seconds 3 --no-peers --json[/cyan]

[cyan]palaver bench pokemon --format gen1ou --endurance 10000 --out endurance.json[/cyan]

docs/showdown.md has measured numbers. It needs the simulator: [cyan]palaver showdown install[/cyan]
"""
SANDBOX = """Time the scoring of programs: a cold start, one after the other, and side by side.

[bold]Examples[/bold]

[cyan]palaver bench sandbox[/cyan]

[cyan]palaver bench sandbox --data HumanEval.jsonl.gz --workers 4 --json[/cyan]

[cyan]palaver bench sandbox --data mbpp.jsonl --once[/cyan]
"""
STEP = """Time one training step on random weights: CPU time per prompt, by stage, next to the machine's limit.

[bold]Settings[/bold]: A to D are small models (D with Qwen's vocabulary); Qwen3-0.6B is that model's shape, for a GPU.

[bold]Examples[/bold]

[cyan]palaver bench step[/cyan]

[cyan]palaver bench step --setting C --prompts 1 --prompts 8 --repeats 5[/cyan]

[cyan]palaver bench step --setting D --peer-python PEER/bin/python --peer-script PEER_SCRIPT.py --json[/cyan]

[cyan]palaver bench step --setting Qwen3-0.6B --device cuda[/cyan]

A peer library runs in its own Python, alternating with ours; see docs/benchmarks.md for what its script must print.
"""
TEAMS = """Memory and step time of each kind of team on the same work, next to one agent that trains a whole model.

[bold]Kinds[/bold]: one (the baseline), separate, shared, lora, heterogeneous.

[bold]Sizes[/bold]: 0.1M, 25M, 80M, 145M, and Qwen3-0.6B for a GPU. Weights are random; nothing is downloaded.

[bold]Examples[/bold]

[cyan]palaver bench teams --size 145M --repeats 2 --out teams.json[/cyan]

[cyan]palaver bench teams --agents 3 --kind one --kind lora --rank 8[/cyan]

[cyan]palaver bench teams --size Qwen3-0.6B --device cuda[/cyan]

docs/teams.md has measured numbers.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    group = typer.Typer(help=HELP, no_args_is_help=True)
    group.command("step", help=STEP)(step)
    group.command("sandbox", help=SANDBOX)(sandbox)
    group.command("teams", help=TEAMS)(teams)
    group.command("pokemon", help=POKEMON)(pokemon)
    group.command("reasoning", help=reasoning.HELP)(reasoning.reasoning)
    group.callback()(_group)
    app.add_typer(group, name="bench")


def _group() -> None:
    """Measure speed and memory."""


def step(
    setting: Annotated[
        list[str] | None, typer.Option(help="A, B, C, D or Qwen3-0.6B; may be repeated. [A and C]")
    ] = None,
    prompts: Annotated[list[int] | None, typer.Option(min=1, help="Prompts a step; may be repeated. [1 and 8]")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Processes per measurement; the median counts.")] = 3,
    steps: Annotated[int, typer.Option(min=1, help="Counted steps in each, after one that is not.")] = 4,
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch, of the peer too.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")] = "cpu",
    peer_python: Annotated[str | None, typer.Option(metavar="PATH", help="The Python that has the peer.")] = None,
    peer_script: Annotated[str | None, typer.Option(metavar="PATH", help="The peer's benchmark script.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Time one training step."""
    from palaver.benchmarks.performance.step import run

    run(
        setting or ["A", "C"],
        prompts or [1, 8],
        repeats,
        steps,
        threads,
        device,
        peer_python,
        peer_script,
        as_json,
        log=lambda line: errors.print(Text(line, style="dim")),
    )


def sandbox(
    data: Annotated[
        str | None, typer.Option(metavar="SOURCE", help="A data set in HumanEval's or MBPP's schema. [a built-in set]")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Score each of its solutions once and count, instead of timing.")
    ] = False,
    programs: Annotated[int, typer.Option(min=1, help="Programs to score in each way, at least.")] = 400,
    workers: Annotated[int | None, typer.Option(min=1, help="Programs scored at the same time. [cores]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Time the scoring of programs."""
    from palaver.benchmarks.performance.sandbox import count, run

    if once:
        count(data, workers, as_json)
    else:
        run(data, programs, workers, as_json)


def teams(
    kind: Annotated[list[str] | None, typer.Option(help="A kind of team; may be repeated. [all]")] = None,
    size: Annotated[str, typer.Option(help="Of every model.")] = "80M",
    agents: Annotated[int, typer.Option(min=2, help="N.")] = 4,
    group: Annotated[int, typer.Option(min=1, help="G, answers per prompt and agent.")] = 4,
    prompts: Annotated[int, typer.Option(min=1, help="Prompts a step.")] = 1,
    tokens: Annotated[int, typer.Option(min=0, help="Maximum tokens per answer; 0: the default of the size.")] = 0,
    steps: Annotated[int, typer.Option(min=1, help="Counted steps, after one that is not.")] = 3,
    repeats: Annotated[int, typer.Option(min=1, help="Processes of each kind, in turns.")] = 1,
    rank: Annotated[int, typer.Option(min=1, help="Of adapters.")] = 16,
    algorithm: Annotated[str, typer.Option(help="Its name; with a critic that one counts too.")] = "magrpo",
    kl: Annotated[float, typer.Option(min=0, help="Weight of the KL penalty; above 0 references count too.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")] = "cpu",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Measure memory and step time of each kind of team."""
    from palaver.benchmarks.performance.teams import TeamBenchmark, run
    from palaver.benchmarks.performance.training.crowd import KINDS

    plan = TeamBenchmark(
        tuple(dict.fromkeys(kind or KINDS)),
        size,
        agents,
        group,
        prompts,
        tokens,
        steps,
        repeats,
        rank,
        threads,
        device,
        algorithm,
        kl,
    )
    run(plan, as_json=as_json, out=out, log=lambda line: errors.print(Text(line, style="dim")))


def pokemon(
    format: Annotated[
        list[str] | None, typer.Option(help="Of the battles; may be repeated. [gen1ou and gen9ou]")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Of one measurement.")] = 5.0,
    repeats: Annotated[int, typer.Option(min=1, help="Measurements of each, in turns; medians count.")] = 5,
    warm: Annotated[int, typer.Option(min=0, help="Turns of each process before, which are not counted.")] = 3000,
    processes: Annotated[int | None, typer.Option(min=1, help="Of ours. [cores]")] = None,
    battles: Annotated[int, typer.Option(min=1, help="At once in each process of ours.")] = 32,
    connections: Annotated[int, typer.Option(min=1, help="Battles at once of poke-env's players.")] = 50,
    peers: Annotated[bool, typer.Option("--peers/--no-peers", help="Measure poke-env too.")] = True,
    seed: Annotated[int, typer.Option(help="Of our teams, dice and choices.")] = 0,
    endurance: Annotated[
        int, typer.Option(min=0, help="Instead: so many battles of one format in one process, first against last.")
    ] = 0,
    block: Annotated[int, typer.Option(min=1, help="Battles of --endurance between two measurements.")] = 1000,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report of --endurance there.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Measure turns per second of Pokémon battles."""
    from palaver.benchmarks.performance.pokemon.endurance import Endurance
    from palaver.benchmarks.performance.pokemon.endurance import run as endure
    from palaver.benchmarks.performance.pokemon.speed import PokemonBenchmarkConfig, run
    from palaver.core import ConfigError, usable_cores

    def say(line: str) -> None:
        errors.print(Text(line, style="dim"))

    if endurance:
        if format is not None and len(format) > 1:
            raise ConfigError("--endurance plays one format; give --format once")
        long = Endurance((format or ["gen1ou"])[0], endurance, block, battles, seed)
        endure(long, as_json=as_json, out=out, log=say)
        return
    if out is not None:
        raise ConfigError("--out writes the report of --endurance; for the other use: --json > FILE")
    plan = PokemonBenchmarkConfig(
        tuple(dict.fromkeys(format or ("gen1ou", "gen9ou"))),
        seconds,
        repeats,
        warm,
        processes or usable_cores(),
        battles,
        connections,
        peers,
        seed,
    )
    run(plan, as_json=as_json, log=say)
