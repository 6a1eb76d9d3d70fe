"""Equality of expressions by the library math-verify, in a process that cannot hang a run.

It uses a computer algebra system, and `9^{9^{9^9}}` keeps that busy for ever, beyond the reach of its own timeouts
where steps run in threads. So it works in a process of its own, which is killed when a question takes too long, and the
answer is then not equal.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
import threading
from queue import Empty, SimpleQueue

from palaver.core import ConfigError
from palaver.utils.workers import Closing, ProcessLocal, wait_or_kill

SECONDS = 5.0  # for one question
START_SECONDS = 60.0  # loading the library, on a busy machine
LONGEST = 200  # characters of an expression
_WORKER = "palaver.envs.maths.equivalence_worker"


def require() -> None:
    """Raise if the library is not installed.

    Raises:
        ConfigError: it is not installed.
    """
    if importlib.util.find_spec("math_verify") is None:
        raise ConfigError(
            "verifier=math-verify needs the library math-verify; install it with: pip install 'palaver[maths]'"
        )


@functools.lru_cache(maxsize=65_536)
def equivalent(truth: str, answer: str) -> bool:
    """Return whether an answer equals the truth as an expression; False if undecided in time."""
    if len(truth) > LONGEST or len(answer) > LONGEST:
        return False
    return _checker().equal(truth, answer)


class Checker(Closing):
    """A process with the library, started on first use and again after it was killed.

    Args:
        command: what to run; tests put something else in its place.
        seconds: for one question.
    """

    def __init__(self, command: tuple[str, ...] = (sys.executable, "-m", _WORKER), seconds: float = SECONDS) -> None:
        self.command, self.seconds = command, seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._lines: SimpleQueue[str] = SimpleQueue()

    def equal(self, truth: str, answer: str) -> bool:
        """Return whether both are equal; False after `seconds`, or if the process could not decide."""
        with self._lock:
            process = self._process or self._start()
            if process is None or process.stdin is None:
                return False
            try:
                process.stdin.write(json.dumps([truth, answer]) + "\n")
                process.stdin.flush()
                return self._lines.get(timeout=self.seconds) == "true"
            except (Empty, OSError):
                self._end()
                return False

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _start(self) -> subprocess.Popen[str] | None:
        # a session of its own: Ctrl-C is for us
        path = os.pathsep.join(filter(None, sys.path))
        process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._process, self._lines = process, SimpleQueue()
        threading.Thread(target=_pump, args=(process, self._lines), daemon=True).start()
        try:
            ready = self._lines.get(timeout=START_SECONDS) == "ready"
        except Empty:
            ready = False
        if not ready:
            self._end()
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            wait_or_kill(self._process)
            self._process = None


def _pump(process: subprocess.Popen[str], lines: SimpleQueue[str]) -> None:
    for line in process.stdout or ():
        lines.put(line.strip())
    lines.put("")  # the process has ended: release the reader


_checker = ProcessLocal(Checker)
