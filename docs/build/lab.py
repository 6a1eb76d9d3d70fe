"""Computed parts of docs/lab.md, from the laboratory stored in docs/runs/lab."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from docs.build.parts import listed
from palaver.benchmarks.experiments.matrix_games import fresh, view
from palaver.benchmarks.experiments.matrix_games.results import RESULTS, AlgorithmScore, Lab, load
from palaver.benchmarks.experiments.matrix_games.view import READ, markdown
from palaver.benchmarks.reports.summary import UNKNOWN
from palaver.markdown import prose

FRESH = "fresh.json"
ONE_SEED = (
    "**One run a cell: there are no intervals, and differences between cells are not results.** "
    "The table is of an older laboratory and waits for one of several seeds."
)


def parts(kept_runs: Path) -> dict[str, str]:
    """Name -> Markdown of every part.

    Raises:
        CheckpointError: no laboratory is kept.
    """
    lab = load(kept_runs / "lab" / RESULTS)
    again = kept_runs / "lab" / FRESH
    return {
        "table": table(lab),
        "seeds": seeds(lab),
        "laws": laws(lab),
        "fresh": reproduced(lab, load(again)) if again.is_file() else "No laboratory of other seeds is kept.",
    }


def reproduced(lab: Lab, second: Lab) -> str:
    """Share of cells whose means agree with those of other seeds, and the cells where they do not."""
    cell_pairs = fresh.pairs(lab, second)
    numbers = sorted({result.seed for result in second.results if result.status == "done"})
    first, *others = fresh.report(cell_pairs).splitlines()
    games = len({pair.game for pair in cell_pairs})
    head = f"Seeds {numbers[0]} to {numbers[-1]}, in {games} of {len(lab.columns)} games: {first}."
    return "\n".join([head, *(["", *(f"* {line}" for line in others)] if others else [])])


def table(lab: Lab) -> str:
    """The table with its provenance."""
    numbers = sorted({result.seed for result in lab.results})
    done = sum(result.status == "done" for result in lab.results)
    spread = f"seeds {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"seed {numbers[0]}"
    provenance = lab.provenance
    starts = [f"{model} ({hash_})" for model, hash_ in provenance.get("warm_starts", {}).items()] or [UNKNOWN]
    lines = [
        *([ONE_SEED, ""] if len(numbers) == 1 else []),
        markdown(lab),
        f"{READ} Of {done} runs with {spread}: {lab.cpu_minutes:.0f} CPU minutes, Palaver "
        f"{provenance.get('palaver', UNKNOWN)}, commit {provenance.get('commit') or UNKNOWN}, "
        f"warm start {' and '.join(starts)}.",
        *(f"\nWithout `{name}`: {prose(why)}." for name, why in lab.without.items()),
        *(f"\nFailed: `{result.algorithm}` on {result.game}, seed {result.seed}." for result in lab.failed),
    ]
    return "\n".join(lines)


def seeds(lab: Lab) -> str:
    """Number of cells whose seeds agree, and the cells with two modes."""
    cells = {(name, game): lab.score(name, game) for name in lab.algorithms for game in lab.columns}
    repeated = [score for score in cells.values() if score.n > 1]
    if not repeated:
        return "No cell has two seeds."
    agreed = sum(score.agreed > 0 for score in repeated)
    lines = [
        f"In {agreed} of {len(repeated)} cells all seeds agree; cells with two modes: "
        f"{sum(bool(score.modes) for score in repeated)}."
    ]
    lines += [f"* `{name}` in {game}: {view.seeds(score)}" for (name, game), score in cells.items() if score.modes]
    return "\n".join(lines)


def laws(lab: Lab) -> str:
    """For each game, the algorithms whose intervals lie above others'; overlapping intervals are not ordered."""
    lines, compared = [], 0
    for game in lab.columns:
        scores = {name: score for name in lab.algorithms if (score := lab.score(name, game)).interval}
        compared += len(scores) * (len(scores) - 1) // 2
        below = {name: _below(name, scores) for name in sorted(scores, key=lambda name: -(scores[name].mean or 0.0))}
        orders = [
            f"{listed(list(group))} above {listed(list(others))}"
            for others, group in groupby((name for name in below if below[name]), key=lambda name: below[name])
        ]
        if orders:
            lines.append(f"* **{game}**: {'; '.join(orders)}")
    if not compared:
        return "No cell has an interval, so that no order of algorithms is stated."
    pairs = f"{compared:,} pair{'s' * (compared > 1)} compared"
    if not lines:
        return f"No interval lies above another, of {pairs}."
    return "\n".join(
        [f"Intervals of 95 % of the mean over seeds that lie wholly above others, of {pairs}:", "", *lines]
    )


def _below(name: str, scores: dict[str, AlgorithmScore]) -> tuple[str, ...]:
    """Algorithms whose interval is entirely below this one's."""
    interval = scores[name].interval
    assert interval is not None
    ends: Sequence[tuple[str, AlgorithmScore]] = list(scores.items())
    return tuple(
        algorithm for algorithm, score in ends if score.interval is not None and score.interval[1] < interval[0]
    )
