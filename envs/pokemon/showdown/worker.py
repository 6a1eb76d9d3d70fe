"""A Node process that hosts battles, and the JSON lines we speak with it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any

from palaver.envs.pokemon.showdown.errors import BattleLostError, ShowdownError
from palaver.text import one_line
from palaver.utils.workers import wait_or_kill

START_SECONDS = 60.0  # loading the simulator, on a busy machine
CLOSE_SECONDS = 2.0  # for a process whose input or output is closed to end by itself
BUFFER = 1 << 18  # a line of many battles in few system calls
HOST = Path(__file__).with_name("host.js")
Operation = Sequence[Any]
Ticket = SimpleQueue[bytes | None]


class BattleWorker:
    """One process. Any number of threads may `ask` at the same time.

    Args:
        node: the interpreter.
        package: the folder of the pokemon-showdown package.
        plain: without our short cut for events; for tests of its effects only.

    Attributes:
        lost: reason why the process is gone; empty while it runs.
        battles: how many live battles were placed here.
        dropped: ids of battles that are no longer needed; sent to the process with the next operation.

    Raises:
        ShowdownError: the process cannot be started.
    """

    def __init__(self, node: Path, package: Path, *, plain: bool = False) -> None:
        self.lost = ""
        self.battles = 0
        self.dropped: deque[int] = deque()
        self._num_requests = 0
        self._answered = False
        self._tickets: dict[int, Ticket] = {}
        self._writing = threading.Lock()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        command = [str(node), str(HOST), str(package), "plain" if plain else "fast"]
        try:
            # a session of its own: Ctrl-C is for us, and the process ends when our end of its input closes
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
                bufsize=BUFFER,
                pipesize=BUFFER,
            )
        except OSError as error:
            self._errors.close()
            raise ShowdownError(f"{node} cannot be started: {error.strerror or error}") from error
        threading.Thread(target=self._listen, name="palaver-showdown", daemon=True).start()

    def send(self, operations: Sequence[Operation]) -> Ticket:
        """Ask without waiting. `receive` takes the ticket."""
        ticket: Ticket = SimpleQueue()
        with self._writing:
            drops = [self.dropped.popleft() for _ in range(len(self.dropped))]
            given = [*operations, ("drop", *drops)] if drops else operations
            self._num_requests += 1
            self._tickets[self._num_requests] = ticket
            line = json.dumps({"n": self._num_requests, "do": given}, separators=(",", ":")).encode() + b"\n"
            assert self.process.stdin is not None
            if self.lost:
                ticket.put(None)
            with contextlib.suppress(OSError, ValueError):  # a broken pipe: the listener answers the ticket
                self.process.stdin.write(line)
                self.process.stdin.flush()
        return ticket

    def receive(self, ticket: Ticket, patience: float) -> list[Any]:
        """One result per operation of the ticket.

        Raises:
            BattleLostError: the process is gone, or did not answer within `patience` seconds (the first time it may
                take `START_SECONDS` more) and was killed.
        """
        try:
            line = ticket.get(timeout=patience if self._answered else patience + START_SECONDS)
        except Empty:
            self.kill(f"the simulator did not answer within {patience:g} seconds")
            line = None
        if line is None:
            raise BattleLostError(self.lost)
        answers: list[Any] = json.loads(line)["out"]
        return answers

    def kill(self, reason: str) -> None:
        """End the process; waiting calls receive the reason."""
        self.lost = self.lost or reason
        wait_or_kill(self.process)

    def close(self) -> None:
        """Let the process end by itself."""
        self.lost = self.lost or "the pool was closed"
        with contextlib.suppress(OSError), self._writing:
            assert self.process.stdin is not None
            self.process.stdin.close()
        wait_or_kill(self.process, CLOSE_SECONDS)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                ticket_id = int(line[5 : line.index(b",")])  # {"n":7,"out":[...
                self._answered = True
                self._tickets.pop(ticket_id).put(line)
        code = wait_or_kill(self.process, CLOSE_SECONDS)  # its output is closed, so nothing can come of it any more
        self.lost = self.lost or f"the simulator's process ended with {_exit(code)}{self._last_error()}"
        self._errors.close()
        while self._tickets:
            self._tickets.popitem()[1].put(None)

    def _last_error(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
        error_line = next((line for line in lines if "Error" in line), lines[-1] if lines else "")
        return f": {one_line(error_line, 300)}" if error_line else ""


def _exit(code: int | None) -> str:
    if code is None:
        return "no exit code"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
