"""Parse many plain commands at once, equal to `commands.parse_line` but faster. Pure.

A line is plain if it is a command in its usual form: the verb with its `/`, coordinates of one digit each, and the name
of a known block, parted by single spaces. Up to the block all such lines are equally long, and numpy reads them as one
table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

ParsedLines: TypeAlias = "tuple[NDArray[np.uint8], list[int]]"  # coordinates, (numbers, lines), and codes


def read(lines: Sequence[str], verb: str, numbers: int, codes: Mapping[str, int]) -> ParsedLines | None:
    """Coordinates, (numbers, lines), and codes of lines; None unless every line is plain.

    Args:
        lines: of any text.
        verb: the command.
        numbers: how many coordinates it has.
        codes: the known blocks.
    """
    pattern = f"/{verb} {'0 ' * numbers}"
    width = len(pattern)
    code = codes.get
    known = [code(line[width:]) for line in lines]
    heads = "".join([line[:width] for line in lines])
    if not lines or None in known or len(heads) != width * len(lines) or not heads.isascii():
        return None
    columns = np.frombuffer(heads.encode(), dtype=np.uint8).reshape(-1, width).T
    off = columns - np.frombuffer(pattern.encode(), dtype=np.uint8)[:, None]  # where the pattern has a 0 the digit
    digits = off[-2 * numbers :: 2].copy()
    off[-2 * numbers :: 2] = 0
    return None if off.any() or digits.max() > 9 else (digits, cast("list[int]", known))
