"""`palaver export`: what other libraries train, evaluate and show agents with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palaver.benchmarks.doors.partners import DEFAULT_PARTNERS
from palaver.cli import options
from palaver.cli.output import count, say
from palaver.core import need
from palaver.registry import spec
from palaver.utils.config import parse_overrides

HELP = """Write what another library trains, evaluates or shows agents with.

[bold]Examples[/bold]

[cyan]palaver export trl arxiv-v0 --agent background --out my-training[/cyan]

[cyan]palaver export inspect episodes.jsonl --out logs/arxiv.eval[/cyan]
"""
TRL = """Write scripts that train one agent with TRL; the others are partners.

[bold]Examples[/bold]

[cyan]palaver export trl arxiv-v0 --agent background --out my-training[/cyan]

[cyan]palaver export trl echo-v0 num_turns=2 --agent a1 --team random[/cyan]

[cyan]palaver export trl arxiv-v0 --agent method --team run:runs/FOLDER[/cyan]

train.py plays whole episodes (rollout_func), with any model; train_with_tools.py lets the model call a tool to act.
"""
INSPECT = """Write stored episodes as a log that Inspect's viewer opens.

[bold]Example[/bold]

[cyan]palaver evaluate arxiv-v0 --team random --out episodes.jsonl[/cyan]

[cyan]palaver export inspect episodes.jsonl --out logs/arxiv.eval && inspect view --log-dir logs[/cyan]
"""
OPENENV = """Write a package with an OpenEnv server of an environment, for all agents or for one among partners.

[bold]Examples[/bold]

[cyan]palaver export openenv arxiv-v0 --out arxiv && cd arxiv && uvicorn server.app:app --port 8000[/cyan]

[cyan]palaver export openenv arxiv-v0 "length=[32,64]" --agent background --team random --out background[/cyan]
"""
VERIFIERS = """Write a package for verifiers, in which every agent of an environment is a role with a model of its own.

[bold]Example[/bold]

[cyan]palaver export verifiers arxiv-v0 "length=[32,64]" --out arxiv && pip install ./arxiv[/cyan]

[cyan]vf-eval palaver-arxiv-v0 --model MODEL --no-push[/cyan]
"""
PAIRS_HELP = "Keywords of the environment; values are YAML."
TEAM_HELP = "Policy of the other agents: for all, or per agent as a=hf:X,b=scripted:NAME."

app = options.group(help=HELP)


@app.command(name="trl", help=TRL)
def trl_scripts(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Environment, as arxiv-v0.")],
    pairs: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help=PAIRS_HELP)] = None,
    agent: Annotated[str, typer.Option(help="Agent that is trained.", show_default=False)] = ...,  # type: ignore[assignment]
    team: Annotated[str, typer.Option("--team", "-t", help=TEAM_HELP)] = DEFAULT_PARTNERS,
    out: Annotated[Path | None, options.out_folder("Of the new scripts.", "trl-NAME-AGENT")] = None,
) -> None:
    """Write scripts that train one agent with TRL."""
    from palaver.benchmarks.doors.trl.export import export_trl

    folder = out or Path(f"trl-{spec(env).id}-{agent}")
    paths = export_trl(env, agent, folder, team, parse_overrides(pairs or []))
    for path in paths:
        say(str(path))
    say(f"python {paths[0]} --help")


@app.command(name="openenv", help=OPENENV)
def openenv_package(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Environment, as arxiv-v0.")],
    pairs: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help=PAIRS_HELP)] = None,
    agent: Annotated[str, typer.Option(help="Agent that clients play.", show_default="all")] = "",
    team: Annotated[str, typer.Option("--team", "-t", help=TEAM_HELP)] = DEFAULT_PARTNERS,
    out: Annotated[Path | None, options.out_folder("Of the new package.", "openenv-NAME")] = None,
) -> None:
    """Write a package with an OpenEnv server."""
    from palaver.benchmarks.doors.openenv.export import export_openenv

    folder = out or Path(f"openenv-{spec(env).id}".replace("/", "-"))
    export_openenv(env, folder, agent, team, parse_overrides(pairs or []))
    say(f"cd {folder} && uvicorn server.app:app --port 8000")


@app.command(name="verifiers", help=VERIFIERS)
def verifiers_package(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Environment, as arxiv-v0.")],
    pairs: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help=PAIRS_HELP)] = None,
    out: Annotated[Path | None, options.out_folder("Of the new package.", "verifiers-NAME")] = None,
) -> None:
    """Write a package for verifiers."""
    from palaver.benchmarks.doors.verifiers.export import export_verifiers

    folder = out or Path(f"verifiers-{spec(env).id}".replace("/", "-"))
    name = export_verifiers(env, folder, parse_overrides(pairs or []))
    say(f"pip install {folder if folder.is_absolute() else f'./{folder}'} && vf-eval {name}")


@app.command(name="inspect", help=INSPECT)
def inspect_log(
    episodes: Annotated[Path, typer.Argument(metavar="EPISODES", help="JSON lines, as evaluate --out writes them.")],
    out: Annotated[Path, options.out_file("The log, which ends with .eval or .json.")],
) -> None:
    """Write stored episodes as a log of Inspect."""
    need("a log of Inspect", "inspect", "inspect_ai")
    from palaver.benchmarks.doors.inspect_ai.export import export_episodes

    say(f"{out}: {count(export_episodes(episodes, out), 'episode')}")
