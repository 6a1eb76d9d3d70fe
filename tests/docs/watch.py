"""A command whose processes are counted while it runs, and killed where there are too many."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

MOST = 4  # processes at a time: the command itself and all below it
_EVERY_S = 0.01
_GRACE_S = 10.0  # for what is below the command to end after it
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Watched:
    """Result of a command.

    Attributes:
        code: exit code; None if it was killed.
        out: what it printed, both streams.
        most: processes that were alive at the same time, itself included.
        fault: why it was killed or what it left behind; empty where all is well.
    """

    code: int | None
    out: str
    most: int
    fault: str


def watched(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], seconds: float = 240.0, most: int = MOST
) -> Watched:
    """Run a command to its end, for `seconds` at most, with `most` processes at most.

    On Linux, a process that has lost its parent becomes a child of the command, so that none leaves the count, and the
    command is killed when the caller is: no block runs on after tests that were killed. Processes below the command get
    no such signal.
    """
    parent = os.getpid()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            command, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            preexec_fn=lambda: _bind(parent),
        )  # fmt: skip
        tree, seen, peak, fault, until = psutil.Process(process.pid), set(), 1, "", time.monotonic() + seconds
        try:
            while process.poll() is None and not fault:
                below = _below(tree)
                seen |= below
                peak = max(peak, 1 + len(below))
                if peak > most:
                    fault = f"{peak} processes at a time, at most {most} are allowed"
                elif time.monotonic() > until:
                    fault = f"not over after {seconds:g} seconds"
                time.sleep(_EVERY_S)
            code = None if fault else process.returncode
            left = [] if fault else _after(seen)
            fault = fault or (f"left behind: {left}" if left else "")
        finally:
            _end(process, tree, seen)
        out.seek(0)
        return Watched(code, out.read().decode(errors="replace"), peak, fault)


def _bind(parent: int) -> None:
    """Have the command adopt the orphans below it, and end with the caller."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # The kernel sends it when the thread that forked ends, not the process; that thread stays in `watched` until
        # the command is over.
        _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it ended before the request
            os._exit(1)


def _below(tree: psutil.Process) -> set[psutil.Process]:
    """The live processes below one; a zombie has ended."""
    try:
        return {each for each in tree.children(recursive=True) if alive(each)}
    except psutil.NoSuchProcess:
        return set()


def alive(process: psutil.Process) -> bool:
    """Return True while a process runs; a zombie that is never collected has ended."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _after(seen: set[psutil.Process]) -> list[str]:
    """The command lines of those that do not end soon; a zombie that nobody collects has ended."""
    until = time.monotonic() + _GRACE_S
    while any(map(alive, seen)) and time.monotonic() < until:
        time.sleep(_EVERY_S)
    return [_name(each) for each in seen if alive(each)]


def _name(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:100]
    except psutil.Error:
        return f"process {process.pid}"


def _end(process: subprocess.Popen[bytes], tree: psutil.Process, seen: set[psutil.Process]) -> None:
    """Kill all; the command is stopped first and killed last, so that it starts no more and its orphans are found."""
    if process.poll() is None:
        tree.suspend()
        while below := _below(tree):
            _kill(below)
            time.sleep(_EVERY_S)
        process.kill()
    _kill(seen)
    process.wait(_GRACE_S)


def _kill(processes: set[psutil.Process]) -> None:
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
