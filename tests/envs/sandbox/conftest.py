"""Pools of one worker each, as root and as an ordinary user, and a host with things to steal."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest

from palaver.envs.code.sandbox import SandboxError, SandboxPool, slot, view

SECRET = "the-launch-code-is-0000"


USERS = ["root", "ordinary user"]


class _OrdinarySlot(slot.Slot):
    """A slot whose examiner, and so its worker, is a process of `nobody`."""

    def _start(self):
        popen = functools.partial(subprocess.Popen, user=view.NOBODY, group=view.NOBODY, extra_groups=[])
        python = mock.patch.object(slot.sys, "executable", str(view.interpreter()))
        with mock.patch.object(slot.subprocess, "Popen", popen), python:
            super()._start()


class _OrdinaryPool(SandboxPool):
    """A pool as it is where the user is not root: nothing in it has root's rights, and no user is changed."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self._plans = [{**plan, "user": None} for plan in self._plans]

    def _start(self):
        return _OrdinarySlot(self._plans)


def _kind(user):
    if user == "root" and os.geteuid() != 0:
        pytest.skip("these tests are not run as root")
    return _OrdinaryPool if user == "ordinary user" and os.geteuid() == 0 else SandboxPool


@pytest.fixture(scope="session")
def pools():
    """pools(mode, filtered, user): a pool of one worker, or a skip with the reason why there is none here."""
    with ExitStack() as stack:
        made: dict[tuple[type[SandboxPool], str, bool], SandboxPool | str] = {}

        def pool(mode="auto", filtered=True, user=None):
            key = (SandboxPool if user is None else _kind(user), mode, filtered)
            if key not in made:
                try:
                    made[key] = stack.enter_context(key[0](1, mode, filtered=filtered))
                    made[key].score("def f(): return 1", "assert f() == 1", "f")
                except SandboxError as error:
                    made[key] = str(error)
            found = made[key]
            return pytest.skip(found) if isinstance(found, str) else found

        yield pool


@pytest.fixture(scope="module")
def host():
    """A folder open to all, so that only the sandbox protects it, and sockets that would hear a knock."""
    folder = Path(tempfile.mkdtemp(prefix="palaver-host-"))
    folder.chmod(0o777)
    secret = folder / "secret.txt"
    secret.write_text(SECRET)
    secret.chmod(0o666)
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", tcp.getsockname()[1]))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(folder / "socket"))
        (folder / "socket").chmod(0o777)
        unix.listen()
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0palaver-{os.getpid()}")
        abstract.listen()
        yield Host(folder, secret, (tcp, udp, unix, abstract))
    shutil.rmtree(folder)


class Host:
    def __init__(self, folder, secret, sockets):
        self.folder, self.secret, self.sockets = folder, secret, sockets

    def fill(self, program):
        port = self.sockets[0].getsockname()[1]
        meant = {
            "SECRET": self.secret, "FOLDER": self.folder, "PORT": port, "SOCKET": self.folder / "socket",
            "PID": os.getpid(),
        }  # fmt: skip
        for name, value in meant.items():
            program = program.replace(name, str(value))
        return program
