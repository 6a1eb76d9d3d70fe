"""Sharing a building out: who builds which boxes, so that every cell is built once and no limit is passed. Pure."""

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
    for code in dict.fromkeys(each.code for each in blocks):
        waiting = sorted((each for each in blocks if each.code == code), key=lambda each: each.volume)
        total = sum(each.volume for each in waiting)
        left = [limits.get(code, total)] * agents
        while waiting and any(left):
            box = waiting.pop()
            agent = max(range(agents), key=lambda n: (left[n], -len(given[n]), -n))
            part, rest = _cut(box, left[agent])
            given[agent].append(part)
            left[agent] -= part.volume
            waiting += rest
            waiting.sort(key=lambda each: each.volume)
    return [sorted(own, key=lambda each: (each.y1, each.z1, each.x1)) for own in given]


def _cut(box: Cuboid, most: int) -> tuple[Cuboid, list[Cuboid]]:
    """A part of a box of at most `most` cells (1 or more), as large as whole slices allow, and what is left of it."""
    rest: list[Cuboid] = []
    while box.volume > most:
        sides = {axis: box[axis + 3] - box[axis] + 1 for axis in range(3)}
        axis = max((n for n in sides if sides[n] > 1), key=lambda n: _worth(box.volume, sides[n], most))
        slices = max(1, min(sides[axis] - 1, most // (box.volume // sides[axis])))
        numbers = list(box)
        numbers[axis + 3] = box[axis] + slices - 1
        others = list(box)
        others[axis] = numbers[axis + 3] + 1
        rest.append(Cuboid(*others))
        box = Cuboid(*numbers)
    return box, rest


def _worth(volume: int, side: int, most: int) -> tuple[int, int]:
    """Cells of whole slices across an axis within `most`; ties go to the thinner slice."""
    slice_ = volume // side
    return (most // slice_) * slice_, -slice_
