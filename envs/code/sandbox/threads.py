"""A limit on the threads of a program.

The kernel's own limit (RLIMIT_NPROC) counts all processes of the user. A filter that children inherit notifies the
worker of each `clone` that starts a thread; the worker counts the child's threads and answers. Only the flags of the
call, which lie in a register, trigger the notice, so that nothing a program writes in memory changes the answer.

Standard library only: this module also runs in the worker, where Palaver is not installed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
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


class ThreadLimit:
    """Answers of the worker to the child whose program runs.

    Attributes:
        listener: readable when the program wants to start a thread.
        limits: where a child writes its limit, before it loads a program.

    Raises:
        OSError: the kernel refuses the filter; EBUSY where this process already is under one with a listener.
    """

    def __init__(self) -> None:
        self.listener = seccomp.Filter(seccomp.thread_notices()).install_with_listener()
        self._limits, self.limits = os.pipe()
        self.watch(0)

    def watch(self, child: int) -> None:
        """Begin to answer the program of this child."""
        self._folder = f"/proc/{child}/task"
        self._max_threads = 0
        self._allowed = 1
        self._pending: dict[int, float] = {}

    def answer(self) -> None:
        """Let the thread that waits start another one, or have its call fail as at RLIMIT_NPROC."""
        notice = bytearray(_NOTICE_SIZE)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, notice)
        except FileNotFoundError:  # its process has ended, or a signal took it out of the call
            return
        call, thread = _NOTICE.unpack_from(notice)
        allowed = self._allows(thread)
        reply = _REPLY.pack(call, 0, 0 if allowed else -errno.EAGAIN, _CONTINUE if allowed else 0)
        with contextlib.suppress(FileNotFoundError):  # as above
            fcntl.ioctl(self.listener, _SEND, reply)

    def _allows(self, thread: int) -> bool:
        """Return True where one more thread is within the limit.

        Allowed ones that have not begun count.
        """
        if not self._max_threads:  # of all children so far, this one was the last to write
            processes = _LIMIT.unpack(os.read(self._limits, 1 << 16)[-_LIMIT.size :])[0]
            self._max_threads = max(1, processes - _OURS)
        now = time.monotonic()
        # a thread with a new request is through with its last clone
        self._pending = {t: at for t, at in self._pending.items() if t != thread and now - at < _SETTLED}
        try:
            alive = os.stat(self._folder).st_nlink - 2
        except FileNotFoundError:  # /proc is hidden: all that were ever started count
            alive = self._allowed
        if alive + len(self._pending) >= self._max_threads:
            return False
        self._pending[thread] = now
        self._allowed += 1
        return True


def tell_limit(limits: int, processes: int) -> None:
    """In a child: say how many processes and threads there may be, and close the descriptor."""
    os.write(limits, _LIMIT.pack(processes))
    os.close(limits)
