"""Base of the building environments: agents write commands and build one world."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from palaver.envs.base.arguments import truth, whole_number
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.questions import MOST_OPTIONS, InferenceQuestion
from palaver.envs.base.tasks import ParsedTasks, Task
from palaver.envs.minecraft.commands import ParsedCommands, Terms, carry_out, read, shares
from palaver.envs.minecraft.letters import ansi
from palaver.envs.minecraft.rendering import rgb_array
from palaver.envs.minecraft.world import AIR, Cells, Difference, Palette, Position, difference, empty
from palaver.text import clean

MAX_LENGTH = 32_768  # 600 commands of one agent
MOST_AGENTS = 16
MOST_TURNS = 1000
MOST_COMMANDS = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class BuildTarget:
    """Plan of the world to be built.

    Attributes:
        target: codes of shape (x, y, z), at least one of them a block.
        palette: the blocks of the codes.
        origin: the lowest corner.
    """

    target: Cells
    palette: Palette
    origin: Position = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Built:
    """Result of a joint action.

    Attributes:
        readings: of each agent.
        difference: how the world differs from the target.
        placed: of each agent the cells that hold a block after its own commands alone.
    """

    readings: Sequence[ParsedCommands]
    difference: Difference
    placed: Sequence[NDArray[np.bool_]]


class BuildingEnv(TextEnv):
    """Base class of environments in which agents build together.

    Subclasses define observations (`prompt`, `feedback_text`), limits (`terms`) and rewards (`rewards`). During an
    episode `target`, `built` and `owner` are worlds as `palaver.envs.minecraft.world` has them, and `palette` names
    their blocks. `shape_only` is True if any block will do for any other, `best` the upper bound of a turn's reward.

    Args:
        tasks: what a reset may be about.
        plans: task id -> its plan.
        agents: how many build.
        num_turns: turns of an episode.
        persistent: True if a turn continues with the world of the turn before.
        max_commands: commands of a turn, of all agents together.

    Raises:
        ConfigError: a value that does not fit; the message begins with the keyword.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "render_modes": ["ansi", "rgb_array"]}
    shape_only: ClassVar[bool] = False
    best: ClassVar[float] = 1.0

    def __init__(
        self,
        tasks: tuple[Task, ...],
        plans: ParsedTasks[BuildTarget],
        *,
        agents: int,
        num_turns: int,
        persistent: bool,
        max_commands: int,
        source: str | Path,
        render_mode: str | None,
        max_length: int,
    ) -> None:
        count = whole_number("agents", agents, 1, MOST_AGENTS)
        self.num_turns = whole_number("num_turns", num_turns, 1, MOST_TURNS)
        self.persistent = truth("persistent", persistent)
        self.shares = shares(whole_number("max_commands", max_commands, 1, MOST_COMMANDS), count)
        self.plans = plans
        names = [f"builder{n}" for n in range(1, count + 1)]
        super().__init__(names, tasks, render_mode=render_mode, max_length=max_length, source=source)
        self.max_return = self.best * num_turns
        self._start(self.plans[self.tasks[0].id])

    # --- what a subclass writes ----------------------------------------------------------------------

    @abstractmethod
    def prompt(self, index: int) -> str:
        """The first observation of the agent with this number, counted from 0."""

    @abstractmethod
    def terms(self, index: int) -> Terms:
        """Commands that the agent may give in this turn."""

    @abstractmethod
    def rewards(self, built: Built) -> dict[str, float]:
        """The components of a turn's reward, the same for all agents."""

    def settle(self, _readings: Sequence[ParsedCommands]) -> None:
        """Update the state by the resources and effects of a turn, before its reward."""

    def feedback_text(self, _index: int, _built: Built, _reward: float) -> str:
        """The agent's observation after a turn that is not the last."""
        return ""

    def measure(self, _built: Built) -> dict[str, float]:
        """Measurements in addition to those of all building environments."""
        return {}

    # --- the episode ---------------------------------------------------------------------------------

    def initial_observations(self, task: Task) -> dict[str, str]:
        """An empty world, and the plan for all."""
        self._start(self.plans[task.id])
        return {agent: self.prompt(index) for index, agent in enumerate(self.agents)}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Carry out the commands, agent by agent, and compare the world with the plan."""
        readings = [read(text, self.terms(index)) for index, text in enumerate(actions.values())]
        if not self.persistent:
            self.built, self.owner = empty(self.target.shape), empty(self.target.shape)
        placed = carry_out(self.built, self.owner, readings)
        built = Built(readings, difference(self.target, self.built, self.shape_only), placed)
        self.settle(readings)
        parts = self.rewards(built)
        over = self.turn + 1 >= self.num_turns
        reward = sum(parts.values())
        feedback = {} if over else {a: self.feedback_text(index, built, reward) for index, a in enumerate(self.agents)}
        return StepResult(
            dict.fromkeys(self.agents, parts),
            feedback,
            terminated=over,
            metrics=self._metrics(built) | self.measure(built),
            illegal={agent: len(reading.faults) for agent, reading in zip(self.agents, readings, strict=True)},
        )

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:
        """Places in a layer where each other agent builds.

        These are the x with a block of its own on a cell of the plan. A layer has a question of its own; one with
        blocks at more than 64 x has none.
        """
        planned, asked = self.target != AIR, []
        for index, other in enumerate(self.possible_agents):
            if other == agent:
                continue
            reading = read(actions.get(other, ""), self.terms(index))
            placed = carry_out(empty(self.target.shape), empty(self.target.shape), [reading])[0] & planned
            for y in np.flatnonzero(planned.any((0, 2))).tolist():
                names, truth = (
                    tuple(str(self.origin[0] + x) for x in np.flatnonzero(cells[:, y].any(1)).tolist())
                    for cells in (planned, placed)
                )
                if len(names) <= MOST_OPTIONS:
                    text = f"At which x does {other} build in the layer y={self.origin[1] + y}?"
                    asked.append(InferenceQuestion(other, text, "slots", names, truth or None))
        return asked

    def render(self) -> Any:
        """With `ansi` the layers, target against built, and the transcript.

        With `rgb_array` a picture (h, w, 3).
        """
        if self.render_mode == "rgb_array":
            return rgb_array(self.target, self.built, self.palette, self.owner, self.shape_only)
        text = super().render()
        if text is None:
            return None
        layers = ansi(self.target, self.built, self.palette, self.owner, self.shape_only)
        return f"{clean(layers, len(layers))}\n\n{text}"

    def _start(self, plan: BuildTarget) -> None:
        self.target, self.palette, self.origin = plan.target, plan.palette, plan.origin
        self.built, self.owner = empty(plan.target.shape), empty(plan.target.shape)

    def _metrics(self, built: Built) -> dict[str, float]:
        difference = built.difference
        several = np.count_nonzero(sum(placed_cells.astype(np.int16) for placed_cells in built.placed) > 1)
        kinds = {} if self.shape_only else {"block_iou": difference.iou, "wrong": float(difference.wrong)}
        return {
            "iou": difference.shape_iou,
            **kinds,
            "complete": float(difference.complete),
            "covered": float(difference.covered),
            "missing": float(difference.missing),
            "extra": float(difference.extra),
            "placed_twice": float(several),
            "commands": float(sum(len(reading.codes) + reading.kills for reading in built.readings)),
            "rejected": float(sum(len(reading.faults) for reading in built.readings)),
        }
