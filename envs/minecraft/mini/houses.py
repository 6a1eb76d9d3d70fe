"""Small houses, each of eight boxes that do not overlap: a floor, walls with a door, a roof.

Pure. A house is written as eight lines, one for each box, and the line is the command that builds it: `fill x1 y1 z1 x2
y2 z2 block`. Every coordinate is one digit, every block one word.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from palaver.core import stable_seed

SIZE = (8, 6, 8)
BLOCKS = ("stone", "brick", "oak", "glass", "sand", "clay")
KNOWN, HELD_OUT = 320, 64  # of the sample, the houses held out last


def house(rng: random.Random) -> tuple[str, ...]:
    """A house of three kinds of block.

    It is 5 to 7 wide and deep, with walls 3 or 4 high and a door two high in front.
    """
    width, depth, height = rng.randint(5, 7), rng.randint(5, 7), rng.randint(3, 4)
    x, z = rng.randint(0, SIZE[0] - width), rng.randint(0, SIZE[2] - depth)
    east, north = x + width - 1, z + depth - 1
    door = rng.randint(x + 2, east - 2)
    floor, wall, roof = rng.sample(BLOCKS, 3)
    boxes = [
        (x, 0, z, east, 0, north, floor),
        (x, 1, z, x, height, north, wall),
        (east, 1, z, east, height, north, wall),
        (x + 1, 1, north, east - 1, height, north, wall),
        (x + 1, 1, z, door - 1, height, z, wall),
        (door + 1, 1, z, east - 1, height, z, wall),
        (door, 3, z, door, height, z, wall),
        (x, height + 1, z, east, height + 1, north, roof),
    ]
    return tuple(f"fill {' '.join(map(str, box))}" for box in boxes)


def sample() -> list[tuple[str, ...]]:
    """The houses of the built-in set, all different; the last `HELD_OUT` are held out."""
    samples: dict[tuple[str, ...], None] = {}
    rng = random.Random(stable_seed("build-mini sample"))
    while len(samples) < KNOWN + HELD_OUT:
        samples.setdefault(house(rng))
    return list(samples)


def known(seed: int) -> Iterator[tuple[str, ...]]:
    """Houses without end, none of them held out."""
    held_out = frozenset(sample()[KNOWN:])
    rng = random.Random(stable_seed("build-mini houses", seed))
    while True:
        drawn = house(rng)
        if drawn not in held_out:
            yield drawn
