"""Builders' limits and the spiders, as in CoMLRL's HouseBuild unless stated otherwise. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from palaver.core import stable_seed
from palaver.envs.minecraft.blueprint import Cuboid, boxes
from palaver.envs.minecraft.env import BuildTarget


def resource_limits(plan: BuildTarget, agents: int) -> dict[int, int]:
    """Code -> most cells that one agent may fill: ceil(c / n) + floor(c / 2n) of the c cells in the plan.

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
    def damage(self) -> int:
        """All attacks together."""
        return sum(self.attacks)

    @property
    def penalty(self) -> float:
        """Penalty if no builder sends `/kill`: 0.1 * min(1, damage / health)."""
        return 0.1 * min(1.0, self.damage / self.health) if self.attacks else 0.0


def spiders(task_id: str, number: int, attack: tuple[int, int], health: int) -> Spiders:
    """The spiders of a task, always the same: attack values drawn from `attack`, both ends included."""
    rng = random.Random(stable_seed("housebuild spiders", task_id))
    return Spiders(tuple(rng.randint(*attack) for _ in range(number)), health)


def band(agent: int, agents: int, height: int) -> tuple[int, int]:
    """The layers that an agent owns under `rect_modification`, lowest and highest; neighbours share one.

    With two agents and seven layers 0 to 2 and 2 to 6, as published; the published rule knows no others.

    >>> band(0, 2, 7), band(1, 2, 7), band(0, 1, 7)
    ((0, 2), (2, 6), (0, 6))
    """
    low, high = (k * max(0, height - 2) // agents for k in (agent, agent + 1))
    return low, high if agent + 1 < agents else height - 1


def wrong_rectangles(
    plan: BuildTarget, built: np.ndarray[tuple[int, ...], np.dtype[np.int16]], low: int, high: int
) -> list[Cuboid]:
    """The plan's rectangles in these layers that hold a wrong cell; what should be air comes as rectangles of air."""
    x, y, z = plan.origin
    found = []
    for each in boxes(plan.target, plan.origin, np.ones(plan.target.shape, dtype=bool), up=False):
        cell = np.s_[each.x1 - x : each.x2 - x + 1, each.y1 - y, each.z1 - z : each.z2 - z + 1]
        if low <= each.y1 - y <= high and (built[cell] != each.code).any():
            found.append(each)
    return found


def schedule(rectangles: list[Cuboid], left: dict[int, int]) -> list[Cuboid]:
    """The largest rectangles that what is left of the limits reaches for, then the largest part of one that remains."""
    left, chosen, others = dict(left), [], []
    for each in sorted(rectangles, key=lambda r: (-r.volume, r)):
        if each.volume <= left.get(each.code, 0):
            left[each.code] -= each.volume
            chosen.append(each)
        else:
            others.append(each)
    parts = [part for each in others if (part := _part(each, left.get(each.code, 0)))]
    return chosen + sorted(parts, key=lambda r: (-r.volume, r))[:1]


def _part(rectangle: Cuboid, most: int) -> Cuboid | None:
    """The largest rectangle of at most `most` cells in a corner of a rectangle of one layer."""
    x, y, z, east, _, north, code = rectangle
    deep = north - z + 1
    fitting = [(wide, min(deep, most // wide)) for wide in range(1, east - x + 2)]
    wide, long = max(fitting, key=lambda side: side[0] * side[1])
    return Cuboid(x, y, z, x + wide - 1, y, z + long - 1, code) if long else None
