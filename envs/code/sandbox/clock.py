"""The time limit of a program.

Processor time is read from outside of it, with wall clock as a backstop. Processor time is what a program uses, however
many others want the same processor; a limit of wall clock alone would turn right programs into zeros on a busy machine.
One that sleeps uses none, so wall clock is limited too, to `factor` times as much; the time in which a program waited
for a processor is not counted, up to STARVED times as much again.

Standard library only: this module also runs in the examiner, where Palaver is not installed.
"""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path

from palaver.envs.code.sandbox import wire

_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid
_SHORTEST = 0.01  # seconds between two looks at the clocks
STARVED = 4


class OverError(Exception):
    """The program has used up its time in all."""


class Allowance:
    """The time of one program, over all of its children.

    Args:
        seconds: processor time of each call.
        total_seconds: processor time of everything together.
        factor: so many times as much wall clock may pass, waiting for a processor aside.
    """

    def __init__(self, seconds: float, total_seconds: float, factor: float) -> None:
        self._seconds, self._total, self._factor = seconds, total_seconds, factor
        self._start = time.monotonic()
        self._over = self._start + factor * total_seconds
        self._past = self._delayed = 0.0  # processor time of the children that are gone, and what they waited for one
        self._pid = 0
        self._channel: socket.socket | None = None
        self._armed = 0.0
        self._base = self._allowed = self._began = self._until = self._next = 0.0

    def take(self, channel: socket.socket) -> None:
        """Read the first byte of a child, with which the kernel reports its process id.

        Raises:
            OSError: there was none in time.
        """
        self._channel, self._armed = channel, 0.0
        self._arm(self._factor * self._seconds)
        data, ancillary, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
        if not data:
            raise EOFError("the child was gone before it began")
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
        known = [given for _, kind, given in ancillary if kind == socket.SCM_CREDENTIALS]
        self._pid = _CREDENTIALS.unpack(known[0])[0] if known else 0
        if not self._pid:
            self._only_wall_clock()

    def begin(self) -> None:
        """A call begins.

        Raises:
            OverError: nothing is left.
        """
        now = time.monotonic()
        self._began, self._base = now, 0.0
        self._base = self._used(now)
        left = self._total - self._past - self._base
        if left <= 0 or self._passed(self._over, now):
            raise OverError
        self._allowed = min(self._seconds, left)
        self._until = now + self._factor * self._seconds
        self._arm(min(self._allowed, self._until - now))
        self._next = now + self._armed

    def elapse(self) -> None:
        """Give up, or arm the next alarm, where nothing has happened for as long as was waited.

        Raises:
            BlockingIOError: the call has used up its time; the message gives the time.
        """
        now = time.monotonic()
        if self._passed(min(self._until, self._over), now):
            raise BlockingIOError(f"{self._factor * self._seconds:g}")
        left = self._allowed - self._used(now)
        if left <= 0:
            raise BlockingIOError(f"{self._seconds:g}")
        self._arm(max(min(left, abs(self._until - now), abs(self._over - now)), _SHORTEST))
        self._next = now + self._armed

    def check(self) -> None:
        """As `elapse`, where something did happen.

        An answer that arrives in small pieces must not take forever.
        """
        if time.monotonic() >= self._next:
            self.elapse()

    def end(self) -> bool:
        """Add up a child that is about to be ended; whether the program has used up its time in all."""
        now = time.monotonic()
        self._base = 0.0
        self._past += self._used(now) if self._pid else 0.0
        self._delayed += self._delay()
        self._pid = 0
        return self._past >= self._total or self._passed(self._over, now)

    def _used(self, now: float) -> float:
        """Processor time of the child since `_base`; wall clock of the call where it cannot be read."""
        if self._pid:
            try:
                return time.clock_gettime(~self._pid << 3 | 2) - self._base  # as clock_getcpuclockid(3) makes it
            except OSError:
                self._only_wall_clock()
        return now - self._began

    def _passed(self, seconds: float, now: float) -> bool:
        """Return True once a time has passed, without what the program waited for a processor."""
        if now < seconds:
            return False
        max_wall = self._start + (1 + STARVED) * self._factor * self._total
        return now >= min(seconds + self._delayed + self._delay(), max_wall)

    def _delay(self) -> float:
        """Seconds that the child could have run and was not let; 0 where the kernel does not say."""
        if not self._pid:
            return 0.0
        try:
            return int(Path(f"/proc/{self._pid}/schedstat").read_text().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0

    def _only_wall_clock(self) -> None:
        """This machine does not show the processor time of others: wall clock counts in its place."""
        self._pid = 0
        self._over = min(self._over, self._start + self._total)

    def _arm(self, seconds: float) -> None:
        assert self._channel is not None
        if seconds != self._armed:
            wire.be_patient(self._channel, seconds)
            self._armed = seconds
