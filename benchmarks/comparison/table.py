"""A comparison as a table, for the terminal and for a page in Markdown."""

from __future__ import annotations

from dataclasses import replace

from palaver.benchmarks.comparison.groups import Comparison, RunGroup
from palaver.benchmarks.reports.origin import origin
from palaver.benchmarks.reports.summary import interval
from palaver.markdown import markdown_table, prose
from palaver.utils.stats.improvement import Improvement

Row = dict[str, str]


def rows(found: Comparison) -> list[Row]:
    """Rows (column -> cell) of the groups: in rewards, and as shares of the maximum return."""
    return [{found.by: group.name, **_row(group)} for group in found.groups]


def columns(found: Comparison, time: str) -> list[str]:
    """Columns for a terminal: seeds and maximum return if they differ, and one time."""
    left = {"wall s", "CPU s"} - {time}
    if len({len(group.trials) for group in found.groups}) == 1:
        left.add("seeds")
    left |= set() if found.shares else {"of which", "most"}
    return [column for column in rows(found)[0] if column not in left]


def _row(group: RunGroup) -> Row:
    limit = group.limit
    return {
        "seeds": str(len(group.trials)),
        "reward": f"{group.before:.2f} → {group.after:.2f}",
        "improvement": _change(group.improvement),
        "most": f"{limit:g}" if limit else "–",
        "share": f"{group.before / limit:.2f} → {group.after / limit:.2f}" if limit else "–",
        "of which": _change(group.improvement.over_limit(limit)) if limit else "–",
        "samples": f"{group.samples:,.0f}",
        "wall s": f"{group.spent('wall_s'):,.0f}",
        "CPU s": f"{group.spent('cpu_s'):,.0f}",
        "better": group.improvement.verdict,
    }


def _change(change: Improvement) -> str:
    return f"{change.mean:+.2f} {interval(change.low, change.high, 2)}"


def captions(found: Comparison) -> list[str]:
    """Captions of the table, one line each."""
    over: dict[str, list[str]] = {}
    for group in found.groups:
        over.setdefault(group.improvement.over, []).append(group.name)
    bare = over.pop("", [])
    limit = found.groups[0].limit
    most = "" if found.shares or limit is None else f", {limit:g}"
    of = "; ".join(said if len(over) == 1 else f"{said} ({', '.join(names)})" for said, names in over.items())
    lines = [
        f"Evaluations before → after training, mean over seeds, in rewards and as a share of the most possible{most}.",
        "Samples (completions to learn from) and seconds are those of one run.",
        *(f"{note[0].upper()}{note[1:]}." for note in found.notes),
    ]
    if over:
        lines[1:1] = [
            f"Improvement: after less before, with its 95 % interval over {of}; better where that excludes 0."
        ]
    launches = [each.run.launch for group in found.groups for each in group.trials]
    if any(launches):
        lines.append(f"Made with {origin(launches)}.")
    if bare:
        lines.append(f"No interval for {', '.join(bare)}: one seed, and no returns by task, or one task.")
    return lines


def markdown(found: Comparison) -> str:
    """The table and its captions in Markdown."""
    named = [replace(group, name=prose(group.name)) for group in found.groups]
    safe = replace(found, by=prose(found.by), groups=tuple(named), notes=tuple(map(prose, found.notes)))
    cells = rows(safe)
    return "\n\n".join((markdown_table(list(cells[0]), [list(row.values()) for row in cells]), *captions(safe)))
