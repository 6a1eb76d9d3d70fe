"""Two walkers meet on a bridge and pass each other if they step to different sides."""

from __future__ import annotations

from typing import ClassVar

from palaver import Spec
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task

PLACES = ("bridge", "stairs", "door", "tunnel")
RULES = "Everybody acts at once. Reply with the name of one action and nothing else.\nActions: left, right."


class Crossing(TextEnv):
    """Two walkers pass each other if they step to different sides; `first_left` rewards one of the two ways more."""

    metadata: ClassVar[dict[str, object]] = {**TextEnv.metadata, "name": "crossing_v0"}

    def __init__(self, first_left: float = 1.0, render_mode: str | None = None) -> None:
        self.first_left = first_left
        super().__init__(["a1", "a2"], [Task(place, {}) for place in PLACES], render_mode=render_mode)

    def initial_observations(self, task: Task) -> dict[str, str]:
        return dict.fromkeys(self.possible_agents, f"Game: {task.id}.\n{RULES}")

    def transition(self, actions: dict[str, str]) -> StepResult:
        sides = [next((side for side in ("left", "right") if side in text), "") for text in actions.values()]
        passed = {("left", "right"): self.first_left, ("right", "left"): 1.0}.get(tuple(sides), 0.0)
        return StepResult({agent: {"passed": passed} for agent in actions}, terminated=True, illegal=sides.count(""))


SPEC = Spec(
    id="crossing-v0",
    entry_point=Crossing,
    summary="Two walkers meet on a bridge and must step to different sides.",
    agents=("a1", "a2"),
    scripted={"keep-right": "palaver_crossing.policy:keep_right"},
)
