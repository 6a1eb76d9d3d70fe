"""Observation text of a side, from its view as plain data; `showdown/prompts.js` writes it.

Battles of `pokemon-v1` are described in the simulator's process, where the view is. This is for views that were kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from palaver.envs.pokemon.showdown.pool import shared_pool
from palaver.envs.pokemon.showdown.view import Side, SideView


def observation(
    gen: int, format: str, me: Side, turn: int, view: SideView, lines: Sequence[str], refused: str = ""
) -> str:
    """The whole text for a side that may act.

    Args:
        gen: generation of the format.
        format: its id.
        me: the side.
        turn: of the simulator.
        view: of the side.
        lines: of the protocol that it has not read.
        refused: reason why its last choice was refused.

    Raises:
        ShowdownError: no Node.js, or no simulator; the message says what to do.
    """
    about = {"format": format, "turn": turn, "lines": list(lines), "refused": refused}
    text: str = shared_pool().request([["text", gen, me, view, about]])[0]
    return text
