"""Plans of fill lines: where they come from and which fields they need."""

from __future__ import annotations

from pathlib import Path

from palaver.core import TaskError
from palaver.envs.base.tasks import Task, read_tasks
from palaver.envs.minecraft.build import carry_out
from palaver.envs.minecraft.commands import Terms, read
from palaver.envs.minecraft.env import BuildTarget, Plans
from palaver.envs.minecraft.mini.houses import SIZE
from palaver.envs.minecraft.world import AIR_NAME, box_of, codes, empty, palette_of
from palaver.text import one_line

SAMPLE = Path(__file__).with_name("sample.jsonl")
MOST_LINES = 64


def load(source: str | Path) -> tuple[tuple[Task, ...], Plans]:
    """Tasks with `lines`, a text of fill commands that builds the house; `task_id` names a task.

    Raises:
        TaskError: no task can be used; see `palaver.envs.base.tasks.load_tasks` for the others.
    """
    tasks, plans = read_tasks(
        source, lambda task: _plan(task, source), sample=SAMPLE, fields={"lines": str}, id_field="task_id"
    )
    return tasks, Plans(plans)


def _plan(task: Task, source: str | Path) -> BuildTarget:
    location = one_line(f"{source}, task {task.id!r}")
    rows = task["lines"].splitlines()
    palette = palette_of(row.split()[-1] for row in rows if row.strip())
    names = {name: code for name, code in codes(palette).items() if name != AIR_NAME}
    reading = read(task["lines"], Terms("fill", box_of(SIZE), names, MOST_LINES))
    for line, reason in reading.rejected(1):
        raise TaskError(f"{location}: the field 'lines' holds {line!r:.60}: {reason}")
    target, owner = empty(SIZE), empty(SIZE)
    carry_out(target, owner, [reading])
    if not target.any():
        raise TaskError(f"{location}: the field 'lines' builds nothing; write {'fill x1 y1 z1 x2 y2 z2 block'!r}")
    target.setflags(write=False)
    return BuildTarget(target, palette)
