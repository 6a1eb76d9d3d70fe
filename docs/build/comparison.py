"""Computed parts of docs/comparison.md, from the runs stored in docs/runs/comparison.

Seeds 1 to 5 are reported, seeds from 6 on are fresh: on tasks of their own, after the settings and the page were fixed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from palaver.benchmarks.comparison import table as compare_table
from palaver.benchmarks.comparison.finished_runs import Trial, find
from palaver.benchmarks.comparison.groups import Comparison, RunGroup, compare, value_of
from palaver.core import CheckpointError
from palaver.markdown import markdown_table
from palaver.text import one_line

FRESH = 6  # the first fresh seed
TUNING = "tuning.json"
Tried = Sequence[Mapping[str, Any]]


def parts(kept_runs: Path) -> dict[str, str]:
    """Name -> Markdown of every part.

    Raises:
        CheckpointError: no reported run is kept, or `tuning.json` is something else.
        ConfigError: the runs have no common scale.
    """
    folder = kept_runs / "comparison"
    trials, _ = find([folder])
    reported, fresh = ([trial for trial in trials if (trial.config.seed >= FRESH) is late] for late in (False, True))
    if not reported:
        raise CheckpointError(f"no run of a seed below {FRESH} is kept in {str(folder)!r}")
    return {
        "table": table(compare(reported)),
        "tuning": tuning(_tried(folder / TUNING), {trial.config.seed for trial in trials}),
        "fresh": again(compare(reported), compare(fresh) if fresh else None),
        "seeds": f"{_seeds('Reported', reported)}{_seeds(' Fresh', fresh)}",
    }


def table(comparison: Comparison) -> str:
    """The comparison with the joint mode of each algorithm, and its captions."""
    lines = []
    for group, row in zip(comparison.groups, compare_table.rows(comparison), strict=True):
        name, *cells = row.values()
        lines.append([name, value_of(group.trials[0].config, "algorithm.joint"), *cells])
    first, *others = compare_table.rows(comparison)[0]
    return "\n\n".join((markdown_table([first, "joint", *others], lines), *compare_table.captions(comparison)))


def tuning(tried: Tried, seeds: Collection[int]) -> str:
    """Tuning of each recipe: the mean held-out reward of every setting, and whether the effort was equal.

    Args:
        tried: of `tuning.json`.
        seeds: of the runs on the page.
    """
    if not tried:
        return f"No trials are kept: `{TUNING}` is not there."
    runs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for run in tried:
        setting = ", ".join(
            f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
            for key, value in run["settings"].items()
        )
        runs.setdefault((str(run["recipe"]), setting or "as shipped"), []).append(run)
    lines = [
        [
            f"`{recipe}`",
            f"`{setting}`",
            " ".join(str(run["seed"]) for run in group),
            f"{fmean(run['before'] for run in group):.2f} → {fmean(run['after'] for run in group):.2f}",
        ]
        for (recipe, setting), group in runs.items()
    ]
    efforts = Counter(str(run["recipe"]) for run in tried)
    least, max_effort = min(efforts.values()), max(efforts.values())
    equal = (
        f"Each of the {len(efforts)} recipes was tried with {max_effort} run{'s' * (max_effort > 1)}."
        if least == max_effort
        else f"The effort differs: from {least} to {max_effort} runs a recipe."
    )
    both = sorted({int(run["seed"]) for run in tried} & set(seeds))
    remark = f"Seeds {both} are on this page, too." if both else "None of these seeds is on this page otherwise."
    return f"{markdown_table(['recipe', 'setting', 'seeds', 'held-out reward'], lines)}\n\n{equal} {remark}"


def again(reported: Comparison, fresh: Comparison | None) -> str:
    """Reported and fresh improvement of each algorithm, and whether the fresh mean is in the reported interval."""
    if fresh is None:
        return f"No fresh runs (seeds from {FRESH} on) are kept yet."
    others = {group.name: group for group in fresh.groups}
    lines, inside, known = [], 0, 0
    for group in reported.groups:
        if rerun := others.get(group.name):
            same = _inside(group, rerun)
            inside, known = inside + same, known + 1
            changes = [compare_table.change_text(runs.improvement) for runs in (group, rerun)]
            lines.append([group.name, *changes, "inside" if same else "outside"])
    head = ["algorithm", "reported improvement", "fresh improvement", "fresh mean in the reported interval"]
    return f"{markdown_table(head, lines)}\n\n{inside} of {known} reproduce."


def _inside(reported: RunGroup, fresh: RunGroup) -> bool:
    improvement = reported.improvement
    return (
        improvement.low is not None
        and improvement.high is not None
        and improvement.low <= fresh.improvement.mean <= improvement.high
    )


def _seeds(what: str, trials: Sequence[Trial]) -> str:
    seeds = sorted({trial.config.seed for trial in trials})
    return f"{what}: seeds {', '.join(map(str, seeds))}." if seeds else ""


def _tried(path: Path) -> Tried:
    if not path.is_file():
        return []
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return [{key: entry[key] for key in ("recipe", "settings", "seed", "before", "after")} for entry in values]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{str(path)!r} holds no trials: {one_line(error)}") from error
