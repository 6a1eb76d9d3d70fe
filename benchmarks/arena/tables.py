"""The tables of an arena as Markdown, CSV and JSON."""

from __future__ import annotations

import json
from pathlib import Path

from palaver.benchmarks.reports.charts import Cell, Chart, label, save_figure
from palaver.markdown import code_block, prose
from palaver.text import one_line
from palaver.trainers.matches.standings import PairResult, PairTable, Standings
from palaver.utils.run_folder import replace_text, writing
from palaver.utils.tables import Table

STEM = "arena"
NAME = 24  # most characters of a player's name in the picture
COLUMNS = (
    *("teamset", "player", "elo", "low", "high", "deviation", "bounded", "gxe", "games", "wins", "ties", "losses"),
    *("score", "decisions", "illegal", "ms"),
)


def write(standings: Standings, folder: Path) -> list[Path]:
    """Write `arena.md`, `arena.csv`, `pairs.csv`, `arena.json`, `arena.png`; return the paths.

    Raises:
        ConfigError: the folder cannot be written.
    """
    texts = {
        f"{STEM}.md": markdown(standings),
        f"{STEM}.csv": ratings_csv(standings),
        "pairs.csv": pairs_csv(standings),
        f"{STEM}.json": json.dumps(standings.to_dict(), indent=1) + "\n",
    }
    image = folder / f"{STEM}.png"
    with writing(folder):
        for name, text in texts.items():
            replace_text(folder / name, text)
        draw(standings, image)
    return [*(folder / name for name in texts), image]


def markdown(standings: Standings) -> str:
    """All tables, each explained in a line."""
    head = f"# Arena: {prose(standings.provenance['env'])}\n" if "env" in standings.provenance else "# Arena\n"
    parts = [head]
    if command := standings.provenance.get("command"):
        parts.append(code_block(command, "bash") + "\n")
    for table in standings.tables:
        parts += [f"## {prose(table.teamset, 60)}\n", _noted(ratings(standings, table)), _noted(matrix(table))]
    if standings.gaps:
        first = prose(standings.tables[0].teamset, 60)
        parts += [f"## Generalisation: {first} against the other sets\n", _noted(gaps(standings))]
    if standings.failed:
        parts.append(f"{standings.failed} games failed and do not count; `--resume` plays them again.\n")
    return "\n".join(parts)


def _noted(table: Table) -> str:
    return f"{table.grid()}\n\n{prose(table.note)}\n"


def ratings(standings: Standings, table: PairTable) -> Table:
    """Ratings of all players on one team set."""
    rows = []
    for rating in table.ratings:
        row = table.conduct[rating.player]
        ends = "anchor" if rating.player == standings.anchor else f"{rating.low:.0f} to {rating.high:.0f}"
        rows.append(
            [
                _name(rating.player),
                f"{rating.elo:.0f}",
                ends + ("" if rating.bounded else " *"),
                f"{rating.gxe:.1f}",
                f"{100 * row.score:.1f} %",
                f"{row.wins} / {row.ties} / {row.losses}",
                percent(row.illegal),
                f"{row.ms:.2f}",
            ]
        )
    head = ["player", "Elo", "95 %", "GXE", "score", "won / tied / lost", "illegal", "ms a decision"]
    note = (
        f"{table.games:,} games, {table.turns:.1f} turns a game. Elo by Bradley and Terry, {_name(standings.anchor)} "
        f"at {standings.at:.0f}; over-dispersion {table.dispersion:.2f}."
    )
    if not all(rating.bounded for rating in table.ratings):
        note += " * won or lost all that links it with the anchor: the far end is not bounded by the results."
    if table.truncated:
        note += f" {table.truncated} games were ended by an outer limit."
    return _numbers(f"Ratings on {table.teamset}", note, head, rows)


def matrix(table: PairTable) -> Table:
    """Scores of all pairs of players."""
    names = [rating.player for rating in table.ratings]
    rows = [[_name(one), *("" if one == two else cell(table.cells.get((one, two))) for two in names)] for one in names]
    note = "Score of the row against the column, 95 % interval, won-tied-lost."
    return _numbers(f"Scores on {table.teamset}", note, ["", *map(_name, names)], rows)


def cell(result: PairResult | None) -> str:
    """Cell of the matrix: score in percent, interval, counts; – for players that have not met."""
    if result is None:
        return "–"
    low, high = 100 * result.low, 100 * result.high
    return f"{100 * result.score:.1f} [{low:.0f}, {high:.0f}] {result.wins}-{result.ties}-{result.losses}"


def percent(share: float | None) -> str:
    """Format a rate in percent; – if unknown."""
    return "–" if share is None else f"{100 * share:.1f} %"


def gaps(standings: Standings) -> Table:
    """Scores on the first team set less those on the others."""
    rows = [
        [
            _name(gap.player),
            _name(gap.teamset),
            f"{100 * gap.seen:.1f} %",
            f"{100 * gap.other:.1f} %",
            f"{100 * gap.gap:+.1f}",
            "–" if gap.low is None or gap.high is None else f"{100 * gap.low:+.1f} to {100 * gap.high:+.1f}",
        ]
        for gap in standings.gaps
    ]
    first = _name(standings.tables[0].teamset)
    head = ["player", "other set", f"score on {first}", "on the other", "gap", "95 %"]
    note = "Gaps in percentage points; above 0 the player does worse on the other set."
    return _numbers("Generalisation gap", note, head, rows)


def _numbers(title: str, note: str, head: list[str], rows: list[list[str]]) -> Table:
    return Table(title, note, head, rows, right=range(1, len(head)), bold=True)


def _name(text: str) -> str:
    return one_line(text, 60)


def ratings_csv(standings: Standings) -> str:
    """A row for every player on every team set."""
    rows = [
        [
            table.teamset,
            *(getattr(rating, name, None) for name in COLUMNS[1:8]),
            *(getattr(table.conduct[rating.player], name) for name in COLUMNS[8:]),
        ]
        for table in standings.tables
        for rating in table.ratings
    ]
    return Table(head=COLUMNS, rows=rows).csv()


def pairs_csv(standings: Standings) -> str:
    """A row for every ordered pair on every team set."""
    names = ("teamset", "player", "opponent", "wins", "ties", "losses", "score", "low", "high")
    rows = [
        [table.teamset, *(getattr(result, name) for name in names[1:])]
        for table in standings.tables
        for result in table.cells.values()
    ]
    return Table(head=names, rows=rows).csv()


def draw(standings: Standings, path: Path) -> None:
    """Write the picture, a heat-map for each team set."""
    tables = standings.tables
    widest = max(len(label(rating.player, NAME)) for table in tables for rating in table.ratings)
    max_players = max(len(table.ratings) for table in tables)
    wide, high = 1.6 + 0.085 * widest + 0.86 * max_players, 1.55 + 0.03 * widest + 0.6 * max_players
    wide = max(wide, 2.0 + 0.16 * widest + 0.5 * max_players)  # names of few players are wider than their columns
    columns = min(2, len(tables))
    rows = -(-len(tables) // columns)
    numbers = [*range(len(tables)), *[None] * (rows * columns - len(tables))]
    layout = [numbers[start : start + columns] for start in range(0, len(numbers), columns)]

    def panels(*charts: Chart) -> None:
        for chart, table in zip(charts, tables, strict=True):
            _panel(chart, table, standings)

    title = f"{standings.provenance.get('env', 'Arena')}: score of the row against the column, in percent"
    save_figure(path, title, (max(6.6, wide * columns), high * rows + 0.5), panels, layout=layout)


def _panel(chart: Chart, table: PairTable, standings: Standings) -> None:
    names = [rating.player for rating in table.ratings]
    anchor = f"{label(standings.anchor)} at {standings.at:.0f}"
    chart.heatmap(
        [f"{label(rating.player, NAME)}  {rating.elo:.0f}" for rating in table.ratings],
        [label(name, NAME) for name in names],
        [[Cell() if one == two else _cell(table, one, two) for two in names] for one in names],
        f"{label(table.teamset, 50)}: {table.games:,} games; Elo, {anchor}",
        turned=True,
    )


def _cell(table: PairTable, one: str, two: str) -> Cell:
    met = table.cells.get((one, two))
    if met is None:
        return Cell(hatched=True)
    return Cell(f"{100 * met.score:.0f}", f"{100 * met.low:.0f}–{100 * met.high:.0f}", 2 * met.score - 1)
