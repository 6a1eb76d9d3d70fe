"""The untrusted side: a process that confines itself, then forks one child for each program.

The first process (the zygote) never reads a program or an argument: it hands out a channel to each child, and reports
how the child ended. Programs, calls and answers go through that channel, so that nothing of one program is left in
memory for the next.

Standard library only: this module runs where Palaver is not installed.
"""

from __future__ import annotations

import contextlib
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
_BEGUN = b"."
_LIMITS = 32  # descriptor for a child's limit of threads, closed after it is written
_SMALL = "def f(a, b):\n    for x in a:\n        b[x] = str(x)\n    return [*sorted(b)]"

# what programs usually import: loaded once here, it costs them nothing
PRELOAD = (
    "abc",
    "bisect",
    "collections",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "hashlib",
    "heapq",
    "itertools",
    "math",
    "operator",
    "re",
    "statistics",
    "string",
    "typing",
)


class _Rules(NamedTuple):
    """Limits of every child that are made once.

    Attributes:
        calls: the system call filter; None: there is none.
        threads: the limit on threads, where `count_processes` does not set it.
        count_processes: as in `confine.set_limits`.
    """

    calls: seccomp.Filter | None
    threads: threads.ThreadLimit | None
    count_processes: bool


def main(settings: dict[str, Any]) -> None:
    """Confine this process, say so, and serve until the other side closes the control channel."""
    control = socket.socket(fileno=settings["control"])
    _still()
    try:
        facts = _confine(settings)
        rules = _Rules(
            seccomp.Filter(seccomp.program()) if settings["filter"] else None,
            threads.ThreadLimit() if settings["count_threads"] else None,
            settings["count_processes"],
        )
    except OSError as error:
        control.send(json.dumps({"failed": str(error)}).encode())
        os._exit(BROKEN)
    _warm()
    control.send(json.dumps(facts).encode())
    _serve(control, settings, rules)
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


def _warm() -> None:
    """Warm up what every child needs.

    It imports modules and lets the interpreter adapt the code that each child will run.
    """
    for name in PRELOAD:
        importlib.import_module(name)
    for _ in range(_WARM_UPS):
        confine.close_ranks()
        module = types.ModuleType(NAME)
        _load(_SMALL, module)
        records = _Records(module, ["C"])
        wire.decode(wire.encode(["", *_answer(module.__dict__["f"], [[1, (2, "3")], {4: 5.0}], {}, records)]))
    gc.collect()
    gc.freeze()


def _serve(control: socket.socket, settings: Mapping[str, Any], rules: _Rules) -> None:
    """Hand out children and end them on request, until the control channel closes.

    With the filter a program can neither start a process nor signal one, so the next child is made while the program
    runs; without it, only when everything else in the name space has been killed.
    """
    alone = rules.calls is None and settings["mode"] == "bubblewrap" and os.getpid() == 1
    report: dict[str, Any] = {"status": 0, "clean": True}
    ready = _fork(control, rules)
    while True:
        child, channel = ready
        if rules.threads is not None:
            rules.threads.watch(child)
        socket.send_fds(control, [json.dumps(report).encode()], [channel.fileno()])
        channel.close()
        if not alone:
            ready = _fork(control, rules)
        message = _await(control, rules.threads)
        status = _end(child, alone)
        if not message:
            return
        report = {"status": status, "clean": settings["mode"] != "bubblewrap" or _clean()}
        if alone:
            ready = _fork(control, rules)


def _await(control: socket.socket, limited: threads.ThreadLimit | None) -> bytes:
    """The next order; until it comes, requests of the program for threads are answered."""
    if limited is not None:
        waiting = select.poll()
        for descriptor in (control.fileno(), limited.listener):
            waiting.register(descriptor, select.POLLIN)
        while control.fileno() not in dict(waiting.poll()):
            limited.answer()
    return control.recv(16)


def _fork(control: socket.socket, rules: _Rules) -> tuple[int, socket.socket]:
    """A child that waits for a program, and the other end of its channel."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # its first byte carries the process id
    child = os.fork()
    if child == 0:
        control.close()
        ours.close()
        _child(theirs.detach(), rules)
    theirs.close()
    return child, ours


def _end(child: int, alone: bool) -> int:
    """Kill a child or, in a name space of its own, all other processes; returns its wait status."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1 if alone else child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    with contextlib.suppress(ChildProcessError):
        while alone:
            os.waitpid(-1, 0)
    return status


def _clean() -> bool:
    """Empty /tmp for the next program; return whether that worked."""
    try:
        for name in os.listdir(confine.TMP):
            os.unlink(os.path.join(confine.TMP, name))
    except OSError:
        return False
    return True


def _child(channel: int, rules: _Rules) -> None:
    """Confine this process, wait for a program, and answer until killed."""
    confine.close_ranks()
    limits = rules.threads and os.dup2(rules.threads.limits, _LIMITS)
    os.dup2(channel, 3)
    os.closerange(4, _LIMITS)
    os.closerange(_LIMITS + (limits is not None), 256)
    os.write(3, _BEGUN)
    if rules.calls is not None:
        rules.calls.install()
    random.seed(0)
    _, raised = _attempt(_converse, socket.socket(fileno=3), limits, rules.count_processes)
    os._exit(OUT_OF_MEMORY if isinstance(raised, MemoryError) else BROKEN)


def _converse(channel: socket.socket, thread_limits: int | None, count_processes: bool) -> None:
    limits, text, entry_point, names = wire.receive(channel)
    if thread_limits is not None:
        threads.tell_limit(thread_limits, limits["processes"])
    confine.set_limits(limits, count_processes)
    module = types.ModuleType(NAME)
    sys.modules[NAME] = module
    _, raised = _attempt(_load, text, module)
    function = module.__dict__.get(entry_point)
    records = _Records(module, names)
    wire.send(channel, ["loaded", callable(function)] if raised is None else _exception_values(raised))
    while True:
        token, positional, named = wire.receive(channel, make=records.make)
        body, refused = _attempt(_answer, function, positional, named, records)
        _, refused = _attempt(records.send, channel, [token, *body]) if refused is None else (None, refused)
        if isinstance(refused, wire.NotPlainError):
            wire.send(channel, [token, "refused", f"a value that {refused}"[:_LONGEST]])
        elif refused is not None:
            wire.send(channel, [token, *_exception_values(refused), None])


def _load(text: str, module: types.ModuleType) -> None:
    code = compile(text, NAME, "exec", dont_inherit=True)
    exec(code, module.__dict__)


class _Records:
    """Instances of the tests' classes.

    Here they are of the program's class of that name, or of an empty one.
    """

    def __init__(self, module: types.ModuleType, names: list[str]) -> None:
        self._module = module
        self._empty = {name: type(name, (), {}) for name in names}

    def make(self, name: str, fields: wire.Fields) -> Any:
        instance, failed = _attempt(self._fill, self._module.__dict__.get(name), fields)
        return instance if failed is None else self._fill(self._empty[name], fields)

    def _fill(self, kind: Any, fields: wire.Fields) -> Any:
        """As unpickling does it: without the class's own ways of making."""
        instance = object.__new__(kind)
        for name, value in fields.items():
            object.__setattr__(instance, name, value)
        return instance

    def describe(self, value: Any) -> tuple[str, wire.Fields] | None:
        kind = type(value)
        name = type.__dict__["__name__"].__get__(kind)
        if name not in self._empty:
            return None
        known = object.__getattribute__(value, "__dict__") if hasattr(value, "__dict__") else {}
        slots = {slot: getattr(value, slot) for slot in getattr(kind, "__slots__", ()) if hasattr(value, slot)}
        return name, {**slots, **known}

    def send(self, channel: socket.socket, value: Any) -> None:
        wire.send(channel, value, describe=self.describe)


def _answer(function: Any, positional: list[Any], named: dict[str, Any], records: _Records) -> list[Any]:
    """Call the function; return its value or exception, and the arguments where it changed them."""
    fixed = all(map(wire.is_fixed, (*positional, *named.values())))
    before = b"" if fixed else wire.encode([positional, named], records.describe)
    value, raised = _attempt(lambda: function(*positional, **named))
    body = ["value", value] if raised is None else _exception_values(raised)
    changed = not fixed and wire.encode([positional, named], records.describe) != before
    return [*body, [positional, named] if changed else None]


def _attempt(function: Callable[..., Any], *arguments: Any) -> tuple[Any, BaseException | None]:
    """Return the value or the exception: a program may raise anything, `SystemExit` included."""
    try:
        return function(*arguments), None
    except BaseException as raised:  # noqa: BLE001
        return None, raised


def _exception_values(raised: BaseException) -> list[Any]:
    """An exception as plain values: its builtin classes, nearest first, its arguments, its text."""
    described, failed = _attempt(_describe, raised)
    return described if failed is None else ["raised", [], [], "an exception that cannot be described"]


def _describe(raised: BaseException) -> list[Any]:
    classes = [kind.__name__ for kind in type(raised).__mro__ if kind.__module__ == "builtins"]
    line, step = 0, raised.__traceback__
    while step is not None:
        line = step.tb_lineno if step.tb_frame.f_code.co_filename == NAME else line
        step = step.tb_next
    raised.__traceback__ = raised.__cause__ = raised.__context__ = None  # they hold the memory of the frames
    text = str(raised)[:_LONGEST]
    described = ["raised", classes, [*raised.args], f"{type(raised).__name__}: {text}" + f" (line {line})" * bool(line)]
    plain, failed = _attempt(wire.encode, described)
    return described if failed is None and len(plain) <= 4 * _LONGEST else ["raised", classes, [text], described[-1]]
