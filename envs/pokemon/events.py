"""Lines of the simulator's protocol as short sentences; `showdown/events.js` writes them."""

from __future__ import annotations

from collections.abc import Sequence

from palaver.envs.pokemon.showdown.pool import shared_pool

MAJOR = frozenset({"move", "switch", "drag", "replace", "cant", "faint", "win", "tie", "-weather", "detailschange"})


def event_texts(groups: Sequence[Sequence[str]], me: str) -> list[str]:
    """A text for each group of lines.

    It has one line for every move, switch or the like, followed by its effects.

    Args:
        groups: lines of the protocol.
        me: the side that reads them; empty for a spectator.

    Raises:
        ShowdownError: no Node.js, or no simulator; the message says what to do.
    """
    texts: list[str] = shared_pool().request([["events", [list(group) for group in groups], me]])[0]
    return texts
