"""Builders' limits and the spiders, as in CoMLRL's HouseBuild unless stated otherwise. Pure.

The reward `published` is that of CoMLRL's HouseBuild (OpenMLRL/LLM_Collab_Minecraft, `house_build/rewards`): the share
of all cells, air included, that are as planned, less the spiders' penalty.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

import numpy as np

from palaver.core import stable_seed
from palaver.envs.minecraft.blueprint import Cuboid, boxes
from palaver.envs.minecraft.env import BuildTarget
from palaver.envs.minecraft.world import Difference

RewardName = Literal["published", "iou"]


def resource_limits(plan: BuildTarget, agents: int) -> dict[int, int]:
    """Code -> most cells that one agent may fill.

    It is ceil(c / n) + floor(c / 2n) of the c cells in the plan.

    >>> from palaver.envs.minecraft.world import empty
    >>> cells = empty((5, 1, 1)); cells[:] = 1
    >>> resource_limits(BuildTarget(cells, ("stone", "glass")), 2)
    {1: 4, 2: 0}
    """
    held = np.bincount(plan.target.ravel(), minlength=len(plan.palette) + 1).tolist()
    return {code: -(-held[code] // agents) + held[code] // (2 * agents) for code in range(1, len(plan.palette) + 1)}


@dataclass(frozen=True, slots=True)
class Spiders:
    """Those of one task.

    Attributes:
        attacks: the value of each.
        health: of the players.
    """

    attacks: tuple[int, ...]
    health: int

    @property
    def penalty(self) -> float:
        """Penalty if no builder sends `/kill`: 0.1 * min(1, sum of the attacks / health)."""
        return 0.1 * min(1.0, sum(self.attacks) / self.health)


def spiders(task_id: str, count: int, attack: tuple[int, int], health: int) -> Spiders:
    """The spiders of a task, always the same.

    Attack values are drawn from `attack`, both ends included.
    """
    rng = random.Random(stable_seed("housebuild spiders", task_id))
    return Spiders(tuple(rng.randint(*attack) for _ in range(count)), health)


def band(agent: int, agents: int, height: int) -> tuple[int, int]:
    """The layers that an agent owns under `rect_modification`, lowest and highest.

    Neighbours share one. With two agents and seven layers 0 to 2 and 2 to 6, as published; the published rule knows no
    others.

    >>> band(0, 2, 7), band(1, 2, 7), band(0, 1, 7)
    ((0, 2), (2, 6), (0, 6))
    """
    low, high = (k * max(0, height - 2) // agents for k in (agent, agent + 1))
    return low, high if agent + 1 < agents else height - 1


def wrong_rectangles(
    plan: BuildTarget, built: np.ndarray[tuple[int, ...], np.dtype[np.int16]], low: int, high: int
) -> list[Cuboid]:
    """The plan's rectangles in these layers that hold a wrong cell.

    What should be air comes as rectangles of air.
    """
    x, y, z = plan.origin
    wrong = []
    for cuboid in boxes(plan.target, plan.origin, np.ones(plan.target.shape, dtype=bool), up=False):
        cell = np.s_[cuboid.x1 - x : cuboid.x2 - x + 1, cuboid.y1 - y, cuboid.z1 - z : cuboid.z2 - z + 1]
        if low <= cuboid.y1 - y <= high and (built[cell] != cuboid.code).any():
            wrong.append(cuboid)
    return wrong


def schedule(rectangles: list[Cuboid], left: dict[int, int]) -> list[Cuboid]:
    """The largest rectangles within the remaining limits.

    They are followed by the largest part of one that remains.
    """
    left, chosen, others = dict(left), [], []
    for cuboid in sorted(rectangles, key=lambda r: (-r.volume, r)):
        if cuboid.volume <= left.get(cuboid.code, 0):
            left[cuboid.code] -= cuboid.volume
            chosen.append(cuboid)
        else:
            others.append(cuboid)
    parts = [affordable for cuboid in others if (affordable := _affordable_part(cuboid, left.get(cuboid.code, 0)))]
    return chosen + sorted(parts, key=lambda r: (-r.volume, r))[:1]


def _affordable_part(rectangle: Cuboid, max_blocks: int) -> Cuboid | None:
    """The largest rectangle of at most `max_blocks` cells in a corner of a rectangle.

    Both are of one layer.
    """
    x, y, z, east, _, north, code = rectangle
    fitting = [(wide, min(north - z + 1, max_blocks // wide)) for wide in range(1, east - x + 2)]
    wide, long = max(fitting, key=lambda side: side[0] * side[1])
    return Cuboid(x, y, z, x + wide - 1, y, z + long - 1, code) if long else None


def components(difference: Difference, cells: int, penalty: float, reward_config: RewardName) -> dict[str, float]:
    """Reward components `match` and `iou`.

    `match` = m / cells, m the cells as planned; `iou` = the blocks as planned over those of either world.

    Args:
        difference: of the world from the plan.
        cells: of the world.
        penalty: of the spiders.
        reward_config: the keyword `reward`, which selects the component.

    Returns:
        The component, and `spiders`, 0 or less.
    """
    share = {"match": difference.same / cells} if reward_config == "published" else {"iou": difference.iou}
    return {**share, "spiders": 0.0 - penalty}
