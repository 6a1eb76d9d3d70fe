"""Division of a building among agents. Pure.

Every cell is built once, and no limit is passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from palaver.envs.minecraft.blueprint import Cuboid


def share_out(blocks: Sequence[Cuboid], agents: int, limits: Mapping[int, int]) -> list[list[Cuboid]]:
    """Give every box to one of the agents, cutting a box only where no agent may fill all of it.

    A kind's boxes go, the largest first, to the agent that may still fill most of it. All cells are given out as long
    as the agents' limits together reach the number of cells, for a box can be cut down to single cells; with limits of
    ceil(c / n) + floor(c / 2n) for c cells of a kind and n agents they do.

    Args:
        blocks: boxes that do not overlap.
        agents: how many builders.
        limits: code -> most cells that one agent may fill with it; a code left out has no limit.

    Returns:
        The boxes of each agent; from the ground up.
    """
    given: list[list[Cuboid]] = [[] for _ in range(agents)]
    for code in dict.fromkeys(cuboid.code for cuboid in blocks):
        waiting = sorted((cuboid for cuboid in blocks if cuboid.code == code), key=lambda cuboid: cuboid.volume)
        total = sum(cuboid.volume for cuboid in waiting)
        left = [limits.get(code, total)] * agents
        while waiting and any(left):
            box = waiting.pop()
            agent = max(range(agents), key=lambda n: (left[n], -len(given[n]), -n))
            piece, remainder = _cut(box, left[agent])
            given[agent].append(piece)
            left[agent] -= piece.volume
            waiting += remainder
            waiting.sort(key=lambda cuboid: cuboid.volume)
    return [sorted(cuboids, key=lambda cuboid: (cuboid.y1, cuboid.z1, cuboid.x1)) for cuboids in given]


def _cut(box: Cuboid, max_volume: int) -> tuple[Cuboid, list[Cuboid]]:
    """A part of a box of at most `max_volume` cells (1 or more), and the remainder.

    The part is as large as whole slices allow.
    """
    remainder: list[Cuboid] = []
    while box.volume > max_volume:
        sides = {axis: box[axis + 3] - box[axis] + 1 for axis in range(3)}
        axis = max((n for n in sides if sides[n] > 1), key=lambda n: _worth(box.volume, sides[n], max_volume))
        slices = max(1, min(sides[axis] - 1, max_volume // (box.volume // sides[axis])))
        numbers = list(box)
        numbers[axis + 3] = box[axis] + slices - 1
        others = list(box)
        others[axis] = numbers[axis + 3] + 1
        remainder.append(Cuboid(*others))
        box = Cuboid(*numbers)
    return box, remainder


def _worth(volume: int, side: int, max_volume: int) -> tuple[int, int]:
    """Cells of whole slices across an axis within `max_volume`; ties go to the thinner slice."""
    slice_ = volume // side
    return (max_volume // slice_) * slice_, -slice_
