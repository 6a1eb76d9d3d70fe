"""The reports of a curriculum (a static page, pictures, tables) and of an ablation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from palaver.benchmarks.arena import tables as arena
from palaver.benchmarks.reports import html as pages
from palaver.benchmarks.reports.charts import Drawing, save_figure
from palaver.benchmarks.reports.curriculum import figures
from palaver.benchmarks.reports.curriculum.data import CurriculumReport, Member
from palaver.text import one_line
from palaver.trainers.curriculum.ablation import Ablation
from palaver.trainers.curriculum.state import GateCondition, PlayerRating, StageAttempt
from palaver.utils.run_folder import replace_text, writing
from palaver.utils.tables import Table

PAGE, TABLES = "report.html", "report.md"
HERE = Path(__file__).resolve().parent


def write(report: CurriculumReport, folder: Path) -> list[Path]:
    """Write `report.html`, `report.md`, `curriculum.json` and the figures; returns their paths.

    Raises:
        ConfigError: the folder cannot be written.
    """
    drawings, tables = _drawings(report), report_tables(report)
    with writing(folder):
        paths = [report.save(folder), folder / PAGE, folder / TABLES]
        for stem, drawing in drawings.items():
            paths.append(folder / f"{stem}.png")
            save_figure(paths[-1], drawing.title, drawing.size, drawing.draw)
        if report.standings is not None:
            paths.append(folder / "matrix.png")
            arena.draw(report.standings, paths[-1])
        values = {
            "report": report,
            "drawings": drawings,
            "tables": tables,
            "made_with": report.provenance,
            "where": _where(report),
        }
        replace_text(folder / PAGE, pages.render(HERE, "curriculum.html.j2", values))
        stages = ", ".join(one_line(stage.name) for stage in report.spec.stages)
        heading = f"# {report.spec.format}, {report.spec.size}: {stages}\n\n"
        replace_text(folder / TABLES, heading + "\n".join(table.markdown() for table in tables))
    return paths


def _drawings(report: CurriculumReport) -> dict[str, Drawing]:
    """Figures by the stems of their files."""
    note = "Over the steps of all stages on one axis, a moving mean."
    drawings = {
        f"curve-{key}": Drawing(name, note, (8, 3.2), partial(figures.draw_curve, report=report, key=key))
        for key, name in figures.curves(report).items()
    }
    if report.standings is not None:
        note = "All students in one arena, with 95 % intervals; dashed lines: the opponents on the first team set."
        drawings["ratings"] = Drawing("Ratings", note, (8, 4), partial(figures.draw_ratings, report=report))
    if report.verdicts and report.sets:
        note = "Full lines: started from. Dotted lines: taught by. The higher, the stronger; grey: not promoted."
        draw = partial(figures.draw_tree, family=report.family(), teamset=report.sets[0])
        drawings["family"] = Drawing("Family", note, (8, 4), draw)
    return drawings


def _where(report: CurriculumReport) -> str:
    if report.state.stopped:
        return f"stopped: no attempt passed the gate of {report.state.stopped}"
    coming = report.state.next()
    return "finished" if coming is None else f"at {coming[0].name}, attempt {coming[1]}"


def report_tables(report: CurriculumReport) -> list[Table]:
    """All tables that are not empty."""
    tables = [stages(report), checks(report), tree(report)]
    if report.standings is not None:
        tables += [arena.ratings(report.standings, table) for table in report.standings.tables]
        tables += [arena.gaps(report.standings), untaught(report)]
        tables += [arena.matrix(table) for table in report.standings.tables]
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
            " + ".join(f"{seconds / 60:.1f}" for seconds in verdict.seconds),
            _outcome(report, verdict),
        ]
        for verdict in report.verdicts
    ]
    head = ["student", "from", "taught by", "battles", "decisions", "steps", "minutes", "gate"]
    note = "Decisions: seen in training, repeated ones too. Minutes: of playing, learning and rating."
    return Table("Stages", note, head, rows)


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
        rows.append(
            [
                "  " * depth + ("└ " if depth else "") + member.label,
                ", ".join(member.taught_by),
                "" if member.promoted else "not promoted",
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


def untaught(report: CurriculumReport) -> Table:
    """The last student against every opponent that taught neither it nor its ancestors."""
    assert report.standings is not None
    last = (list(report.state.promoted.values()) or list(report.verdicts))[-1]
    rows = [
        [name, *(arena.cell(table.cells.get((last.student, name))) for table in report.standings.tables)]
        for name in report.untaught(last)
    ]
    note = f"Scores of {last.student} with 95 % intervals and won-tied-lost, against players it has not learnt from."
    return Table(f"{last.student} against players outside of its training", note, ["opponent", *report.sets], rows)


def ablation_tables(ablation: Ablation) -> list[Table]:
    """Tables of the variants with their ratings, and of the scores between them."""
    sets = [table.teamset for table in ablation.standings.tables]
    rows = [
        [
            variant.value,
            f"{variant.battles:,}",
            f"{variant.decisions:,}",
            f"{variant.steps:,}",
            *(rating(next((p for p in variant.places if p.teamset == name), None)) for name in sets),
        ]
        for variant in ablation.variants
    ]
    note = (
        f"Elo with 95 % intervals, all in one arena. The most decisions learnt from exceed the fewest by "
        f"{100 * ablation.spread:.1f} %."
    )
    first = Table(f"Ablation of {ablation.key}", note, [ablation.key, "battles", "decisions", "steps", *sets], rows)
    return [first, *map(arena.matrix, ablation.standings.tables)]


def write_ablation(ablation: Ablation, folder: Path) -> list[Path]:
    """Write `ablation.md` and `ablation.png`; returns their paths.

    Raises:
        ConfigError: the folder cannot be written.
    """
    paths = [folder / "ablation.md", folder / "ablation.png"]
    with writing(folder):
        replace_text(paths[0], "\n".join(table.markdown() for table in ablation_tables(ablation)))
        title = f"Strength by {ablation.key}, all else and the compute equal"
        save_figure(paths[1], title, (8, 4), partial(figures.draw_ablation, ablation=ablation))
    return paths
