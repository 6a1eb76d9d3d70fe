"""`palaver pokemon battles`: recorded battles, and import of human battles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from palaver.cli import options
from palaver.cli.output import console, count, errors, facts, note, print_error, say, table
from palaver.core import ConfigError, did_you_mean

if TYPE_CHECKING:
    from palaver.trainers.trajectories.files import TrajectoryEntry
    from palaver.trainers.trajectories.metamon import ImportResult
    from palaver.trainers.trajectories.reader import Reader

HELP = """Inspect and import recorded battles, the data of cloning.

[bold]Examples[/bold]

[cyan]palaver arena pokemon-v1 --players typed@1,random@1 --games 100 --record battles/typed[/cyan]

[cyan]palaver pokemon battles show battles/typed[/cyan]  [dim]# players, results and size[/dim]

[cyan]palaver pokemon battles show battles/typed --battle 0[/cyan]  [dim]# the decisions of one of them[/dim]

[cyan]palaver pokemon battles import-metamon REPLAYS --out battles/human[/cyan]  [dim]# metamon's parsed replays[/dim]
"""
SHOWN = 8  # maximum of broken files that are listed; the others are counted

app = options.group(help=HELP)


@app.command("show")
def show(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Of battles.")],
    battle: Annotated[str, typer.Option(help="Print this one: its name, or its number from 0.")] = "",
    side: Annotated[str, typer.Option(help="Side to show: p1 or p2.", show_default="the first")] = "",
) -> None:
    """Summarise recorded battles by players, results and size, or print one battle."""
    from palaver.trainers.trajectories.reader import Reader

    reader = Reader(folder)
    if battle:
        _battle(reader, _entry_index(reader, battle, side))
        return
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    decisions = sum(entry.decisions for entry in reader.entries)
    console.print(
        facts(
            {
                "battles": f"{len({entry.battle for entry in reader.entries}):,}",
                "trajectories": f"{len(reader):,}",
                "decisions": f"{decisions:,}",
                "formats": ", ".join(sorted({entry.format for entry in reader.entries})),
                "size": f"{size / 2**20:,.1f} MiB, {size / max(1, decisions):.0f} bytes a decision",
            }
        )
    )
    console.print()
    console.print(_pairings(reader.entries))


@app.command("import-metamon")
def import_metamon(
    folder: Annotated[Path, typer.Argument(metavar="REPLAYS", help="Folder of .json or .json.lz4, with sub-folders.")],
    out: Annotated[Path, options.out_folder("Of battles; those it holds stay.")],
) -> None:
    """Import human battles from the parsed replays that metamon publishes."""
    from palaver.trainers.trajectories.metamon import convert

    with errors.status("replays") as status:

        def report(done: ImportResult) -> None:
            if (done.trajectories + done.known) % 100 == 0:
                status.update(f"{done.trajectories:,} trajectories, {len(done.broken):,} broken")

        done = convert(folder, out, report)
    say(f"{count(done.trajectories, 'trajectory').replace('trajectorys', 'trajectories')} written to {out}")
    if done.known:
        note(f"{count(done.known, 'file')} had been imported before")
    for name, why in list(done.broken.items())[:SHOWN]:
        print_error(f"{name}: {why}")
    if done.broken:
        print_error(f"{count(len(done.broken), 'file')} broken and left out; the others were imported")
        raise typer.Exit(1)


def _entry_index(reader: Reader, battle: str, side: str) -> int:
    """Return the index of the selected trajectory."""
    indices = [n for n, entry in enumerate(reader.entries) if entry.battle == battle]
    if not indices and battle.isdecimal():
        names = list(dict.fromkeys(entry.battle for entry in reader.entries))
        if int(battle) >= len(names):
            raise ConfigError(f"there are {len(names)} battles, so there is no number {battle}; the first is 0")
        indices = [n for n, entry in enumerate(reader.entries) if entry.battle == names[int(battle)]]
    if not indices:
        raise ConfigError(
            f"there is no battle {battle!r}.{did_you_mean(battle, [e.battle for e in reader.entries[:1000]])}"
        )
    sides = {reader.entries[n].side: n for n in indices}
    if side and side not in sides:
        raise ConfigError(f"that battle has no side {side!r}; it has {' and '.join(sides)}")
    return sides[side] if side else indices[0]


def _pairings(entries: Sequence[TrajectoryEntry]) -> Table:
    """Table with a row for every player, opponent and team set."""
    results: dict[tuple[str, str, str], list[TrajectoryEntry]] = defaultdict(list)
    for entry in entries:
        results[entry.player, entry.opponent, entry.teamset].append(entry)
    right = ("trajectories", "won-tied-lost", "decisions")
    grid = table("player", "opponent", "team set", *right, right=right)
    for (player, opponent, teamset), battles in sorted(results.items()):
        ends = [sum(entry.result == result for entry in battles) for result in (1, 0.5, 0)]
        decisions = sum(entry.decisions for entry in battles)
        cells = (f"{len(battles):,}", "-".join(map(str, ends)), f"{decisions:,}")
        grid.add_row(Text(player, style="bold"), Text(opponent), Text(teamset), *cells)
    return grid


def _battle(reader: Reader, n: int) -> None:
    """Print one trajectory, decision by decision."""
    record = reader[n]
    ends = {1.0: "won", 0.5: "tied", 0.0: "lost"}[record.result]
    about = f"{record.battle}: {record.side}, {record.player} against {record.opponent}, {ends}; "
    about += f"{record.format}, {record.task}"
    say(Text(about, style="bold"))
    for decision in record.decisions:
        if decision.text:
            say("", decision.text)
        requested = "" if decision.requested == decision.executed else f"  (requested {decision.requested!r})"
        reward = f"  reward {decision.reward:+g}" if decision.reward else ""
        say(
            f"turn {decision.turn}: {decision.executed or 'not known'}, "
            f"of {count(len(decision.legal), 'action')}{requested}{reward}"
        )
