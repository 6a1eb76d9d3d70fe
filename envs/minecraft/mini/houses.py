"""Small houses, each of eight boxes that do not overlap: a floor, walls with a door, a roof.

Pure. A house is written as eight lines, one for each box, and the line is the command that builds it: `fill x1 y1 z1 x2
y2 z2 block`. Every coordinate is one digit, every block one word.

Imitation texts answer the prompts word for word: a change of them bumps the version. The lines of the plan are
numbered. The number is the line's name, so that a model which takes a line need not distinguish it from others that
begin alike; without numbers the tiny model copies two lines of five, with them ninety-nine of a hundred.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from palaver.core import stable_seed
from palaver.envs.minecraft.commands import lines_of

SIZE = (8, 6, 8)
BLOCKS = ("stone", "brick", "oak", "glass", "sand", "clay")
KNOWN, HELD_OUT = 320, 64  # of the sample, the houses held out last
_NUMBERED = re.compile(r"\d{1,3}\. \S")


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


def opening(index: int, agents: int, max_lines: int, lines: str) -> str:
    """The first observation.

    It has the agent's number (from 0), how many lines it may write, and the lines of the plan.
    """
    role = f"You are builder {index + 1} of {agents}." if agents > 1 else "You build alone."
    plan = "\n".join(f"{line_number}. {line}" for line_number, line in enumerate(lines_of(lines), 1))
    return f"{role} Write at most {max_lines} lines of the plan.\n{plan}"


def plan_of(prompt: str) -> list[str]:
    """The lines of the plan in a first observation, with their numbers."""
    return [line for line in prompt.splitlines() if _NUMBERED.match(line)]
