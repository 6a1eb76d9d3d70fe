"""Tables of a curriculum, for the terminal, the page and Markdown."""

from __future__ import annotations

from palaver.benchmarks.arena.tables import cell
from palaver.benchmarks.reports.curriculum.data import CurriculumReport, Member
from palaver.trainers.curriculum.state import GateCondition, PlayerRating, StageAttempt
from palaver.trainers.matches.standings import Gap, PairTable
from palaver.utils.tables import Table


def report_tables(report: CurriculumReport) -> list[Table]:
    """All tables that are not empty."""
    tables = [stages(report), checks(report), tree(report)]
    if report.standings is not None:
        tables += [ratings(report, table) for table in report.standings.tables]
        tables += [gaps(report), untaught(report)]
        tables += [matrix(table) for table in report.standings.tables]
    return [table for table in tables if table.rows]


def stages(report: CurriculumReport) -> Table:
    """Battles and training of every attempt."""
    rows = [
        [
            verdict.student,
            verdict.parent or "fresh",
            ", ".join(verdict.taught_by),
            f"{verdict.played:,}",
            f"{verdict.decisions:,}",
            f"{verdict.steps:,}",
            _minutes(verdict),
            _outcome(report, verdict),
        ]
        for verdict in report.verdicts
    ]
    head = ["student", "from", "taught by", "battles", "decisions", "steps", "minutes", "gate"]
    note = "Decisions: seen in training, repeated ones too. Minutes: of playing, learning and rating."
    return Table("Stages", note, head, rows)


def _minutes(verdict: StageAttempt) -> str:
    return " + ".join(f"{seconds / 60:.1f}" for seconds in verdict.seconds)


def _outcome(report: CurriculumReport, verdict: StageAttempt) -> str:
    if verdict.passed:
        return "passed" if verdict.checks else "none"
    goes_on = report.state.promoted.get(verdict.stage)
    return "not passed, promoted" if goes_on and goes_on.student == verdict.student else "not passed"


def checks(report: CurriculumReport) -> Table:
    """Every condition with its value and result."""
    rows = [
        [verdict.student, check.asks, *_measured(check), "yes" if check.passed else "no"]
        for verdict in report.verdicts
        for check in verdict.checks
    ]
    return Table(
        "Gates", "Scores and drops in points, ratings in Elo.", ["student", "asks", "found", "95 %", "reached"], rows
    )


def _measured(check: GateCondition) -> tuple[str, str]:
    elo = " Elo on " in check.asks
    scale = 1 if elo else 100
    ends = "–" if check.low is None or check.high is None else f"{scale * check.low:.0f} to {scale * check.high:.0f}"
    return f"{scale * check.found:.{0 if elo else 1}f}", ends


def tree(report: CurriculumReport) -> Table:
    """The family tree, children indented under their parents."""
    family = report.family()
    rows: list[list[str]] = []

    def add(member: Member, depth: int) -> None:
        mark = "" if member.promoted else "not promoted"
        rows.append(
            [
                "  " * depth + ("└ " if depth else "") + member.label,
                ", ".join(member.taught_by),
                mark,
                *(rating(member.places.get(teamset)) for teamset in report.sets),
            ]
        )
        for child in family:
            if child.student and child.parent == member.label:
                add(child, depth + 1)

    for member in family:
        if member.student and not member.parent:
            add(member, 0)
    note = "Students under the one they were initialised from, with Elo in the last arena."
    return Table("Family", note, ["student", "taught by", "", *report.sets], rows)


def rating(entry: PlayerRating | None) -> str:
    """Elo and its interval.

    >>> rating(PlayerRating("a", "x", 1234.4, 1200.0, 1260.0, True)), rating(None)
    ('1234 [1200, 1260]', '–')
    """
    return "–" if entry is None else f"{entry.elo:.0f} [{entry.low:.0f}, {entry.high:.0f}]"


def ratings(report: CurriculumReport, table: PairTable) -> Table:
    """Ratings of all players in the arena on one team set."""
    assert report.standings is not None
    rows = []
    for entry in table.ratings:
        row = table.conduct[entry.player]
        anchor = entry.player == report.standings.anchor
        ends = "anchor" if anchor else f"{entry.low:.0f} to {entry.high:.0f}" + ("" if entry.bounded else " *")
        rows.append(
            [entry.player, f"{entry.elo:.0f}", ends, f"{100 * row.score:.1f}", f"{row.games:,}", f"{row.ms:.2f}"]
        )
    note = f"{table.games:,} games, over-dispersion {table.dispersion:.2f}. *: nothing bounds the interval's far end."
    return Table(f"Ratings on {table.teamset}", note, ["player", "Elo", "95 %", "score %", "games", "ms"], rows)


def gaps(report: CurriculumReport) -> Table:
    """Scores on the team set trained on less those on the others."""
    assert report.standings is not None
    first = report.standings.tables[0].teamset
    rows = [
        [gap.player, gap.teamset, f"{100 * gap.seen:.1f}", f"{100 * gap.other:.1f}", _gap(gap)]
        for gap in report.standings.gaps
    ]
    note = "In points, with Welch's 95 % interval. Above 0 the player does worse on the other set than the field."
    return Table("Generalisation gap", note, ["player", "other set", f"on {first}", "on the other", "gap"], rows)


def _gap(gap: Gap) -> str:
    ends = "" if gap.low is None or gap.high is None else f" [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"
    return f"{100 * gap.gap:+.1f}{ends}"


def untaught(report: CurriculumReport) -> Table:
    """The last student against every opponent that taught neither it nor its ancestors."""
    assert report.standings is not None
    last = (list(report.state.promoted.values()) or list(report.verdicts))[-1]
    rows = [
        [name, *(cell(table.cells.get((last.student, name))) for table in report.standings.tables)]
        for name in report.untaught(last)
    ]
    note = f"Scores of {last.student} with 95 % intervals and won-tied-lost, against players it has not learnt from."
    return Table(f"{last.student} against players outside of its training", note, ["opponent", *report.sets], rows)


def matrix(table: PairTable) -> Table:
    """Scores of all pairs of players."""
    names = [rating.player for rating in table.ratings]
    rows = [[one, *("" if one == two else _short(table, one, two) for two in names)] for one in names]
    return Table(f"Scores on {table.teamset}", "Score of the row against the column, in percent.", ["", *names], rows)


def _short(table: PairTable, one: str, two: str) -> str:
    met = table.cells.get((one, two))
    return "–" if met is None else f"{100 * met.score:.0f} [{100 * met.low:.0f}, {100 * met.high:.0f}]"
