"""What this machine can confine a program with: each way is tried, not guessed."""

from __future__ import annotations

from dataclasses import dataclass

from palaver.envs.code.sandbox import view
from palaver.envs.code.sandbox.launch import LaunchError, Worker
from palaver.envs.code.sandbox.report import Mode, SandboxError
from palaver.text import one_line


@dataclass(frozen=True, slots=True)
class Ability:
    """Whether programs can be confined in this way here.

    Attributes:
        mode: the way.
        works: whether a worker started in it.
        detail: what was found, or why it did not start.
    """

    mode: Mode
    works: bool
    detail: str


def probe() -> tuple[Ability, ...]:
    """Start a worker in each way of confinement, best first; the first that works is what `auto` takes."""
    return tuple(_try(mode) for mode in view.MODES)


def _try(mode: Mode) -> Ability:
    try:
        plan = view.plan(mode)
        worker = Worker(plan)
    except (SandboxError, LaunchError) as error:
        return Ability(mode, False, one_line(error))
    facts, filtered = worker.facts, plan["settings"]["filter"]
    worker.close()
    how = view.bubblewrap_version() if mode == "bubblewrap" else f"Landlock {facts['landlock']}"
    parts = [how, "system call filter" if filtered else "no system call filter", f"user {facts['uid']}"]
    return Ability(mode, True, ", ".join([*parts, f"Python {facts['python']} ({view.interpreter()})"]))
