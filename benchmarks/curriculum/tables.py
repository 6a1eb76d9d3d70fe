"""Tables of a curriculum, for the terminal, the page and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from palaver.benchmarks.arena.tables import cell
from palaver.benchmarks.curriculum.records import GateCondition, Place, StageAttempt
from palaver.benchmarks.curriculum.story import Member, Story
from palaver.markdown import markdown_table, prose
from palaver.trainers.matches.standings import Gap, PairTable


@dataclass(frozen=True)
class Grid:
    """A table: its heading, a caption, the column headers, and the rows."""

    title: str
    note: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def grids(story: Story) -> list[Grid]:
    """All tables that are not empty."""
    report_grids = [stages(story), checks(story), tree(story)]
    if story.found is not None:
        report_grids += [ratings(story, table) for table in story.found.tables]
        report_grids += [gaps(story), untaught(story)]
        report_grids += [matrix(table) for table in story.found.tables]
    return [grid for grid in report_grids if grid.rows]


def stages(story: Story) -> Grid:
    """Battles and training of every attempt."""
    rows = [
        [
            verdict.pupil,
            verdict.parent or "fresh",
            ", ".join(verdict.taught_by),
            f"{verdict.played:,}",
            f"{verdict.decisions:,}",
            f"{verdict.steps:,}",
            _minutes(verdict),
            _outcome(story, verdict),
        ]
        for verdict in story.verdicts
    ]
    head = ["pupil", "from", "taught by", "battles", "decisions", "steps", "minutes", "gate"]
    note = "Decisions: seen in training, repeated ones too. Minutes: of playing, learning and rating."
    return Grid("Stages", note, head, rows)


def _minutes(verdict: StageAttempt) -> str:
    return " + ".join(f"{seconds / 60:.1f}" for seconds in verdict.seconds)


def _outcome(story: Story, verdict: StageAttempt) -> str:
    if verdict.passed:
        return "passed" if verdict.checks else "none"
    goes_on = story.state.promoted.get(verdict.stage)
    return "not passed, goes on" if goes_on and goes_on.pupil == verdict.pupil else "not passed"


def checks(story: Story) -> Grid:
    """Every condition with its value and result."""
    rows = [
        [verdict.pupil, check.asks, *_measured(check), "yes" if check.passed else "no"]
        for verdict in story.verdicts
        for check in verdict.checks
    ]
    return Grid(
        "Gates", "Scores and drops in points, ratings in Elo.", ["pupil", "asks", "found", "95 %", "reached"], rows
    )


def _measured(check: GateCondition) -> tuple[str, str]:
    elo = " Elo on " in check.asks
    scale = 1 if elo else 100
    ends = "–" if check.low is None or check.high is None else f"{scale * check.low:.0f} to {scale * check.high:.0f}"
    return f"{scale * check.found:.{0 if elo else 1}f}", ends


def tree(story: Story) -> Grid:
    """The family tree, children indented under their parents."""
    family = story.family()
    rows: list[list[str]] = []

    def add(member: Member, depth: int) -> None:
        mark = "" if member.promoted else "not promoted"
        rows.append(
            [
                "  " * depth + ("└ " if depth else "") + member.label,
                ", ".join(member.taught_by),
                mark,
                *(rating(member.places.get(teamset)) for teamset in story.sets),
            ]
        )
        for child in family:
            if child.pupil and child.parent == member.label:
                add(child, depth + 1)

    for member in family:
        if member.pupil and not member.parent:
            add(member, 0)
    note = "Who started from whom, with Elo in the last arena."
    return Grid("Family", note, ["pupil", "taught by", "", *story.sets], rows)


def rating(entry: Place | None) -> str:
    """Elo and its interval.

    >>> rating(Place("a", "x", 1234.4, 1200.0, 1260.0, True)), rating(None)
    ('1234 [1200, 1260]', '–')
    """
    return "–" if entry is None else f"{entry.elo:.0f} [{entry.low:.0f}, {entry.high:.0f}]"


def ratings(story: Story, table: PairTable) -> Grid:
    """Ratings of all players in the arena on one team set."""
    assert story.found is not None
    rows = []
    for entry in table.ratings:
        row = table.conduct[entry.player]
        anchor = entry.player == story.found.anchor
        ends = "anchor" if anchor else f"{entry.low:.0f} to {entry.high:.0f}" + ("" if entry.bounded else " *")
        rows.append(
            [entry.player, f"{entry.elo:.0f}", ends, f"{100 * row.score:.1f}", f"{row.games:,}", f"{row.ms:.2f}"]
        )
    note = f"{table.games:,} games, over-dispersion {table.dispersion:.2f}. *: nothing bounds the interval's far end."
    return Grid(f"Ratings on {table.teamset}", note, ["player", "Elo", "95 %", "score %", "games", "ms"], rows)


def gaps(story: Story) -> Grid:
    """Scores on the team set trained on less those on the others."""
    assert story.found is not None
    first = story.found.tables[0].teamset
    rows = [
        [gap.player, gap.teamset, f"{100 * gap.seen:.1f}", f"{100 * gap.other:.1f}", _gap(gap)]
        for gap in story.found.gaps
    ]
    note = "In points, with Welch's 95 % interval. Above 0 the player does worse on the other set than the field."
    return Grid("Generalisation gap", note, ["player", "other set", f"on {first}", "on the other", "gap"], rows)


def _gap(gap: Gap) -> str:
    ends = "" if gap.low is None or gap.high is None else f" [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"
    return f"{100 * gap.gap:+.1f}{ends}"


def untaught(story: Story) -> Grid:
    """The last student against every opponent that taught neither it nor its ancestors."""
    assert story.found is not None
    last = (list(story.state.promoted.values()) or list(story.verdicts))[-1]
    rows = [
        [name, *(cell(table.cells.get((last.pupil, name))) for table in story.found.tables)]
        for name in story.untaught(last)
    ]
    note = f"Scores of {last.pupil} with 95 % intervals and won-tied-lost, against players it has learnt nothing from."
    return Grid(f"{last.pupil} against strangers", note, ["opponent", *story.sets], rows)


def matrix(table: PairTable) -> Grid:
    """Scores of all pairs of players."""
    names = [rating.player for rating in table.ratings]
    rows = [[one, *("" if one == two else _short(table, one, two) for two in names)] for one in names]
    return Grid(
        f"Who beats whom on {table.teamset}", "Score of the row against the column, in percent.", ["", *names], rows
    )


def _short(table: PairTable, one: str, two: str) -> str:
    met = table.cells.get((one, two))
    return "–" if met is None else f"{100 * met.score:.0f} [{100 * met.low:.0f}, {100 * met.high:.0f}]"


def markdown(report_grids: Sequence[Grid]) -> str:
    """The tables for a page of the documentation."""
    parts = []
    for grid in report_grids:
        head, *rows = ([prose(cell) for cell in row] for row in (grid.head, *grid.rows))
        parts.append(f"## {prose(grid.title)}\n\n{grid.note}\n\n{markdown_table(head, rows)}\n")
    return "\n".join(parts)
