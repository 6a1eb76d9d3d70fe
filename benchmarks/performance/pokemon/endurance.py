"""Endurance test of many battles in one process: slowdown and memory growth.

The memory is that of Python and of the simulator.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from palaver.benchmarks.performance.pokemon.contenders import PalaverContender
from palaver.core import ConfigError, usable_cores
from palaver.utils.provenance import provenance
from palaver.utils.tables import Table

MEGABYTE = 2**20


@dataclass(frozen=True)
class Endurance:
    """Settings of an endurance test.

    Attributes:
        format: of the battles.
        total: battles to play to their end.
        block: battles between two measurements.
        battles: at once.
        seed: of teams, dice and choices.

    Raises:
        ConfigError: fewer than two blocks, or a number below 1.
    """

    format: str = "gen1ou"
    total: int = 10_000
    block: int = 1000
    battles: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.block, self.battles) < 1 or self.total < 2 * self.block:
            raise ConfigError(
                f"to compare the last with the first, play two blocks of {self.block} battles or more; got {self.total}"
            )


def run(plan: Endurance, *, as_json: bool, out: Path | None, log: Callable[[str], None]) -> None:
    """Play, print the first block against the last, and write the report to `out`.

    Raises:
        ConfigError: `out` is in no folder.
        ShowdownError: no Node.js, no simulator, or no such format.
    """
    if out is not None and not out.absolute().parent.is_dir():
        raise ConfigError(f"--out: there is no folder {out.parent}; make it first")
    report = measure(plan, log)
    text = json.dumps(report, indent=2)
    if out is not None:
        written = out.with_name(f"{out.name}.{os.getpid()}")
        written.write_text(f"{text}\n", encoding="utf-8")
        written.replace(out)
    if as_json:
        print(text)
    else:
        _show(report)


def measure(plan: Endurance, log: Callable[[str], None]) -> dict[str, Any]:
    """Return the report as plain data: a row for each block, and a comparison of last and first.

    On a shared machine turns per second are unreliable; CPU time per turn shows whether the work grew. Megabytes are
    resident at the end of a block.
    """
    player, me, load = PalaverContender(plan.format, plan.battles, plan.seed), psutil.Process(), os.getloadavg()[0]
    rows: list[dict[str, float]] = []
    for first in range(0, plan.total, plan.block):
        before, began = _used(me), time.perf_counter()
        turns = player.finish(min(plan.block, plan.total - first))
        seconds, after = time.perf_counter() - began, _used(me)
        python, simulator = (1000 * (after[n]["cpu"] - before[n]["cpu"]) / max(turns, 1) for n in range(2))
        rows.append(
            {
                "battles": player.finished,
                "turns": turns,
                "seconds": seconds,
                "turns_per_second": turns / seconds,
                "python_cpu_ms": python,
                "simulator_cpu_ms": simulator,
                "python_mb": after[0]["mb"],
                "simulator_mb": after[1]["mb"],
            }
        )
        log(f"{player.finished} of {plan.total} battles, {rows[-1]['turns_per_second']:.0f} turns/s")
    return {
        "plan": asdict(plan),
        "rows": rows,
        "last_to_first": compared(rows),
        "cores": usable_cores(),
        "load": [load, os.getloadavg()[0]],
        "provenance": provenance(),
    }


def compared(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Compare the last row with the first: ratios of speed and of CPU time, growth in megabytes."""
    first, last = rows[0], rows[-1]
    cpu = [row["python_cpu_ms"] + row["simulator_cpu_ms"] for row in (first, last)]
    return {
        "turns_per_second": last["turns_per_second"] / max(first["turns_per_second"], 1e-9),
        "cpu_ms_per_turn": cpu[1] / max(cpu[0], 1e-9),
        "python_mb": last["python_mb"] - first["python_mb"],
        "simulator_mb": last["simulator_mb"] - first["simulator_mb"],
    }


def _used(me: psutil.Process) -> tuple[dict[str, float], dict[str, float]]:
    """CPU seconds so far and resident megabytes, of this process and of those it started."""
    return _sum([me]), _sum(me.children(recursive=True))


def _sum(processes: Sequence[psutil.Process]) -> dict[str, float]:
    times = [process.cpu_times() for process in processes]
    return {
        "cpu": sum(process.user + process.system for process in times),
        "mb": sum(process.memory_info().rss for process in processes) / MEGABYTE,
    }


def _show(report: Mapping[str, Any]) -> None:
    console, plan, rows = Console(highlight=False), report["plan"], report["rows"]
    console.print(f"{plan['total']} battles of {plan['format']} in one process, {plan['battles']} at once")
    columns = {
        "battles": "battles",
        "turns_per_second": "turns/s",
        "python_cpu_ms": "Python ms/turn",
        "simulator_cpu_ms": "simulator ms/turn",
        "python_mb": "Python MB",
        "simulator_mb": "simulator MB",
    }
    cells = [[f"{row[key]:.{3 if key.endswith('ms') else 0}f}" for key in columns] for row in (rows[0], rows[-1])]
    console.print(Table(head=list(columns.values()), rows=cells, right=range(len(columns))).rich())
    ratios = report["last_to_first"]
    console.print(
        f"the last to the first: speed x{ratios['turns_per_second']:.2f}, CPU time a turn x"
        f"{ratios['cpu_ms_per_turn']:.2f}, Python {ratios['python_mb']:+.0f} MB, simulator "
        f"{ratios['simulator_mb']:+.0f} MB"
    )
