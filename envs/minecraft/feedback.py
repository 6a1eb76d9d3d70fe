"""Feedback to builders after a turn: scores, wrong cells, rectangles. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palaver.envs.minecraft.blueprint import Cuboid, layers
from palaver.envs.minecraft.commands import ParsedCommands
from palaver.envs.minecraft.world import AIR, Cells, Palette, Position, differing, name
from palaver.text import one_line

SHOWN_REJECTED = 3
SHOWN_LINE = 60  # characters of a rejected line


def score(turn: int, turns: int, reward: float, iou: float) -> str:
    """Reward and IoU of the turn; `turn` counts from 1."""
    return f"Turn {turn} of {turns} is over. Reward {reward:.4f}, IoU {iou:.4f}."


def rejections(reading: ParsedCommands) -> str:
    """Number of the agent's rejected commands, with the first reasons; "" for none."""
    count = len(reading.faults)
    if not count:
        return ""
    rejected_lines = "; ".join(
        f"{one_line(line, SHOWN_LINE)!r}: {why}" for line, why in reading.rejected(SHOWN_REJECTED)
    )
    num_hidden = count - SHOWN_REJECTED
    head = "One of your commands was" if count == 1 else f"{count} of your commands were"
    return f"{head} rejected. {rejected_lines}{f'; and {num_hidden} more' if num_hidden > 0 else ''}."


def positions(target: Cells, built: Cells, palette: Palette, origin: Position, max_lines: int) -> str:
    """The first wrong cells, with their blocks and those of the plan."""
    wrong = list(differing(target, built, origin))
    lines = [f"{x} {y} {z}: {name(b, palette)}, should be {name(a, palette)}" for (x, y, z), a, b in wrong[:max_lines]]
    return _listed("Wrong cells", lines, len(wrong))


def shape_positions(target: Cells, built: Cells, max_lines: int) -> str:
    """The first cells that are to be filled, with whichever block, or emptied."""
    wrong = list(differing((target != AIR).astype(np.int16), (built != AIR).astype(np.int16)))
    lines = [f"{x} {y} {z}: {'fill' if wanted else 'empty'}" for (x, y, z), wanted, _ in wrong[:max_lines]]
    return _listed("Wrong cells", lines, len(wrong))


def modifications(target: Cells, built: Cells, palette: Palette, origin: Position, max_lines: int) -> str:
    """Commands that would mend the first wrong cells."""
    wrong = list(differing(target, built, origin))
    lines = [Cuboid(*at, *at, code).command(palette) for at, code, _ in wrong[:max_lines]]
    return _listed("Commands that would mend wrong cells", lines, len(wrong))


def everything(target: Cells, built: Cells, palette: Palette, origin: Position) -> str:
    """All wrong cells with what belongs there, as rectangles per layer."""
    wrong = layers(target, palette, origin, target != built)
    return f"What belongs where the world is wrong:\n{wrong}" if wrong else "The world is as planned."


def rectangles(suggested: Sequence[Cuboid], palette: Palette, heading: str, max_lines: int) -> str:
    """Boxes of one layer each, as the commands that build them."""
    return _listed(heading, [cuboid.command(palette) for cuboid in suggested[:max_lines]], len(suggested))


def accepted(reading: ParsedCommands, palette: Palette, origin: Position) -> str:
    """The agent's own commands that were carried out."""
    lines = []
    for box, code in zip(reading.boxes.tolist(), reading.codes.tolist(), strict=True):
        a, b, c, d, e, f = (n + origin[k % 3] for k, n in enumerate(box))
        lines.append(Cuboid(a, b, c, d, e, f, code).command(palette))
    return _listed("Your commands that were carried out", lines, len(lines))


def _listed(heading: str, lines: Sequence[str], of: int) -> str:
    if not lines:
        return f"{heading}: none."
    count = f" ({len(lines)} of {of})" if of > len(lines) else ""
    return "\n".join([f"{heading}{count}:", *lines])
