"""Probe of this machine's ways to confine a program: each is tried, not guessed."""

from __future__ import annotations

from dataclasses import dataclass

from palaver.envs.code.sandbox import view
from palaver.envs.code.sandbox.launch import LaunchError, SandboxWorker
from palaver.envs.code.sandbox.report import Mode, SandboxError
from palaver.text import one_line


@dataclass(frozen=True, slots=True)
class Ability:
    """Result of trying one way of confinement on this machine.

    Attributes:
        mode: the way.
        works: True if a worker started in it.
        detail: its properties, or the reason why it did not start.
    """

    mode: Mode
    works: bool
    detail: str


def probe() -> tuple[Ability, ...]:
    """Start a worker in each way of confinement, best first.

    The first that works is what `auto` takes.
    """
    return tuple(_try(mode) for mode in view.MODES)


def _try(mode: Mode) -> Ability:
    try:
        plan = view.plan(mode)
        worker = SandboxWorker(plan)
    except (SandboxError, LaunchError) as error:
        return Ability(mode, False, one_line(error))
    facts, filtered = worker.facts, plan["settings"]["filter"]
    worker.close()
    how = view.bubblewrap_version() if mode == "bubblewrap" else f"Landlock {facts['landlock']}"
    parts = [how, "system call filter" if filtered else "no system call filter", f"user {facts['uid']}"]
    return Ability(mode, True, ", ".join([*parts, f"Python {facts['python']} ({view.interpreter()})"]))
