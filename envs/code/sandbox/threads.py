"""A limit on the threads of a program where the kernel's own (RLIMIT_NPROC) counts all processes of the user.

The child's filter asks about each `clone`, the worker looks how many threads the child has and answers. Only the number
of the call decides whether it asks, so that nothing a program writes in memory changes the answer.

Standard library only: this module also runs in the worker, where Palaver is not installed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
import time

from palaver.envs.code.sandbox import seccomp

# struct seccomp_notif (id, thread, flags, the call) and seccomp_notif_resp (id, value, error, flags)
_NOTICE_SIZE, _NOTICE, _REPLY = 80, struct.Struct("=QI"), struct.Struct("=QqiI")
_RECEIVE, _SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_*
_CONTINUE = 1
_LIMIT = struct.Struct("=I")
_OURS = 2  # the worker and the next child, which RLIMIT_NPROC counts in the other mode
_SETTLED = 0.05  # seconds after which an allowed clone is taken to have happened


def hand_over(link: socket.socket, notices: seccomp.Filter) -> None:
    """In the child: have the worker at the other end of `link` asked about each thread from here on.

    Raises:
        OSError: the kernel refuses.
    """
    listener = notices.install_with_listener()
    socket.send_fds(link, [b"listener"], [listener])
    os.close(listener)


def tell_limit(link: socket.socket, processes: int) -> None:
    """In the child, before it loads a program: say how many processes and threads there may be, and close the link."""
    link.send(_LIMIT.pack(processes))
    link.close()


class Threads:
    """In the worker: answers to a child that wants to start threads.

    Attributes:
        listener: readable when the child asks; None: it ended before it could.
    """

    def __init__(self, child: int, link: socket.socket) -> None:
        self._folder = f"/proc/{child}/task"
        self._link = link
        self._most = 0
        self._allowed = 1
        self._pending: dict[int, float] = {}
        _, descriptors, _, _ = socket.recv_fds(link, 16, 1)
        self.listener = descriptors[0] if descriptors else None

    def answer(self) -> None:
        """Let the thread that waits start another one, or have its call fail as at RLIMIT_NPROC."""
        assert self.listener is not None
        notice = bytearray(_NOTICE_SIZE)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, notice)
        except (FileNotFoundError, InterruptedError):  # a signal took the thread out of its call
            return
        call, thread = _NOTICE.unpack_from(notice)
        allowed = self._allows(thread)
        reply = _REPLY.pack(call, 0, 0 if allowed else -errno.EAGAIN, _CONTINUE if allowed else 0)
        with contextlib.suppress(FileNotFoundError):  # as above
            fcntl.ioctl(self.listener, _SEND, reply)

    def _allows(self, thread: int) -> bool:
        """Whether one more thread is within the limit, those counted that were allowed and may not have begun."""
        if not self._most:
            self._most = max(1, _LIMIT.unpack(self._link.recv(_LIMIT.size))[0] - _OURS)
        now = time.monotonic()
        # a thread that asks again is through with its last clone
        self._pending = {t: at for t, at in self._pending.items() if t != thread and now - at < _SETTLED}
        try:
            alive = os.stat(self._folder).st_nlink - 2
        except FileNotFoundError:  # /proc is hidden: all that were ever started count
            alive = self._allowed
        if alive + len(self._pending) >= self._most:
            return False
        self._pending[thread] = now
        self._allowed += 1
        return True

    def close(self) -> None:
        """Let go of the child, which has ended."""
        self._link.close()
        if self.listener is not None:
            os.close(self.listener)
