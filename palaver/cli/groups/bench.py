"""`palaver bench`: speed of steps, teams, programs and battles; acceptance of a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from palaver.cli import options
from palaver.cli.output import errors, note, say
from palaver.core import need

HELP = """Measure the speed of steps, teams, programs and battles, and accept a GPU.

Each but `gpu` takes KEY=VALUE settings, which --explain lists.

[cyan]palaver bench step setting=C prompts=8[/cyan]

[cyan]palaver bench teams agents=4 size=80M[/cyan]

[cyan]palaver bench sandbox[/cyan]

[cyan]palaver bench pokemon[/cyan]

[cyan]palaver bench gpu --stage 1 --out right.jsonl[/cyan]
"""
GPU = """Accept a GPU in four stages: right numbers, decoding, updates, whole steps. Exit code 1 if a bound fails.

Weights are random in Qwen3-0.6B's shape, and nothing is fetched; a stage takes at most 10 minutes. Every measurement is
a line with PASS, FAIL, SKIP or INFO, and a JSON line of the file. On a CPU a tiny model runs, and what needs a GPU is
skipped by name.

[bold]Examples[/bold]

[cyan]palaver bench gpu --stage 1 --out right.jsonl[/cyan]

[cyan]palaver bench gpu --stage 2 --out decode.jsonl --device cuda:1[/cyan]
"""
POKEMON = """Turns per second of random players through pokemon-v1, and through poke-env if it is installed.

All are measured in turns in one run: poke-env's PettingZoo environment, and its players on a server of ours.

[bold]Examples[/bold]

[cyan]palaver bench pokemon[/cyan]

[cyan]palaver bench pokemon formats=gen1ou seconds=3 peers=false --json[/cyan]

[cyan]palaver bench pokemon formats=gen1ou endurance=10000 --out endurance.json[/cyan]

docs/showdown.md has measured numbers. It needs the simulator: [cyan]palaver pokemon install[/cyan]
"""
SANDBOX = """Time the scoring of programs: a cold start, one after the other, and side by side.

[bold]Examples[/bold]

[cyan]palaver bench sandbox[/cyan]

[cyan]palaver bench sandbox data=HumanEval.jsonl.gz workers=4 --json[/cyan]

[cyan]palaver bench sandbox data=mbpp.jsonl once=true[/cyan]
"""
STEP = """Time one training step on random weights: CPU time per prompt, by stage, next to the machine's limit.

[bold]Settings[/bold]: A to D are small models (D with Qwen's vocabulary); Qwen3-0.6B is that model's shape, for a GPU.

[bold]Examples[/bold]

[cyan]palaver bench step[/cyan]

[cyan]palaver bench step setting=C prompts=[1,8] repeats=5[/cyan]

[cyan]palaver bench step setting=D peer_python=PEER/bin/python peer_script=PEER_SCRIPT.py --json[/cyan]

[cyan]palaver bench step setting=Qwen3-0.6B device=cuda[/cyan]

A peer library runs in its own Python, alternating with ours; see docs/benchmarks.md for what its script must print.
"""
Report = Annotated[Path | None, options.out_file("Of the report, as JSON.")]
TEAMS = """Memory and step time of each kind of team on the same work, next to one agent that trains a whole model.

[bold]Kinds[/bold]: one (the baseline), separate, shared, lora, heterogeneous.

[bold]Sizes[/bold]: 0.1M, 25M, 80M, 145M, and Qwen3-0.6B for a GPU. Weights are random; nothing is downloaded.

[bold]Examples[/bold]

[cyan]palaver bench teams size=145M repeats=2 --out teams.json[/cyan]

[cyan]palaver bench teams agents=3 kinds=[one,lora] rank=8[/cyan]

[cyan]palaver bench teams size=Qwen3-0.6B device=cuda[/cyan]

docs/teams.md has measured numbers.
"""


app = options.group(help=HELP)


@app.command(help=STEP)
def step(settings: options.Settings = None, as_json: options.Json = False, explain: options.Explain = False) -> None:
    """Time one training step."""
    from palaver.benchmarks.performance.step import StepBenchmark, run

    plan = options.settings(StepBenchmark, settings)
    options.explain(plan) if explain else run(plan, as_json, note)


@app.command(help=SANDBOX)
def sandbox(settings: options.Settings = None, as_json: options.Json = False, explain: options.Explain = False) -> None:
    """Time the scoring of programs."""
    from palaver.benchmarks.performance.sandbox import SandboxBenchmark, run

    plan = options.settings(SandboxBenchmark, settings)
    options.explain(plan) if explain else run(plan, as_json)


@app.command(help=TEAMS)
def teams(
    settings: options.Settings = None,
    out: Report = None,
    as_json: options.Json = False,
    explain: options.Explain = False,
) -> None:
    """Measure memory and step time of each kind of team."""
    from palaver.benchmarks.performance.teams import TeamBenchmark, run

    plan = options.settings(TeamBenchmark, settings)
    if explain:
        options.explain(plan)
        return
    options.make_parent(out)
    run(plan, as_json=as_json, out=out, log=note)


@app.command(help=GPU)
def gpu(
    stage: Annotated[int, typer.Option(min=1, max=4, help="1 right, 2 decode, 3 update, 4 step.")],
    out: Annotated[Path, options.out_file("Of the measurements, a JSON object a line.")],
    device: options.Device = "auto",
) -> None:
    """Accept a GPU in four stages."""
    need("this benchmark", "train")
    from palaver.benchmarks.performance.gpu.run import run as accept

    failed = accept(stage, out, device, say)
    if failed:
        errors.print(Text(f"outside of their bounds: {', '.join(failed)}"), soft_wrap=True)
        raise typer.Exit(1)


@app.command(help=POKEMON)
def pokemon(
    settings: options.Settings = None,
    out: Report = None,
    as_json: options.Json = False,
    explain: options.Explain = False,
) -> None:
    """Measure turns per second of Pokémon battles."""
    need("this benchmark", "train", "psutil")
    from palaver.benchmarks.performance.pokemon.speed import PokemonBenchmarkConfig, endure, run

    plan = options.settings(PokemonBenchmarkConfig, settings)
    if explain:
        options.explain(plan)
        return
    options.make_parent(out)
    measure = endure if plan.endurance else run
    measure(plan, as_json=as_json, out=out, log=note)
