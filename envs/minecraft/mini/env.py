"""Agents build one small house together and must agree on the lines that each builds.

A house is eight boxes: a floor, walls around a door, a roof. Every agent sees all eight lines of the plan, and a line
is the command that builds its box. But no agent may write all of them, and none sees the others' lines: boxes built
twice are wasted, and boxes that both leave to the other are missing. A [HouseBuild](housebuild-v0.md) for models so
small that they can do little more than copy.

## Observation

At the start the builder's number, how many lines one may write, and the plan:

    You are builder 1 of 2. Write at most 5 lines of the plan.
    1. fill 0 0 0 4 0 5 stone
    2. fill 0 1 0 0 3 5 oak
    ...

The numbers name the lines, for a model that can only copy: most lines of a house begin alike. After the turn nothing.

## Action

Any text; the grammar is that of [housebuild-v0](housebuild-v0.md#action), with `fill` as the only command. A line of
the plan, word for word, with its number or without, is a legal command. Commands past the agent's share of
`max_commands` are rejected, and every rejected one adds 1 to the metric `illegal`. The builders' commands are carried
out builder by builder; later ones overwrite.

## Rewards

All agents receive the same reward. With t the blocks of the target, r those as planned and w the cells that hold
a block they should not:

* `right`: r / t;
* `wrong`: -min(1, w / t);
* `twice`: -0.5 s / t, with s those of r that several builders placed;
* `complete`: 0.25 if the world is as planned, to the last cell.

The maximum is 1.25, the minimum -1. A reward of r / t alone, or of IoU alone, would forgive a walled-up door, whose two
cells are next to nothing; `twice` makes builders share out instead of both building the large boxes. Two tiny models
learn it in minutes: [building together](../building.md).

Metrics that are no reward: `iou`, the cells with a block in both worlds over those with a block in either; `block_iou`,
the same if only the right block counts; `complete`; `covered` (r), `wrong` and `extra` (together w), `missing`, all in
cells; `placed_twice`, cells where several agents placed a block; `commands`, `rejected`, `illegal`; and the shares of
the target that are right and were placed by one agent, `by_one`, or by several, `by_several`, and the rest,
`not_built`.

## Termination

After one turn.

## Data

`tasks="sample"` are 384 different houses, written for this project. The last 64 are held out: the texts that the tiny
model imitates have none of them, and recipes train on `sample[:320]`. Widths, depths, heights, places, doors and blocks
are drawn at random. A file needs `lines`, fill commands that build the house in a world of 8 x 6 x 8 cells; `task_id`
names a task.

`scripted:reference` takes every second line (with n builders, every n-th), which the limits allow; `scripted:strangers`
take any 1 to 4 lines, `scripted:twins` the first that are allowed, both the same, and `scripted:lazy` is silent. The
tiny model imitates `strangers`.

## Version history

* v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from palaver.core import TaskError
from palaver.envs.base.questions import InferenceQuestion
from palaver.envs.base.tasks import ParsedTasks, Task, read_tasks
from palaver.envs.minecraft.commands import Terms, carry_out, lines_of, read
from palaver.envs.minecraft.env import BuildingEnv, BuildTarget, Built
from palaver.envs.minecraft.mini.houses import ASKED, SIZE, opening
from palaver.envs.minecraft.world import AIR_NAME, box_of, codes, empty, palette_of
from palaver.text import one_line

COMPLETE, TWICE = 0.25, 0.5
SAMPLE = Path(__file__).with_name("sample.jsonl")
MOST_LINES = 64


class BuildMiniEnv(BuildingEnv):
    """Build a small house of eight boxes; see the module's docstring for the reward.

    Args:
        tasks: `sample`, or a path; a slice may follow.
        agents: how many build.
        max_commands: lines of all agents together, split equally, the remainder to the first.
        render_mode: `ansi`, `rgb_array` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit; the message begins with the keyword.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**BuildingEnv.metadata, "name": "build_mini_v0"}
    best: ClassVar[float] = 1.0 + COMPLETE

    def __init__(
        self,
        tasks: str | Path = "sample",
        agents: int = 2,
        max_commands: int = 10,
        render_mode: str | None = None,
        max_length: int = 2048,
    ) -> None:
        loaded_tasks, plans = load(tasks)
        super().__init__(
            loaded_tasks,
            plans,
            agents=agents,
            num_turns=1,
            persistent=False,
            max_commands=max_commands,
            source=tasks,
            render_mode=render_mode,
            max_length=max_length,
        )

    def prompt(self, index: int) -> str:
        """The agent's number and the lines of the plan."""
        return opening(index, len(self.shares), self.shares[index], self.task["lines"])

    def terms(self, index: int) -> Terms:
        """Fills with the blocks of the plan."""
        return Terms("fill", box_of(SIZE), codes(self.palette), self.shares[index])

    def rewards(self, built: Built) -> dict[str, float]:
        """Reward of right blocks, penalties of wrong and double ones, and a bonus for the whole."""
        difference = built.difference
        return {
            "right": difference.covered / difference.target,
            "wrong": 0.0 - min(1.0, (difference.wrong + difference.extra) / difference.target),
            "twice": 0.0 - TWICE * self._hands(built)[1],
            "complete": COMPLETE * difference.complete,
        }

    def measure(self, built: Built) -> dict[str, float]:
        """Shares of the target built by one agent, by several, and by none."""
        one, several = self._hands(built)
        return {"by_one": one, "by_several": several, "not_built": 1.0 - one - several}

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:
        """Numbers of the lines of the plan that each other builder writes, up to its share."""
        plan = lines_of(self.task["lines"])
        numbers = tuple(str(n) for n in range(1, len(plan) + 1))
        asked = []
        for share, other in zip(self.shares, self.possible_agents, strict=True):
            if other != agent:
                written = set(lines_of(actions.get(other, ""))[:share])
                truth = tuple(n for n, line in zip(numbers, plan, strict=True) if line in written)
                asked.append(InferenceQuestion(other, ASKED.format(other=other), "slots", numbers, truth or None))
        return asked

    def _hands(self, built: Built) -> tuple[float, float]:
        """Shares of the target that are right and were placed by one agent, and by several."""
        right = (self.built == self.target) & (self.target != 0)
        hands = sum(placed_cells.astype(np.int16) for placed_cells in built.placed)
        one, several = (np.count_nonzero(right & mask) / built.difference.target for mask in (hands == 1, hands > 1))
        return one, several


def load(source: str | Path) -> tuple[tuple[Task, ...], ParsedTasks[BuildTarget]]:
    """Tasks with `lines`, a text of fill commands that builds the house; `task_id` names a task.

    Raises:
        TaskError: no task can be used; see `palaver.envs.base.tasks.load_tasks` for the others.
    """
    return read_tasks(
        source, lambda task: _plan(task, source), sample=SAMPLE, fields={"lines": str}, id_field="task_id"
    )


def _plan(task: Task, source: str | Path) -> BuildTarget:
    location = one_line(f"{source}, task {task.id!r}")
    palette = palette_of(row.split()[-1] for row in task["lines"].splitlines() if row.strip())
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
