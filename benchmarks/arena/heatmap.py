"""Heat-map of an arena: scores of rows against columns for each team set, best first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from palaver.benchmarks.reports import plot_style as theme
from palaver.trainers.matches.standings import PairTable, Standings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIN, EVEN, LOSS = theme.PAPER.series[0], "#f3f5f9", theme.PAPER.series[1]
DARK = 0.3  # farther than this from even, letters are white


def draw(standings: Standings, path: Path) -> None:
    """The picture, a panel for each team set."""
    widest = max(len(rating.player) for table in standings.tables for rating in table.ratings)
    max_players = max(len(table.ratings) for table in standings.tables)
    wide, high = 1.6 + 0.085 * widest + 0.86 * max_players, 1.55 + 0.03 * widest + 0.6 * max_players
    columns = min(2, len(standings.tables))
    rows = -(-len(standings.tables) // columns)
    drawing = theme.figure(max(6.6, wide * columns), high * rows + 0.5)
    title = f"{standings.provenance.get('env', 'Arena')}: score of the row against the column, in percent"
    theme.entitle(drawing, theme.label(title, 90))
    places = drawing.subplots(rows, columns, squeeze=False).ravel()
    for ax, table in zip(places, standings.tables, strict=False):
        _panel(ax, table, standings)
    for ax in places[len(standings.tables) :]:
        ax.set_axis_off()
    theme.save_png(drawing, str(path))


def _panel(ax: Axes, table: PairTable, standings: Standings) -> None:
    names = [rating.player for rating in table.ratings]
    for y, one in enumerate(names):
        for x, two in enumerate(names):
            _cell(ax, x, y, table, one, two)
    size = len(names)
    ax.set_xlim(-0.5, size - 0.5)
    ax.set_ylim(size - 0.5, -0.5)
    ax.set_xticks(
        range(size), [theme.label(name, 24) for name in names], rotation=35, ha="left", rotation_mode="anchor"
    )
    ax.set_yticks(range(size), [f"{theme.label(r.player, 24)}  {r.elo:.0f}" for r in table.ratings])
    ax.xaxis.tick_top()
    ax.tick_params(length=0, labelsize=9, colors=theme.PAPER.ink)
    for side in ax.spines.values():
        side.set_visible(False)
    anchor = f"{theme.label(standings.anchor)} at {standings.at:.0f}"
    caption = f"{theme.label(table.teamset, 50)}: {table.games:,} games; Elo, {anchor}"
    ax.set_xlabel(caption, fontsize=8.5, color=theme.PAPER.muted, labelpad=8)


def _cell(ax: Axes, x: int, y: int, table: PairTable, one: str, two: str) -> None:
    from matplotlib.patches import Rectangle

    cell = table.cells.get((one, two))
    color = theme.PAPER.grid if cell is None else blend(cell.score)
    if one == two:
        color = "white"
    ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=color, edgecolor="white", linewidth=1.5))
    if cell is None:
        return
    ink = "white" if abs(cell.score - 0.5) >= DARK else theme.PAPER.ink
    ax.text(x, y - 0.12, f"{100 * cell.score:.0f}", ha="center", va="center", fontsize=10, color=ink)
    interval = f"{100 * cell.low:.0f}–{100 * cell.high:.0f}"
    ax.text(x, y + 0.24, interval, ha="center", va="center", fontsize=6.5, color=ink)


def blend(score: float) -> tuple[float, float, float]:
    """From the colour of a loss through a pale one to that of a win."""
    from matplotlib.colors import to_rgb

    far = 2 * abs(score - 0.5)
    ends = zip(to_rgb(EVEN), to_rgb(WIN if score > 0.5 else LOSS), strict=True)
    red, green, blue = (pale + far * (full - pale) for pale, full in ends)
    return red, green, blue
