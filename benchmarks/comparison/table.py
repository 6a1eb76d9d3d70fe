"""A comparison as a table, for the terminal and for a page in Markdown."""

from __future__ import annotations

from palaver.benchmarks.comparison.differences import by_value, paired_tests, settings_that_differ
from palaver.benchmarks.comparison.groups import Comparison, RunGroup
from palaver.benchmarks.reports.summary import interval, origin
from palaver.markdown import prose
from palaver.utils.stats.improvement import Improvement
from palaver.utils.tables import Table

TESTS_NOTE = (
    "Last evaluations, each group less the best of its environment, on the tasks that both have: mean difference and "
    "95 % bootstrap interval, which draws seeds of both and common tasks; open where it holds 0. The best was chosen "
    "by the same evaluations, and intervals are not widened for their number."
)
MOST_SETTINGS = 12  # in a terminal


def rows(comparison: Comparison) -> list[dict[str, str]]:
    """Rows (column -> cell) of the groups: in rewards, and as shares of the maximum return."""
    return [{comparison.by: group.name, **_row(group)} for group in comparison.groups]


def columns(comparison: Comparison, time: str) -> list[str]:
    """Columns for a terminal: seeds and maximum return if they differ, and one time."""
    left = {"wall s", "CPU s"} - {time}
    if len({len(group.trials) for group in comparison.groups}) == 1:
        left.add("seeds")
    left |= set() if comparison.shares else {"of which", "most"}
    return [column for column in rows(comparison)[0] if column not in left]


def _row(group: RunGroup) -> dict[str, str]:
    max_return = group.max_return
    return {
        "seeds": str(len(group.trials)),
        "reward": f"{group.before:.2f} → {group.after:.2f}",
        "improvement": change_text(group.improvement),
        "most": f"{max_return:g}" if max_return else "–",
        "share": f"{group.before / max_return:.2f} → {group.after / max_return:.2f}" if max_return else "–",
        "of which": change_text(group.improvement.over_limit(max_return)) if max_return else "–",
        "samples": f"{group.samples:,.0f}",
        "wall s": f"{group.spent('wall_s'):,.0f}",
        "CPU s": f"{group.spent('cpu_s'):,.0f}",
        "better": group.improvement.verdict,
    }


def change_text(change: Improvement) -> str:
    """Format a change and its interval."""
    return f"{change.mean:+.2f} {interval(change.low, change.high, 2)}"


def captions(comparison: Comparison) -> list[str]:
    """Captions of the table, one line each."""
    over: dict[str, list[str]] = {}
    for group in comparison.groups:
        over.setdefault(group.improvement.over, []).append(group.name)
    bare = over.pop("", [])
    max_return = comparison.groups[0].max_return
    bound = "" if comparison.shares or max_return is None else f", {max_return:g}"
    of = "; ".join(source if len(over) == 1 else f"{source} ({', '.join(names)})" for source, names in over.items())
    lines = [
        f"Evaluations before → after training, mean over seeds, in rewards and as a share of the most possible{bound}.",
        "Samples (completions to learn from) and seconds are those of one run.",
        *(f"{note[0].upper()}{note[1:]}." for note in comparison.notes),
    ]
    if over:
        lines[1:1] = [
            f"Improvement: after less before, with its 95 % interval over {of}; better where that excludes 0."
        ]
    launches = [trial.run.launch for group in comparison.groups for trial in group.trials]
    if any(launches):
        lines.append(f"Made with {origin(launches)}.")
    if bare:
        lines.append(f"No interval for {', '.join(bare)}: one seed, and no returns by task, or one task.")
    return lines


def differences(comparison: Comparison) -> list[str]:
    """Paired tests and differing settings as lines for a terminal."""
    tests = paired_tests(comparison)
    lines = [f"{each.first} less {each.second}: {change_text(each.change)}, {each.verdict}" for each in tests]
    settings = [f"{key} = {by_value(values)}" for key, values in settings_that_differ(comparison).items()]
    more = len(settings) - MOST_SETTINGS
    rest = [f"... and {more} more settings, all in the page of --out NAME.html"] if more > 0 else []
    return [
        *(["Paired tests. " + TESTS_NOTE, *lines] if lines else []),
        *(["Settings that differ:", *settings[:MOST_SETTINGS], *rest] if settings else []),
    ]


def markdown(comparison: Comparison) -> str:
    """The table and its captions in Markdown."""
    cells = rows(comparison)
    grid = Table(head=list(cells[0]), rows=[list(row.values()) for row in cells]).grid()
    return "\n\n".join((grid, *(prose(line, 10_000) for line in captions(comparison))))
