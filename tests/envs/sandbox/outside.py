"""Processes and objects outside of the sandbox that `ways_out.py` tries to reach, and what has reached them."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from palaver.envs.code.sandbox import view
from palaver.envs.code.sandbox.seccomp import _MACHINES, _NUMBERS

SIGNALS = 40  # the first of five real-time signals, one for each way
LIMIT = 123_456
_IPC_CREAT, _IPC_RMID = 0o1000, 0
_GETVAL = 12
_TARGET = """
import ctypes, json, os, resource, signal, sys
held, seen = ctypes.create_string_buffer(128), []
for number in range(int(sys.argv[1]), int(sys.argv[1]) + 5):
    signal.signal(number, lambda number, frame: seen.append(number))
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_long(-1), 0, 0, 0)  # Yama: any process may look into this one
print(ctypes.addressof(held), flush=True)
usual, most = resource.getrlimit(resource.RLIMIT_FSIZE)
priority = os.getpriority(os.PRIO_PROCESS, 0)
for line in sys.stdin:
    limit, now = resource.getrlimit(resource.RLIMIT_FSIZE)[0], os.getpriority(os.PRIO_PROCESS, 0)
    print(json.dumps([seen, held.raw.decode("latin-1"), limit != usual, now != priority]), flush=True)
    seen.clear()
    ctypes.memset(held, 0, 128)
    resource.setrlimit(resource.RLIMIT_FSIZE, (usual, most))
    priority = now
"""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p


class Outside(contextlib.ExitStack):
    """Receivers that the file modes open to every user.

    Attributes:
        place: where they are, as plain values.
    """

    def __init__(self, user: int | None) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="palaver-outside-"))
        self.callback(shutil.rmtree, self.folder)
        self.folder.chmod(0o777)
        column = _MACHINES[os.uname().machine][0]
        numbers = {"queue_signal": _NUMBERS["rt_sigqueueinfo"][column], "tgkill": _NUMBERS["tgkill"][column]}
        self.place = {"folder": str(self.folder), "signals": SIGNALS, "limit": LIMIT, **numbers}
        self._sockets()
        self._files()
        self._queues()
        self._process(user)

    def _sockets(self) -> None:
        self.datagrams, self.streams = [], []
        for name, kind in (("datagram", socket.SOCK_DGRAM), ("stream", socket.SOCK_STREAM)):
            for address in (str(self.folder / name), f"\0palaver-{os.getpid()}-{name}"):
                self._bound(socket.AF_UNIX, kind, address)
                self.place["abstract " * address.startswith("\0") + name] = address
        self.place["packets"] = str(self.folder / "packets")
        self._bound(socket.AF_UNIX, socket.SOCK_SEQPACKET, self.place["packets"])
        for name, kind in (("tcp", socket.SOCK_STREAM), ("udp", socket.SOCK_DGRAM)):
            self.place[name] = self._bound(socket.AF_INET, kind, ("127.0.0.1", 0)).getsockname()[1]
        for name in ("datagram", "stream", "packets"):
            (self.folder / name).chmod(0o777)

    def _bound(self, family, kind, address) -> socket.socket:
        made = self.enter_context(socket.socket(family, kind))
        made.bind(address)
        made.setblocking(False)
        if kind == socket.SOCK_DGRAM:
            self.datagrams.append(made)
        else:
            made.listen(64)
            self.streams.append(made)
        return made

    def _files(self) -> None:
        for name in ("file", "fifo"):
            self.place[name] = str(self.folder / name)
        Path(self.place["file"]).touch()
        os.mkfifo(self.place["fifo"])
        for name in ("file", "fifo"):
            os.chmod(self.place[name], 0o666)
        self._fifo = os.open(self.place["fifo"], os.O_RDONLY | os.O_NONBLOCK)
        self.callback(os.close, self._fifo)

    def _queues(self) -> None:
        self.place["key"] = key = 0x50000000 | os.getpid()
        self._queue = _libc.msgget(key, _IPC_CREAT | 0o666)
        self.callback(_libc.msgctl, self._queue, _IPC_RMID, None)
        memory = _libc.shmget(key, 4096, _IPC_CREAT | 0o666)
        self.callback(_libc.shmctl, memory, _IPC_RMID, None)
        self._memory = _libc.shmat(memory, None, 0)
        self._semaphore = _libc.semget(key, 1, _IPC_CREAT | 0o666)
        self.callback(_libc.semctl, self._semaphore, 0, _IPC_RMID)
        self.place["mq"] = f"/palaver-{os.getpid()}"
        name, before = self.place["mq"].encode(), os.umask(0)
        self._mq = _libc.mq_open(name, os.O_RDONLY | os.O_CREAT | os.O_NONBLOCK, 0o666, None)
        os.umask(before)
        self.callback(_libc.mq_unlink, name)
        assert min(self._queue, memory, self._semaphore) >= 0

    def _process(self, user: int | None) -> None:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._pipe, self.place["pipe"] = reader, writer
        self.callback(os.close, reader)
        self._target = subprocess.Popen(
            [str(view.interpreter()), "-c", _TARGET, str(SIGNALS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, cwd="/", pass_fds=[writer], user=user, group=user, extra_groups=None if user is None else [],
        )  # fmt: skip
        os.close(writer)
        self.callback(self._end)
        self.place["pid"], self.place["memory"] = self._target.pid, int(self._target.stdout.readline())

    def _end(self) -> None:
        with self._target:  # closes its pipes and waits
            self._target.kill()

    def received(self) -> list[str]:
        """The ways by which something has come or been changed here since the last call."""
        marks = b"".join(self._pieces())
        self._target.stdin.write("\n")
        self._target.stdin.flush()
        signals, memory, limited, slowed = json.loads(self._target.stdout.readline())
        found = re.findall("<(.+?)>", marks.decode() + memory)
        sent = ["kill", "tgkill", "pidfd_send_signal", "rt_sigqueueinfo", "a signal by a descriptor's owner"]
        found += [sent[number - SIGNALS] for number in signals]
        if _libc.semctl(self._semaphore, 0, _GETVAL):
            found.append("a System V semaphore")
            _libc.semctl(self._semaphore, 0, 16, 0)
        found += ["the limits of another process"] * limited + ["the priority of another process"] * slowed
        return sorted(found)

    def _pieces(self):
        for each in self.datagrams:
            yield from _messages(each)
        for each in self.streams:
            with contextlib.suppress(BlockingIOError):
                while True:
                    with each.accept()[0] as connection:
                        connection.setblocking(False)
                        yield b"<a connection>"
                        yield from _messages(connection)
        for reader in (self._fifo, self._pipe):
            with contextlib.suppress(BlockingIOError):
                yield os.read(reader, 1 << 16)
        for path in (self.folder / "file", self.folder / "new"):
            if path.exists():
                yield path.read_bytes()
                os.truncate(path, 0)
        held = ctypes.create_string_buffer(1 << 16)
        while _libc.msgrcv(self._queue, held, 8192, 0, 0o4000) >= 0:
            yield held.raw[8:].partition(b"\0")[0]
            ctypes.memset(held, 0, len(held))
        while self._mq >= 0 and (length := _libc.mq_receive(self._mq, held, len(held), None)) >= 0:
            yield held.raw[:length]
        yield ctypes.string_at(self._memory, 4096).partition(b"\0")[0]
        ctypes.memset(self._memory, 0, 4096)


def _messages(source):
    """The message, and the descriptor where one came with it."""
    with contextlib.suppress(BlockingIOError):
        while True:
            text, descriptors, _, _ = socket.recv_fds(source, 1 << 16, 8)
            for each in descriptors:
                os.close(each)
                yield b"<a descriptor>"
            if not text:
                return
            yield text
