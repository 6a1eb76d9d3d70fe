"""Heat-map of an arena: scores of rows against columns for each team set, best first."""

from __future__ import annotations

from pathlib import Path

from palaver.benchmarks.reports.charts import Cell, Chart, save_png
from palaver.benchmarks.reports.plot_style import label
from palaver.trainers.matches.standings import PairTable, Standings


def draw(standings: Standings, path: Path) -> None:
    """Write the picture, a heat-map for each team set."""
    tables = standings.tables
    widest = max(len(rating.player) for table in tables for rating in table.ratings)
    max_players = max(len(table.ratings) for table in tables)
    wide, high = 1.6 + 0.085 * widest + 0.86 * max_players, 1.55 + 0.03 * widest + 0.6 * max_players
    columns = min(2, len(tables))
    rows = -(-len(tables) // columns)
    numbers = [*range(len(tables)), *[None] * (rows * columns - len(tables))]
    layout = [numbers[start : start + columns] for start in range(0, len(numbers), columns)]

    def panels(*charts: Chart) -> None:
        for chart, table in zip(charts, tables, strict=True):
            _panel(chart, table, standings)

    title = f"{standings.provenance.get('env', 'Arena')}: score of the row against the column, in percent"
    save_png(path, title, (max(6.6, wide * columns), high * rows + 0.5), panels, layout=layout)


def _panel(chart: Chart, table: PairTable, standings: Standings) -> None:
    names = [rating.player for rating in table.ratings]
    anchor = f"{label(standings.anchor)} at {standings.at:.0f}"
    chart.heatmap(
        [f"{label(rating.player, 24)}  {rating.elo:.0f}" for rating in table.ratings],
        [label(name, 24) for name in names],
        [[Cell() if one == two else _cell(table, one, two) for two in names] for one in names],
        f"{label(table.teamset, 50)}: {table.games:,} games; Elo, {anchor}",
        turned=True,
    )


def _cell(table: PairTable, one: str, two: str) -> Cell:
    met = table.cells.get((one, two))
    if met is None:
        return Cell(hatched=True)
    return Cell(f"{100 * met.score:.0f}", f"{100 * met.low:.0f}–{100 * met.high:.0f}", 2 * met.score - 1)
