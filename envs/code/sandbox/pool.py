"""Workers kept warm, and programs dealt out to them."""

from __future__ import annotations

import contextlib
import functools
import os
import time
import warnings
from dataclasses import asdict
from queue import Empty, LifoQueue
from typing import Any, Literal, cast, get_args

from palaver.core import ConfigError, PalaverWarning
from palaver.envs.code.sandbox import suite, view
from palaver.envs.code.sandbox.launch import LaunchPlan
from palaver.envs.code.sandbox.report import (
    DEFAULT,
    Limits,
    Mode,
    Report,
    SandboxError,
    TestResult,
    TestsError,
    Verdict,
)
from palaver.envs.code.sandbox.slot import Slot
from palaver.text import one_line
from palaver.utils.machine import usable_cores
from palaver.utils.workers import Closing, ProcessLocal

VARIABLE = "PALAVER_SANDBOX"


class SandboxPool(Closing):
    """Warm workers. `score` may be called from any number of threads.

    Args:
        size: programs scored at the same time; None: as many as there are cores.
        mode: `auto` takes bubblewrap, else Landlock; `unsafe` confines nothing and warns. None: the environment
            variable PALAVER_SANDBOX, else `auto`.
        filtered: use the system call filter; False only in tests of the defences behind it.

    Raises:
        ConfigError: an unknown mode, or a size below 1.
        SandboxError: nothing that was allowed is possible on this machine.
    """

    def __init__(
        self, size: int | None = None, mode: Mode | Literal["auto"] | None = None, *, filtered: bool = True
    ) -> None:
        chosen = mode or os.environ.get(VARIABLE) or "auto"
        if chosen != "auto" and chosen not in get_args(Mode):
            raise ConfigError(f"the sandbox's mode must be auto, bubblewrap, landlock or unsafe, got {chosen!r}")
        size = usable_cores() if size is None else size
        if size < 1:
            raise ConfigError(f"a pool needs at least 1 worker, got {size}")
        if chosen == "unsafe":
            warnings.warn("programs run unconfined: they can do whatever you can", PalaverWarning, stacklevel=2)
        self._impossible: dict[str, str] = {}
        self._plans: list[LaunchPlan] = []
        for candidate in view.MODES if chosen == "auto" else (cast(Mode, chosen),):
            try:
                self._plans.append(view.plan(candidate, filtered))
            except SandboxError as error:
                self._impossible[candidate] = str(error)
        if not self._plans:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self._impossible.items())
            raise SandboxError(f"no sandbox is possible here ({reasons}); see docs/sandbox.md")
        self._owner = os.getpid()
        self._slots = _empty(size)

    def score(
        self, program: str, tests: str, entry_point: str, *, prompt: str = "", limits: Limits = DEFAULT
    ) -> Report:
        """See `palaver.envs.code.sandbox.score`."""
        assertions = check_tests(tests, entry_point, prompt)
        request = {"program": program, "tests": tests, "entry_point": entry_point, "prompt": prompt}
        if os.getpid() != self._owner:  # a forked copy: the slots are the other process's
            self._owner, self._slots = os.getpid(), _empty(self._slots.maxsize)
        slot, reply, mode, seconds = self._slots.get(), None, "", 0.0
        try:
            slot = slot or self._start()
            began = time.monotonic()
            reply = slot.request(request | {"limits": asdict(limits)})
            mode, seconds = slot.mode, time.monotonic() - began
        finally:
            if reply is None and slot is not None:  # interrupted: what it holds is unknown
                slot.close()
                slot = None
            self._slots.put(slot)
        return _report(reply, assertions, seconds, cast(Mode, mode))

    def _start(self) -> Slot:
        slot = Slot(self._plans)
        for mode, reason in {**self._impossible, **slot.refused}.items():
            _warn_once(f"programs are confined by {slot.mode}, not by {mode}: {one_line(reason)}")
        return slot

    def close(self) -> None:
        """End the idle workers."""
        if os.getpid() != self._owner:
            return
        idle: list[Slot | None] = []
        with contextlib.suppress(Empty):
            while True:
                idle.append(self._slots.get_nowait())
        for slot in idle:
            if slot is not None:
                slot.close()
            self._slots.put(None)


shared_pool = ProcessLocal(SandboxPool)


def check_tests(tests: str, entry_point: str, prompt: str = "") -> tuple[suite.Assertion, ...]:
    """The assertions of the tests, each with its line.

    Raises:
        TestsError: they do not parse, assert nothing, or never call the candidate.
    """
    try:
        return suite.read(tests, entry_point, prompt).assertions
    except suite.UnusableError as error:
        raise TestsError(one_line(error)) from error


@functools.cache
def _warn_once(text: str) -> None:
    warnings.warn(text, PalaverWarning, stacklevel=2)


def _empty(size: int) -> LifoQueue[Slot | None]:
    """A queue of slots that are not started yet."""
    slots: LifoQueue[Slot | None] = LifoQueue(size)
    for _ in range(size):
        slots.put(None)
    return slots


def _report(reply: dict[str, Any], assertions: tuple[suite.Assertion, ...], seconds: float, mode: Mode) -> Report:
    given, message = reply.get("results"), ""
    if given is None:
        verdict, message = _unexamined(reply)
        given = [(verdict, message)] * len(assertions)
    results = tuple(
        TestResult(at.line, cast(Verdict, verdict), one_line(text, 600), at.source)
        for at, (verdict, text) in zip(assertions, given, strict=True)
    )
    passed = sum(result.verdict == "pass" for result in results)
    first: Verdict = next((result.verdict for result in results if result.verdict != "pass"), "pass")
    return Report(first, passed, len(results), results, seconds, mode, one_line(message, 600))


def _unexamined(reply: dict[str, Any]) -> tuple[str, str]:
    """Verdict and message of every test where the examiner gave none."""
    if "overrun" in reply:
        return "timeout", "the tests did not come to an end with what the program returned"
    if "killed" in reply:
        return "killed", reply["killed"]
    return "sandbox_error", str(reply.get("fault") or reply.get("lost"))
