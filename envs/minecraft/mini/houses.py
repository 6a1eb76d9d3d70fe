"""Small houses, each of eight boxes that do not overlap: a floor, walls with a door, a roof.

Pure. A house is written as eight lines, one for each box, and the line is the command that builds it: `fill x1 y1 z1 x2
y2 z2 block`. Every coordinate is one digit, every block one word.

Imitation texts answer the prompts word for word: a change of them bumps the version. The lines of the plan are
numbered. The number is the line's name, so that a model which takes a line need not distinguish it from others that
begin alike; without numbers the tiny model copies two lines of five, with them ninety-nine of a hundred.

Of the scripted builders `reference` shares the lines out, `strangers` take any, `twins` take the same.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from palaver.core import Conversation, stable_seed
from palaver.envs.base.scripted import first_prompt
from palaver.envs.minecraft.commands import lines_of

SIZE = (8, 6, 8)
BLOCKS = ("stone", "brick", "oak", "glass", "sand", "clay")
KNOWN, HELD_OUT = 320, 64  # of the sample, the houses held out last
_NUMBERED = re.compile(r"\d{1,3}\. \S")
_SEAT = re.compile(r"You are builder (\d{1,2}) of (\d{1,2})\. Write at most (\d{1,3}) lines")
FEWEST, MOST = 1, 4  # lines that a stranger takes
ASKED = "Which lines does {other} write?"
_QUESTION = re.compile(r"Guess: .*" + re.escape(ASKED).replace(re.escape("{other}"), r"builder(\d{1,2})"))


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


def reference(conversation: Conversation, _seed: int) -> str:
    """Every n-th line of the plan by the agent's number, all if alone: the best within limits.

    A question about a builder's lines is answered by their numbers in the same division.
    """
    index, agents, _ = _parse_prompt(conversation)
    if asked := _QUESTION.search(conversation[-1].content if conversation else ""):
        count = len(plan_of(first_prompt(conversation)))
        return " ".join(str(n) for n in range(1, count + 1) if n % agents == int(asked[1]) % agents)
    return "\n".join(plan_of(first_prompt(conversation))[index::agents])


def strangers(conversation: Conversation, seed: int) -> str:
    """Any few lines of the plan, without regard to the agent's number."""
    prompt = first_prompt(conversation)
    return take(plan_of(prompt), random.Random(stable_seed("build-mini strangers", seed, prompt)))


def twins(conversation: Conversation, _seed: int) -> str:
    """The first lines of the plan, as many as allowed: the same from every agent."""
    *_, max_lines = _parse_prompt(conversation)
    return "\n".join(plan_of(first_prompt(conversation))[:max_lines])


def take(plan: list[str], rng: random.Random) -> str:
    """One to four lines of a plan, in its order, drawn without regard to anything."""
    count = min(rng.randint(FEWEST, MOST), len(plan))
    return "\n".join(plan[n] for n in sorted(rng.sample(range(len(plan)), count)))


def _parse_prompt(conversation: Conversation) -> tuple[int, int, int]:
    """The agent's number from 0, the number of builders, and the lines that each may write."""
    match = _SEAT.match(first_prompt(conversation))
    builder, agents, max_lines = map(int, match.groups()) if match else (1, 1, len(plan_of(first_prompt(conversation))))
    return builder - 1, max(agents, 1), max_lines
