"""Measuring process that prints `ready`, then plays for the seconds in each input line.

It prints the result of each.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import psutil

from palaver.benchmarks.performance.pokemon.contenders import (
    Contender,
    PalaverContender,
    PettingZoo,
    Websocket,
    packed_teams,
)


def _contender(kind: str, format: str, battles: int, seed: int, address: str) -> Contender:
    if kind == "ours":
        return PalaverContender(format, battles, seed)
    teams = packed_teams(format)
    if kind == "pettingzoo":
        return PettingZoo(format, address, teams, seed)
    return Websocket(format, address, teams, battles, seed)


def cpu_seconds(process: psutil.Process) -> float:
    """CPU time of a process and of its living descendants, so far."""
    total = 0.0
    for member in (process, *process.children(recursive=True)):
        try:
            times = member.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def main(kind: str, format: str, battles: int, seed: int, address: str) -> None:
    """Process lines until the input ends."""
    contender, me = _contender(kind, format, battles, seed, address), psutil.Process()
    print("ready", flush=True)
    for line in sys.stdin:
        cpu, began = cpu_seconds(me), time.perf_counter()
        turns = contender.play(float(line))
        played: dict[str, Any] = {"turns": turns, "seconds": time.perf_counter() - began}
        print(json.dumps(played | {"cpu": cpu_seconds(me) - cpu}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
