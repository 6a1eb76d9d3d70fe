"""The untrusted side: a process that confines itself, then forks one child for each program.

The first process (the zygote) never reads a program or an argument: it hands out a channel to each child, and says how
the child ended. Programs, calls and answers go through that channel, so that nothing of one program is left in memory
for the next.

Standard library only: this module runs where Palaver is not installed.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from palaver.envs.code.sandbox import confine, seccomp, threads, wire

NAME = "program"
OUT_OF_MEMORY, BROKEN = 71, 70  # how a child exits that could not even answer
_LONGEST = 500  # characters of an exception's text
_WARM_UPS = 20
_SMALL = "def f(a, b):\n    for x in a:\n        b[x] = str(x)\n    return [*sorted(b)]"

# what programs usually import: loaded once here, it costs them nothing
PRELOAD = (
    "abc", "bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools",
    "hashlib", "heapq", "itertools", "math", "operator", "re", "statistics", "string", "typing",
)  # fmt: skip


class _Filters(NamedTuple):
    """System call filters of a child, None where it has none: of all calls, and of those that start threads."""

    calls: seccomp.Filter | None
    threads: seccomp.Filter | None


class _Child(NamedTuple):
    """A child that waits for a program, our end of its channel, and the link by which its threads are limited."""

    pid: int
    channel: socket.socket
    link: socket.socket | None


def main(settings: dict[str, Any]) -> None:
    """Confine this process, say so, and serve until the other side closes the control channel."""
    control = socket.socket(fileno=settings["control"])
    _still()
    try:
        facts = _confine(settings)
        filters = _Filters(
            seccomp.Filter(seccomp.program()) if settings["filter"] else None,
            seccomp.Filter(seccomp.thread_notices()) if settings["count_threads"] else None,
        )
        _try_listener(filters)
    except OSError as error:
        control.send(json.dumps({"failed": str(error)}).encode())
        os._exit(BROKEN)
    _warm()
    control.send(json.dumps(facts).encode())
    _serve(control, settings, filters)
    os._exit(0)


def _still() -> None:
    """Read nothing, print nowhere, and leave signals to the kernel."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _confine(settings: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"python": sys.version.split()[0], "uid": os.getuid(), "pid": os.getpid()}
    if settings["mode"] == "bubblewrap":
        confine.private_tmp()
        os.chdir(confine.TMP)
        confine.drop_capabilities()
    confine.close_ranks()
    confine.forbid()
    if settings["mode"] == "landlock":
        os.chdir("/")
        facts["landlock"] = confine.landlock(settings["files"], settings["folders"])
    return facts


def _try_listener(filters: _Filters) -> None:
    """Find out, in a child, whether the kernel lets threads be counted: a filter cannot be taken off again.

    Raises:
        OSError: it does not.
    """
    if filters.threads is None:
        return
    child = os.fork()
    if child == 0:
        _, raised = _attempt(filters.threads.install_with_listener)
        code = raised.errno if isinstance(raised, OSError) else None
        os._exit(0 if raised is None else code or BROKEN)
    refused = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if refused:
        raise OSError(f"the filter that counts threads was refused: {os.strerror(abs(refused))}")


def _warm() -> None:
    """Do beforehand what every child would do: import, and let the interpreter adapt the code that each will run."""
    for name in PRELOAD:
        importlib.import_module(name)
    for _ in range(_WARM_UPS):
        confine.close_ranks()
        module = types.ModuleType(NAME)
        _load(_SMALL, module)
        wire.decode(wire.encode(["", *_answer(module.__dict__["f"], [[1, (2, "3")], {4: 5.0}], {})]))
    gc.collect()
    gc.freeze()


def _serve(control: socket.socket, settings: Mapping[str, Any], filters: _Filters) -> None:
    """Hand out children and end them when told to, until there is nobody to tell.

    With the filter a program can neither start a process nor signal one, so the next child is made while the program
    runs; without it, only when everything else in the name space has been killed.
    """
    count_processes = settings["count_processes"]
    alone = filters.calls is None and settings["mode"] == "bubblewrap" and os.getpid() == 1
    report: dict[str, Any] = {"status": 0, "clean": True}
    ready = _fork(control, count_processes, filters)
    while True:
        child = ready
        socket.send_fds(control, [json.dumps(report).encode()], [child.channel.fileno()])
        child.channel.close()
        if not alone:
            ready = _fork(control, count_processes, filters)
        told = _await(control, child)
        status = _end(child.pid, alone)
        if not told:
            return
        report = {"status": status, "clean": settings["mode"] != "bubblewrap" or _clean()}
        if alone:
            ready = _fork(control, count_processes, filters)


def _await(control: socket.socket, child: _Child) -> bytes:
    """The next order; until it comes, the child is told whether it may start threads."""
    if child.link is None:
        return control.recv(16)
    with contextlib.closing(threads.Threads(child.pid, child.link)) as limited:
        waiting = select.poll()
        waiting.register(control, select.POLLIN)
        if limited.listener is not None:
            waiting.register(limited.listener, select.POLLIN)
        while True:
            events = dict(waiting.poll())
            if control.fileno() in events:
                return control.recv(16)
            for listener, event in events.items():
                if event & select.POLLIN:
                    limited.answer()
                else:  # the child has ended
                    waiting.unregister(listener)


def _fork(control: socket.socket, count_processes: bool, filters: _Filters) -> _Child:
    """A child that waits for a program."""
    ours, theirs = socket.socketpair()
    link, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) if filters.threads else (None, None)
    child = os.fork()
    if child == 0:
        control.close()
        ours.close()
        _child(theirs.detach(), None if far is None else far.detach(), count_processes, filters)
    theirs.close()
    if far is not None:
        far.close()
    return _Child(child, ours, link)


def _end(child: int, alone: bool) -> int:
    """Kill a child or, in a name space of its own, all there is beside this process; the child's wait status."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1 if alone else child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    with contextlib.suppress(ChildProcessError):
        while alone:
            os.waitpid(-1, 0)
    return status


def _clean() -> bool:
    """Whether /tmp is as the next program must find it, or could be made so: empty."""
    try:
        for name in os.listdir(confine.TMP):
            os.unlink(os.path.join(confine.TMP, name))
    except OSError:
        return False
    return True


def _child(channel: int, link: int | None, count_processes: bool, filters: _Filters) -> None:
    """Confine this process, wait for a program, and answer until killed."""
    confine.close_ranks()
    kept = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 64) for descriptor in (channel, link) if descriptor is not None]
    for number, descriptor in enumerate(kept, 3):
        os.dup2(descriptor, number)
    os.closerange(3 + len(kept), 256)
    far = None if link is None else socket.socket(fileno=4)
    if far is not None and filters.threads is not None:
        threads.hand_over(far, filters.threads)
    if filters.calls is not None:
        filters.calls.install()
    random.seed(0)
    _, raised = _attempt(_converse, socket.socket(fileno=3), far, count_processes)
    os._exit(OUT_OF_MEMORY if isinstance(raised, MemoryError) else BROKEN)


def _converse(channel: socket.socket, link: socket.socket | None, count_processes: bool) -> None:
    limits, text, entry_point = wire.receive(channel)
    if link is not None:
        threads.tell_limit(link, limits["processes"])
    confine.limit(limits, count_processes)
    module = types.ModuleType(NAME)
    sys.modules[NAME] = module
    _, raised = _attempt(_load, text, module)
    function = module.__dict__.get(entry_point)
    wire.send(channel, ["loaded", callable(function)] if raised is None else _told(raised))
    while True:
        token, positional, named = wire.receive(channel)
        body, refused = _attempt(_answer, function, positional, named)
        _, refused = _attempt(wire.send, channel, [token, *body]) if refused is None else (None, refused)
        if isinstance(refused, wire.NotPlainError):
            wire.send(channel, [token, "refused", f"a value that {refused}"[:_LONGEST]])
        elif refused is not None:
            wire.send(channel, [token, *_told(refused), None])


def _load(text: str, module: types.ModuleType) -> None:
    code = compile(text, NAME, "exec", dont_inherit=True)
    exec(code, module.__dict__)


def _answer(function: Any, positional: list[Any], named: dict[str, Any]) -> list[Any]:
    """What the function did with these arguments: its value or exception, and the arguments where it changed them."""
    fixed = all(map(wire.is_fixed, (*positional, *named.values())))
    before = b"" if fixed else wire.encode([positional, named])
    value, raised = _attempt(lambda: function(*positional, **named))
    body = ["value", value] if raised is None else _told(raised)
    changed = not fixed and wire.encode([positional, named]) != before
    return [*body, [positional, named] if changed else None]


def _attempt(function: Callable[..., Any], *arguments: Any) -> tuple[Any, BaseException | None]:
    """What it returned, or what it raised: a program is not ours and may raise anything, `SystemExit` included."""
    try:
        return function(*arguments), None
    except BaseException as raised:  # noqa: BLE001
        return None, raised


def _told(raised: BaseException) -> list[Any]:
    """An exception as plain values: its builtin classes, nearest first, its arguments, its text."""
    told, failed = _attempt(_describe, raised)
    return told if failed is None else ["raised", [], [], "an exception that cannot be described"]


def _describe(raised: BaseException) -> list[Any]:
    classes = [kind.__name__ for kind in type(raised).__mro__ if kind.__module__ == "builtins"]
    line, step = 0, raised.__traceback__
    while step is not None:
        line = step.tb_lineno if step.tb_frame.f_code.co_filename == NAME else line
        step = step.tb_next
    raised.__traceback__ = raised.__cause__ = raised.__context__ = None  # they hold the memory of the frames
    text = str(raised)[:_LONGEST]
    told = ["raised", classes, [*raised.args], f"{type(raised).__name__}: {text}" + f" (line {line})" * bool(line)]
    plain, failed = _attempt(wire.encode, told)
    return told if failed is None and len(plain) <= 4 * _LONGEST else ["raised", classes, [text], told[-1]]
