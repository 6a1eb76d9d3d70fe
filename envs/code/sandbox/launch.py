"""Starting a worker process, and communication with it.

Our modules run where Palaver is not installed. The modules' texts go through standard input and are made into modules
of the same names, so a process needs nothing but an interpreter: neither a file nor a path of ours has to be readable
where it runs.

Standard library only: this module also runs in the examiner, where Palaver is not installed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
from typing import IO, Any, TypedDict

START_SECONDS = 10.0
ANSWER_SECONDS = 5.0
KILLED_SECONDS = 10.0

# -s -S: no site packages; -P: nothing from the current folder; -B: no caches written
FLAGS = ("-s", "-S", "-P", "-B", "-c")
ENVIRONMENT = {"LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PATH": "/usr/local/bin:/usr/bin:/bin"}
BOOT = """
import json, sys, types
modules, settings = json.loads(sys.stdin.buffer.readline())
for name, source in modules:
    parent, _, leaf = name.rpartition(".")
    package = sys.modules.setdefault(parent, types.ModuleType(parent))
    sys.modules[name] = module = types.ModuleType(name)
    setattr(package, leaf, module)
    exec(compile(source, name, "exec", dont_inherit=True), module.__dict__)
module.main(settings)
"""


class LaunchPlan(TypedDict):
    """Plan to start a worker.

    Keys:
        mode: bubblewrap, landlock or unsafe.
        command: the interpreter, after the confining program.
        user: the user and group it runs as; None: this process's own.
        modules: (name, text) of each module it runs, the last with `main`.
        settings: arguments of `main`.
    """

    mode: str
    command: list[str]
    user: int | None
    modules: list[tuple[str, str]]
    settings: dict[str, Any]


class LaunchError(RuntimeError):
    """A worker did not start; the message holds its output."""


class LostError(BaseException):
    """A worker no longer answers.

    Its state is unknown. The handlers of a test must not catch it.
    """


class SandboxWorker:
    """A running zygote, which keeps a child ready. `begin` takes it, `end` ends it.

    Attributes:
        mode: of its confinement.
        facts: its report on itself.
        served: children taken.
        usable: True if the next program would find it as new.
    """

    def __init__(self, plan: LaunchPlan) -> None:
        self.mode = plan["mode"]
        self.served = 0
        self.usable = True
        self._status = 0
        self._next: socket.socket | None = None
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._process = None
        try:
            with theirs:
                self._process = self._start(plan, theirs.fileno())
            self.facts = self._ready()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            reason = self._last_error() or str(error)
            self.close()
            raise LaunchError(reason) from error

    def _start(self, plan: LaunchPlan, control: int) -> subprocess.Popen[bytes]:
        given = json.dumps([plan["modules"], plan["settings"] | {"control": control}]).encode() + b"\n"
        user = plan["user"]
        process = subprocess.Popen(
            plan["command"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            cwd="/",
            env=ENVIRONMENT,
            pass_fds=[control],
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            start_new_session=True,
        )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(given)
        return process

    def _ready(self) -> dict[str, Any]:
        self._control.settimeout(START_SECONDS)
        answer = self._control.recv(4096)
        if not answer:
            raise ValueError("it ended without a word")
        facts: dict[str, Any] = json.loads(answer)
        if "failed" in facts:
            raise ValueError(facts["failed"])
        return facts

    def _last_error(self) -> str:
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
        self._errors.seek(0)
        lines = self._errors.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def begin(self) -> socket.socket:
        """Our end of the channel to a child that waits for a program.

        Raises:
            LostError: the worker is gone.
        """
        self.settle()
        assert self._next is not None
        channel, self._next = self._next, None
        self.served += 1
        return channel

    def end(self) -> None:
        """Have the child and all it started killed, without waiting for it.

        Raises:
            LostError: the worker is gone.
        """
        try:
            self._control.send(b"end")
        except OSError as error:
            raise LostError("the worker is gone") from error

    def settle(self) -> int:
        """Wait until the last child is gone and the next one is ready; the last one's wait status.

        Raises:
            LostError: the worker does not answer.
        """
        if self._next is None:
            try:
                self._control.settimeout(ANSWER_SECONDS)
                answer, descriptors, _, _ = socket.recv_fds(self._control, 4096, 1)
                report = json.loads(answer)
            except (OSError, ValueError) as error:
                raise LostError("the worker does not answer") from error
            self._next = socket.socket(fileno=descriptors[0])
            self._status, self.usable = int(report["status"]), bool(report["clean"])
        return self._status

    def close(self) -> None:
        """Kill the worker and everything in it."""
        self._control.close()
        if self._next is not None:
            self._next.close()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel keeps it: it is left to it
                self._process.wait(KILLED_SECONDS)
        self._errors.close()
