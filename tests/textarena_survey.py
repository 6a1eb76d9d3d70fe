"""Try every game of TextArena, and run the contract of environments on those that can be played here.

`make test-doors`, or `python -m tests.textarena_survey [--out FILE] [ID ...]`. Each game has a process of its own. The
exit code is 1 if one breaks the contract, or if fewer than `GAMES` pass, `SEVERAL` of them for several players.
"""

from __future__ import annotations

import argparse
import functools
import json
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import palaver
from palaver.core import ConfigError
from palaver.envs.base import checks
from palaver.envs.textarena import games
from palaver.utils.machine import usable_cores
from palaver.utils.provenance import provenance

GAMES, SEVERAL = 60, 40
LIMIT_S = 900.0  # for a game


def examine(id: str) -> dict[str, object]:
    """One row: a game's number of players, and `passes`, or why it is `refused` or what it `breaks`."""
    row: dict[str, object] = {"game": id, "ids": len(games.games()[id])}
    try:
        row["players"] = games.playable(id).players
    except ConfigError as error:
        return {**row, "refused": str(error).partition(" here: ")[2]}
    try:
        checks.check(functools.partial(palaver.make, f"{games.PREFIX}{id}"))
    except AssertionError as error:
        return {**row, "breaks": str(error)}
    return {**row, "passes": True}


def apart(id: str) -> dict[str, object]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "tests.textarena_survey", "--one", id]
    began = time.monotonic()
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        row: dict[str, object] = json.loads(ended.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        row = {"game": id, "breaks": f"{type(error).__name__}: {error}"[:300]}
    print(f"{id:32} {row.get('refused') or row.get('breaks') or 'passes'}", flush=True)
    return {**row, "seconds": round(time.monotonic() - began, 1)}


def main(arguments: list[str]) -> int:
    """Print a line for each game, and write the rows to a file; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one")
    parser.add_argument("ids", nargs="*")
    given = parser.parse_args(arguments)
    if given.one:
        print(json.dumps(examine(given.one)))
        return 0
    source = provenance()
    with ThreadPoolExecutor(usable_cores()) as pool:
        rows = list(pool.map(apart, given.ids or games.games()))
    passing = [row for row in rows if "passes" in row]
    several = sum(int(str(row["players"])) > 1 for row in passing)
    broken = [row["game"] for row in rows if "breaks" in row]
    print(
        f"{len(passing)} of {len(rows)} games pass, {several} of them for several players; {len(broken)} break a rule"
    )
    if given.out:
        about = {"textarena": version("textarena"), "python": platform.python_version(), "provenance": source}
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps({**about, "command": "make test-doors", "games": rows}, indent=1) + "\n")
    enough = bool(given.ids) or (len(passing) >= GAMES and several >= SEVERAL)
    return int(bool(broken) or not enough)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
