"""Words: where they come from, in the schema of CoMLRL's StrBuild, and random ones.

The letters are those of CoMLRL's StrBuild, so that scores compare.
"""

from __future__ import annotations

import random
from functools import partial
from math import comb, factorial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from palaver.core import TaskError, stable_seed
from palaver.envs.base.tasks import ParsedTasks, Task, check_difficulty, read_tasks
from palaver.envs.minecraft.env import BuildTarget
from palaver.envs.minecraft.world import Palette, codes, empty, palette_of
from palaver.text import one_line

Difficulty = Literal["easy", "medium", "hard"]
LENGTHS: dict[str, tuple[int, int]] = {"easy": (1, 1), "medium": (2, 2), "hard": (3, 5)}
Palettes = tuple[Palette, ...]
HIGH = WIDE = 5
LONGEST = 64  # letters of a word
# each letter as five rows from the top, each row a number whose bits are its cells, the leftmost the highest
_ROWS = {
    "A": (14, 17, 31, 17, 17),
    "B": (30, 17, 30, 17, 30),
    "C": (15, 16, 16, 16, 15),
    "D": (30, 17, 17, 17, 30),
    "E": (31, 16, 30, 16, 31),
    "F": (31, 16, 30, 16, 16),
    "G": (15, 16, 23, 17, 14),
    "H": (17, 17, 31, 17, 17),
    "I": (31, 4, 4, 4, 31),
    "J": (7, 2, 2, 18, 12),
    "K": (17, 18, 28, 18, 17),
    "L": (16, 16, 16, 16, 31),
    "M": (17, 27, 21, 17, 17),
    "N": (17, 25, 21, 19, 17),
    "O": (14, 17, 17, 17, 14),
    "P": (30, 17, 30, 16, 16),
    "Q": (14, 17, 17, 19, 15),
    "R": (30, 17, 30, 18, 17),
    "S": (15, 16, 14, 1, 30),
    "T": (31, 4, 4, 4, 4),
    "U": (17, 17, 17, 17, 14),
    "V": (17, 17, 17, 10, 4),
    "W": (17, 17, 21, 27, 17),
    "X": (17, 10, 4, 10, 17),
    "Y": (17, 10, 4, 4, 4),
    "Z": (31, 2, 4, 8, 31),
}
LETTERS = "".join(_ROWS)


def rows(count: int, seed: int, difficulty: str | None = None) -> list[dict[str, Any]]:
    """`count` different words of different letters, or all there are.

    Smaller sets begin larger ones.
    """
    difficulty = difficulty or "medium"
    low, high = LENGTHS[difficulty]
    rng = random.Random(stable_seed("strbuild", difficulty, seed))
    words: dict[str, None] = {}
    while len(words) < min(count, sum(comb(26, n) * factorial(n) for n in range(low, high + 1))):
        words.setdefault("".join(rng.sample(LETTERS, rng.randint(low, high))))
    return [{"string": word, "difficulty": list(LENGTHS).index(difficulty) + 1} for word in words]


def load(
    source: str | Path, palettes: Palettes, spacing: int, difficulty: str | None = None
) -> tuple[tuple[Task, ...], ParsedTasks[BuildTarget]]:
    """Tasks with `string`, a word of letters and spaces; it names the task. And their plans.

    Args:
        source: `sample`, `generated:SEED:COUNT`, a path, or `hf:NAME:SPLIT`.
        palettes: the blocks of each builder.
        spacing: empty columns between letters.
        difficulty: of generated words; None is `medium`.

    Raises:
        ConfigError: a difficulty that does not exist, or one for words that are not generated.
        TaskError: no word of these characters; see `palaver.envs.base.tasks.load_tasks` for the others.
    """
    check_difficulty(source, difficulty, tuple(LENGTHS))
    return read_tasks(
        source,
        lambda task: plan(_word(task, source), palettes, spacing),
        sample=partial(rows, difficulty=difficulty),
        fields={"string": str},
        id_field="string",
    )


def plan(word: str, palettes: Palettes, spacing: int) -> BuildTarget:
    """The cells of a word, with blocks that reach the full reward.

    Any other of the builders' will do as well. Cell (x, y) is for builder (x + y) mod n, who takes his blocks in turn:
    then no two neighbours are alike, as long as the builders' blocks look different.
    """
    palette = palette_of(block for agent_palette in palettes for block in agent_palette)
    known = codes(palette)
    cells = draw(word, spacing)
    target = empty((len(cells), HIGH, 1))
    n = len(palettes)
    for x, y in np.argwhere(cells).tolist():
        agent_palette = palettes[(x + y) % n]
        target[x, y, 0] = known[agent_palette[(x + y) // n % len(agent_palette)]]
    target.setflags(write=False)
    return BuildTarget(target, palette)


def _word(task: Task, source: object) -> str:
    word = task["string"].strip().upper()
    if not set(word) <= {*LETTERS, " "} or len(word) > LONGEST:
        location = one_line(f"{source}, task {task.id!r}")
        raise TaskError(f"{location}: the field 'string' must be letters A to Z and spaces, {LONGEST} at most")
    return str(word)


def draw(word: str, spacing: int) -> NDArray[np.bool_]:
    """Cells of the letters. Shape (x, y), y counted from the ground; a space stays empty.

    >>> "/".join("".join(".#"[int(cell)] for cell in row) for row in draw("L", 2).T[::-1])
    '#..../#..../#..../#..../#####'
    """
    cells = np.zeros((len(word) * (WIDE + spacing) - spacing, HIGH), dtype=bool)
    for index, letter in enumerate(word):
        for down, row in enumerate(_ROWS.get(letter, [0] * HIGH)):
            for right in range(WIDE):
                cells[index * (WIDE + spacing) + right, HIGH - 1 - down] = row >> (WIDE - 1 - right) & 1
    return cells
