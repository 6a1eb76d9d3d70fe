"""`palaver results`: work on episodes and runs that exist."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from palaver.cli import options
from palaver.cli.commands.evaluate import save
from palaver.cli.groups import sweep
from palaver.cli.output import console, count, facts, note, say
from palaver.core import ConfigError, need
from palaver.utils.config import merged, parse_overrides
from palaver.utils.run_folder import publish_folder, replace_text, writing

if TYPE_CHECKING:
    from palaver.benchmarks.evaluation.credit import Credit
    from palaver.benchmarks.evaluation.messages import MessageWorth
    from palaver.benchmarks.evaluation.rescore import RescoreResult

HELP = """Score stored episodes again, analyse the credit of a run, and write its model card.

[bold]Examples[/bold]

[cyan]palaver results rescore runs/FOLDER/episodes/eval-000130.jsonl gated=false[/cyan]

[cyan]palaver results analyse runs/FOLDER[/cyan]

[cyan]palaver results card runs/FOLDER[/cyan]
"""
RESCORE = """Score stored episodes again, with other rewards.

[bold]Examples[/bold]

[cyan]palaver results rescore rows/arxiv-v0--reference.json "length=[32,64]"[/cyan]

[cyan]palaver results rescore runs/FOLDER/episodes/eval-000130.jsonl gated=false[/cyan]

[cyan]palaver results rescore rows/echo-v0--random.jsonl.gz --row again[/cyan]  [dim]# a new row, naming the old[/dim]

The keywords are those of the row next to the episodes, or of their run, overridden by KEY=VALUE.
"""
ANALYSE = """Measure credit fidelity and inter-agent influence of a run, or the worth of a team's messages.

[bold]Examples[/bold]

[cyan]palaver results analyse runs/FOLDER[/cyan]

[cyan]palaver results analyse runs/FOLDER --contexts 64 --replays 16 --json[/cyan]

[cyan]palaver results analyse runs/FOLDER --messages[/cyan]  [dim]# removed, shuffled, silenced[/dim]

[cyan]palaver results analyse rows/hidden-profile-v0--reference.json --tasks 32[/cyan]

Single messages of the run's own rollouts are replayed with fresh texts of the other agents and fresh continuations.
With --messages, and for stored episodes, whole episodes are played again without messages, with shuffled ones,
and with one agent silenced. The table of a run is kept as messages.json in its folder; palaver report draws it, and
palaver view shows each message of the episodes, the facts in it and what changes without it.
"""
EPISODES = (".json", ".jsonl", ".gz")  # of rows and of stored episodes
CARD = """Write the model card of a run, and a data card of episodes, for the Hugging Face hub.

[bold]Examples[/bold]

[cyan]palaver results card runs/FOLDER[/cyan]

[cyan]palaver results card runs/FOLDER --data runs/FOLDER/episodes/eval-000130.jsonl --out team[/cyan]

[cyan]palaver results card runs/FOLDER --push OWNER/NAME[/cyan]  [dim]# a private repository, until you open it[/dim]

FOLDER/model holds the card, the weights of the newest checkpoint, the config and metrics; FOLDER/dataset the episodes.
"""

app = options.group(help=HELP)


app.command("sweep", help=sweep.HELP)(sweep.sweep)


@app.command(help=RESCORE)
def rescore(
    episodes: Annotated[Path, typer.Argument(help="A row, or a JSON-lines file of episodes, packed or not.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Keywords of the environment; values are YAML.")
    ] = None,
    env: Annotated[str, typer.Option(help="The environment.", show_default="the one that the episodes name")] = "",
    workers: Annotated[int, typer.Option(min=1, help="Threads that step environments.")] = 1,
    out: Annotated[Path | None, options.out_file("Of the new episodes, one JSON object a line.")] = None,
    row: Annotated[Path | None, typer.Option(help="Keep a new row, with its episodes, in this folder.")] = None,
    label: Annotated[str, typer.Option(help="Name of the new row in tables.", show_default="LABEL-rescored")] = "",
    as_json: options.Json = False,
) -> None:
    """Rescore stored episodes."""
    from palaver.benchmarks.evaluation import rescore as scoring

    options.make_parent(out)
    source = scoring.source(episodes, env)
    if row is not None and source.row is None:
        raise ConfigError("--row needs episodes with a row in the same folder; for others use --out")
    if source.keywords is None:
        note("there is neither a row nor a run with the keywords of these episodes: defaults and KEY=VALUE are used")
    wanted = merged(source.keywords or {}, parse_overrides(changes or []))
    result, played = scoring.rescore(source, wanted, workers)
    if out is not None:
        save(played, out)
    if row is not None and source.row is not None:
        entry = scoring.new_row(source, wanted, played, label or f"{source.row.label}-rescored", row, result.scoring)
        note(f"row {row / entry.name}.json")
    typer.echo(json.dumps(asdict(result), indent=2)) if as_json else _show_changes(result)


def _show_changes(result: RescoreResult) -> None:
    """Print the changes."""
    from palaver.benchmarks.reports.summary import interval

    def episodes(n: int) -> str:
        return count(n, "episode")

    say(Text(f"{result.before:.3f} → {result.after:.3f}", style="bold"), Text(f"mean of {episodes(result.n)}"))
    console.print(
        facts(
            [
                ("difference", f"{result.difference:+.3f} {interval(result.low, result.high)}"),
                ("other reward", episodes(result.changed)),
                ("other observations", f"{episodes(result.reobserved)}, with answers to the recorded observations"),
                ("other end", episodes(result.ended)),
                *([("not scored", f"{episodes(result.unscored)}, left out")] if result.unscored else []),
            ]
        )
    )


@app.command(help=ANALYSE)
def analyse(
    run: Annotated[Path, typer.Argument(metavar="RUN|EPISODES", help="The folder of a run, a row, or its episodes.")],
    messages: Annotated[bool, typer.Option("--messages", help="The worth of messages, not credit.")] = False,
    team: Annotated[str, typer.Option(help="The team of the episodes.", show_default="that of their row")] = "",
    tasks: Annotated[int, typer.Option(min=1, help="Tasks rolled out as in a training step, or analysed.")] = 4,
    contexts: Annotated[int, typer.Option(min=1, help="Contexts whose messages are replayed.")] = 16,
    alternatives: Annotated[int, typer.Option(min=2, help="Fresh messages in each context.")] = 8,
    replays: Annotated[int, typer.Option(min=1, help="Replays of each message.")] = 4,
    seed: Annotated[int, typer.Option(help="Of every draw.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Threads that step environments.")] = 1,
    as_json: options.Json = False,
) -> None:
    """Measure how well a run's advantages predict the effect of single messages."""
    if messages or run.is_file() or run.suffix in EPISODES:
        _analyse_messages(run, team, tasks, seed, as_json)
        return
    need("the analysis of credit", "train")
    from palaver.benchmarks.evaluation.credit import Effort, of_run

    result = of_run(run, Effort(tasks, contexts, alternatives, replays, seed, workers))
    typer.echo(json.dumps(asdict(result), indent=2)) if as_json else _show_credit(result)


def _analyse_messages(run: Path, team: str, tasks: int, seed: int, as_json: bool) -> None:
    """Print what the messages of a team are worth."""
    from palaver.benchmarks.evaluation.messages import of_episodes, of_run
    from palaver.benchmarks.viewer.messages import MESSAGES
    from palaver.benchmarks.viewer.sources import ANALYSED

    if run.is_dir():
        need("the analysis of a run", "train")
        result, episodes = of_run(run, tasks, seed)
    else:
        result, episodes = of_episodes(run, team, tasks, seed)
    table = json.dumps(asdict(result), indent=2)
    typer.echo(table) if as_json else _show_messages(result)
    if run.is_dir():  # after it was printed, for the folder may be read-only
        with writing(run):
            replace_text(run / ANALYSED, "".join(json.dumps(episode.to_dict()) + "\n" for episode in episodes))
            replace_text(run / MESSAGES, table)
        note(f"kept as {run / MESSAGES}; palaver report {run} draws it, and its episodes are in the viewer")


def _show_messages(result: MessageWorth) -> None:
    """Print the table."""
    from palaver.benchmarks.reports.summary import interval

    effects = [
        (name, f"{effect.mean:.3f}, {effect.difference:+.3f} {interval(effect.low, effect.high)}")
        for name, effect in result.effects.items()
    ]
    influence = [
        (f"{sender} on {receiver}", f"{share:.2f} of its later texts change without")
        for sender, row in result.influence.items()
        for receiver, share in row.items()
    ]
    held = result.facts
    known = [("hidden facts", f"{held.sent:.2f} sent, {held.used:.2f} of these used")] if held is not None else []
    console.print(
        facts(
            [
                ("return", f"{result.mean:.3f}, {result.return_per_100_tokens:.3f} per 100 tokens"),
                ("messages", f"{result.messages:.1f} an episode, of {result.tokens:.0f} tokens in all"),
                *effects,
                *influence,
                *known,
            ]
        )
    )


def _show_credit(result: Credit) -> None:
    """Print the diagnostics."""
    fidelity = "not defined: all equal" if result.fidelity is None else f"{result.fidelity:+.2f}"
    console.print(
        facts(
            [
                ("credit fidelity", f"{fidelity} (rank correlation of advantage and effect)"),
                ("within-group variance", f"{result.variance:.4g}"),
                ("inter-agent influence", f"{result.influence:.3f} nats, {result.chance:.3f} by chance"),
                ("measured on", f"{count(result.rows, 'message')} in {count(result.contexts, 'context')}"),
                ("replays", str(result.replays)),
            ]
        )
    )


@app.command(help=CARD)
def card(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    data: Annotated[Path | None, typer.Option(help="A JSON-lines file of episodes, packed or not.")] = None,
    out: Annotated[Path | None, options.out_folder("Of the new cards.", "RUN/hub")] = None,
    repository: Annotated[
        str, typer.Option("--push", metavar="OWNER/NAME", help="Upload to these repositories of the hub.")
    ] = "",
) -> None:
    """Write the model card of a run and the data card of episodes."""
    need("a model card", "train", "huggingface_hub", "torch", "datasets")
    from palaver.benchmarks.cards import data_card, hub, model_card
    from palaver.benchmarks.reports.run_folder import read

    source = read(run)
    folder = out or run / "hub"
    if repository:
        hub.refuse_no_repository(repository)
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(
            f"{str(folder)!r} is not empty, and its cards may have been edited: remove it, or name another --out"
        )

    def fill(folder: Path) -> None:
        (folder / "model").mkdir()
        model_card.write_model(source, folder / "model")
        if data is not None:
            (folder / "dataset").mkdir()
            data_card.write_data(data, folder / "dataset")

    with writing(folder.parent):
        publish_folder(folder, fill)
    for part in sorted(folder.iterdir()):
        say(str(part / model_card.README))
        if repository:
            say(hub.push(part, repository, "dataset" if part.name == "dataset" else "model"))
