"""Letters of five by five cells, and words of them. Pure.

The letters are those of CoMLRL's StrBuild, so that scores compare.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
