"""Reproduction check of a laboratory: comparison of its cells with those of other seeds.

The comparison uses Welch's interval of the difference.

`python -m palaver.benchmarks.experiments.matrix_games.fresh docs/runs/lab/lab.json X/lab.json` prints the share of
the cells whose 95 % interval of (fresh mean - printed mean) contains 0, and the other cells.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from palaver.benchmarks.experiments.matrix_games.results import Lab, load
from palaver.core import ConfigError, PalaverError
from palaver.utils.stats.intervals import Interval, welch


@dataclass(frozen=True)
class CellPair:
    """A cell in both laboratories, and the interval of the fresh mean less the printed one."""

    algorithm: str
    game: str
    interval: Interval

    @property
    def same(self) -> bool:
        """True if the interval contains 0."""
        return self.interval[0] <= 1e-9 and self.interval[1] >= -1e-9


def pairs(printed: Lab, fresh: Lab) -> list[CellPair]:
    """The cells that both laboratories have, with at least two seeds in each.

    Raises:
        ConfigError: they share a seed, or no cell.
    """
    if shared := {result.seed for result in printed.results} & {result.seed for result in fresh.results}:
        raise ConfigError(f"both laboratories hold seed {min(shared)}; run the fresh one with other seeds: seed=200")
    cell_pairs = [
        CellPair(name, game, interval)
        for name in printed.algorithms
        for game in printed.columns
        if (interval := welch(fresh.returns(name, game), printed.returns(name, game)))
    ]
    if not cell_pairs:
        raise ConfigError("the laboratories share no cell with two seeds in each")
    return cell_pairs


def report(cell_pairs: list[CellPair]) -> str:
    """The share of cells that reproduce, then those that do not."""
    same = sum(pair.same for pair in cell_pairs)
    lines = [
        f"{same} of {len(cell_pairs)} cells ({same / len(cell_pairs):.1%}): "
        "the interval of (fresh - printed) contains 0"
    ]
    lines += [
        f"{cell_pair.algorithm} on {cell_pair.game}: [{cell_pair.interval[0]:+.2f}, {cell_pair.interval[1]:+.2f}]"
        for cell_pair in cell_pairs
        if not cell_pair.same
    ]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Compare the two files; returns the exit code."""
    if len(arguments) != 2:
        print(
            "usage: python -m palaver.benchmarks.experiments.matrix_games.fresh PRINTED/lab.json FRESH/lab.json",
            file=sys.stderr,
        )
        return 2
    try:
        printed, fresh = (load(Path(argument)) for argument in arguments)
        print(report(pairs(printed, fresh)))
    except PalaverError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
