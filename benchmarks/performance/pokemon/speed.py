"""Turns per second of random players in `pokemon-v1` and poke-env, and an endurance test."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Annotated, Any

import psutil
from pydantic import Field
from rich.console import Console

from palaver.benchmarks.performance.pokemon.contenders import PalaverContender, cpu_seconds
from palaver.benchmarks.performance.training.settings import BenchmarkError
from palaver.core import ConfigError
from palaver.envs.pokemon.showdown.server import Server
from palaver.text import one_line
from palaver.utils.config import ONE_OR_MORE, Section
from palaver.utils.machine import usable_cores
from palaver.utils.provenance import provenance, version
from palaver.utils.run_folder import replace_text
from palaver.utils.tables import Table
from palaver.utils.workers import wait_or_kill

OURS = "palaver"
MISSING = "poke-env is not installed, so only Palaver is measured; run: pip install 'palaver[poke-env]'"
PATIENCE = 180.0  # seconds beyond those of the measurement


class PokemonBenchmarkConfig(Section):
    """Settings of the benchmark."""

    formats: Annotated[tuple[str, ...], ONE_OR_MORE] = Field(
        ("gen1ou", "gen9ou"), min_length=1, description="one after the other"
    )
    seconds: float = Field(5.0, ge=0.1, le=600, description="of one measurement")
    repeats: int = Field(5, ge=1, description="measurements of each contender, which alternate")
    warm: int = Field(
        3000, ge=0, description="turns before, as Node compiles code that runs often; at most 20 times `seconds`"
    )
    processes: int = Field(
        usable_cores(), ge=1, description="of ours, and of poke-env's environment; also simulators of the server"
    )
    battles: int = Field(32, ge=1, description="at once in each process of ours")
    connections: int = Field(50, ge=1, description="battles at once of poke-env's players on the server")
    peers: bool = Field(True, description="measure poke-env too")
    seed: int = Field(0, description="of our teams, dice and choices; poke-env's are not seeded")
    endurance: int = Field(0, ge=0, description="instead: so many battles of the first format in one process")
    block: int = Field(1000, ge=1, description="battles of `endurance` between two measurements")


class _Process:
    """Measuring process, controlled by lines on its pipes."""

    def __init__(self, kind: str, format: str, battles: int, seed: int, address: str = "") -> None:
        command = [sys.executable, "-W", "ignore", "-m", "palaver.benchmarks.performance.pokemon.contenders"]
        self._process = subprocess.Popen(
            [*command, kind, format, str(battles), str(seed), address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._failed = ""
        for stream, read in ((self._process.stdout, self._take), (self._process.stderr, self._complain)):
            threading.Thread(target=read, args=(stream,), daemon=True).start()

    def send(self, seconds: float) -> None:
        """Play."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()

    def answer(self, patience: float) -> str:
        """The next line.

        Raises:
            BenchmarkError: the process ended or timed out.
        """
        try:
            line = self._lines.get(timeout=patience)
        except Empty:
            line = ""
        if not line:
            raise BenchmarkError(f"a measuring process failed: {one_line(self._failed or 'it printed nothing', 300)}")
        return line

    def close(self) -> None:
        """End it and its children."""
        started = psutil.Process(self._process.pid).children(recursive=True) if self._process.poll() is None else []
        wait_or_kill(self._process)
        for child in started:
            if child.is_running():
                child.kill()

    def _take(self, stream: Any) -> None:
        for line in stream:
            self._lines.put(line)
        self._lines.put("")

    def _complain(self, stream: Any) -> None:
        for line in stream:
            self._failed = line.strip() or self._failed


@dataclass(frozen=True)
class _Contender:
    """Processes measured together, and their server."""

    name: str
    processes: Sequence[_Process]
    server: psutil.Process | None = None

    def warm_up(self, plan: PokemonBenchmarkConfig) -> float:
        """Play until all code is compiled; returns the number of turns."""
        turns = 0.0
        for _ in range(20):
            if turns >= plan.warm * len(self.processes):
                break
            turns += self.measure(plan.seconds)["turns"]
        return turns

    def measure(self, seconds: float) -> dict[str, float]:
        """Turns, wall seconds, and CPU seconds of all processes that took part."""
        served = cpu_seconds(self.server) if self.server else 0.0
        for process in self.processes:
            process.send(seconds)
        answers = [json.loads(process.answer(seconds + PATIENCE)) for process in self.processes]
        served = cpu_seconds(self.server) - served if self.server else 0.0
        return {
            "turns": sum(answer["turns"] for answer in answers),
            "seconds": max(answer["seconds"] for answer in answers),
            "cpu_seconds": sum(answer["cpu"] for answer in answers) + served,
        }


def run(plan: PokemonBenchmarkConfig, *, as_json: bool, out: Path | None, log: Callable[[str], None]) -> None:
    """Measure, print, and write the report to `out`.

    Raises:
        BenchmarkError: a measuring process failed.
        ShowdownError: no Node.js, no simulator, or the server does not start.
    """
    if plan.peers and not util.find_spec("poke_env"):
        log(MISSING)
    report = measure(plan, log)
    text = json.dumps(report, indent=2)
    if out is not None:
        replace_text(out, f"{text}\n")
    print(text) if as_json else _show(report)


def measure(plan: PokemonBenchmarkConfig, log: Callable[[str], None]) -> dict[str, Any]:
    """The whole report, plain data."""
    load = os.getloadavg()[0]
    formats = {format: _format(plan, format, log) for format in plan.formats}
    return {
        "plan": plan.model_dump(),
        "formats": formats,
        "poke_env": version("poke-env"),
        "cores": usable_cores(),
        "load": [load, os.getloadavg()[0]],
        "provenance": provenance(),
    }


def _format(plan: PokemonBenchmarkConfig, format: str, log: Callable[[str], None]) -> dict[str, Any]:
    with ExitStack() as stack:
        contenders = _contenders(plan, format, stack)
        for contender in contenders:
            log(f"{format}, warm-up of {contender.name}: {contender.warm_up(plan):.0f} turns")
        rounds: list[dict[str, dict[str, float]]] = []
        for n in range(plan.repeats):
            turned = n % len(contenders)
            order = [*contenders[turned:], *contenders[:turned]]
            rounds.append({contender.name: contender.measure(plan.seconds) for contender in order})
            log(f"{format}, round {n + 1} of {plan.repeats}")
    return {
        contender.name: _summary([measurements[contender.name] for measurements in rounds], rounds)
        for contender in contenders
    }


def _contenders(plan: PokemonBenchmarkConfig, format: str, stack: ExitStack) -> list[_Contender]:
    def started(*wanted: tuple[str, int, int], address: str = "") -> list[_Process]:
        workers = [
            stack.enter_context(closing(_Process(kind, format, battles, seed, address)))
            for kind, battles, seed in wanted
        ]
        for process in workers:
            process.answer(PATIENCE)
        return workers

    contenders = [_Contender(OURS, started(*(("ours", plan.battles, plan.seed + n) for n in range(plan.processes))))]
    if plan.peers and util.find_spec("poke_env"):
        server = stack.enter_context(Server(simulators=plan.processes))
        process, address = psutil.Process(server.pid), server.address
        zoo = started(*(("pettingzoo", 1, plan.seed + n) for n in range(plan.processes)), address=address)
        many = started(("websocket", plan.connections, plan.seed), address=address)
        contenders.append(_Contender("poke-env PettingZoo, 1 environment", zoo[:1], process))
        if plan.processes > 1:
            contenders.append(_Contender(f"poke-env PettingZoo, {plan.processes} environments", zoo, process))
        contenders.append(_Contender(f"poke-env websocket, {plan.connections} battles", many, process))
    return contenders


def _summary(measurements: Sequence[Mapping[str, float]], rounds: Sequence[Mapping[str, Mapping[str, float]]]) -> Any:
    both = measurements, [row[OURS] for row in rounds]
    rates, our_rates = ([row["turns"] / row["seconds"] for row in rows] for rows in both)
    costs, our_costs = ([1000 * row["cpu_seconds"] / max(row["turns"], 1) for row in rows] for rows in both)
    return {
        "turns_per_second": statistics.median(rates),
        "cpu_ms_per_turn": statistics.median(costs),
        "ratio": statistics.median(
            our_value / max(rate, 1e-9) for our_value, rate in zip(our_rates, rates, strict=True)
        ),
        "cpu_ratio": statistics.median(
            cost / max(our_value, 1e-9) for our_value, cost in zip(our_costs, costs, strict=True)
        ),
        "rounds": list(measurements),
    }


def _show(report: Mapping[str, Any]) -> None:
    console = Console(highlight=False)
    load, plan = report["load"], report["plan"]
    console.print(
        f"{plan['processes']} processes on {report['cores']} cores, load {load[0]:.1f} to {load[1]:.1f}; medians of "
        f"{plan['repeats']} x {plan['seconds']:g} s" + (f"; poke-env {report['poke_env']}" if plan["peers"] else "")
    )
    for format, contenders in report["formats"].items():
        rows = []
        for name, summary in contenders.items():
            ratios = ("", "") if name == OURS else (f"{summary['ratio']:.1f}", f"{summary['cpu_ratio']:.1f}")
            rows.append([name, f"{summary['turns_per_second']:.0f}", f"{summary['cpu_ms_per_turn']:.2f}", *ratios])
        head = ["", "turns/s", "CPU ms/turn", "speed ratio", "CPU ratio"]
        console.print(Table(format, head=head, rows=rows, right=range(1, len(head))).rich())


MEGABYTE = 2**20


def endure(plan: PokemonBenchmarkConfig, *, as_json: bool, out: Path | None, log: Callable[[str], None]) -> None:
    """Play, print the first block against the last, and write the report to `out`.

    Raises:
        ConfigError: more than one format, fewer than two blocks, or `out` is in no folder.
        ShowdownError: no Node.js, no simulator, or no such format.
    """
    if "formats" in plan.model_fields_set and len(plan.formats) > 1:
        raise ConfigError("endurance plays one format; name one by formats=")
    if plan.endurance < 2 * plan.block:
        raise ConfigError(
            f"to compare the last with the first, play two blocks of {plan.block} battles or more; got {plan.endurance}"
        )
    report = measure_endurance(plan, log)
    text = json.dumps(report, indent=2)
    if out is not None:
        replace_text(out, f"{text}\n")
    print(text) if as_json else _show_endurance(report)


def measure_endurance(plan: PokemonBenchmarkConfig, log: Callable[[str], None]) -> dict[str, Any]:
    """Return the report as plain data: a row for each block, and a comparison of last and first.

    On a shared machine turns per second are unreliable; CPU time per turn shows whether the work grew. Megabytes are
    resident at the end of a block.
    """
    player = PalaverContender(plan.formats[0], plan.battles, plan.seed)
    me, load = psutil.Process(), os.getloadavg()[0]
    rows: list[dict[str, float]] = []
    for first in range(0, plan.endurance, plan.block):
        before, began = _used(me), time.perf_counter()
        turns = player.finish(min(plan.block, plan.endurance - first))
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
        log(f"{player.finished} of {plan.endurance} battles, {rows[-1]['turns_per_second']:.0f} turns/s")
    return {
        "plan": {
            "format": plan.formats[0],
            "total": plan.endurance,
            "block": plan.block,
            "battles": plan.battles,
            "seed": plan.seed,
        },
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


def _show_endurance(report: Mapping[str, Any]) -> None:
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
