"""The rules of a matrix game. Pure: texts and positions in, actions and positions out."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from palaver.envs.matrix.table import Game


@dataclass(frozen=True, slots=True)
class Position:
    """Where play stands.

    Attributes:
        state: number of the state.
        left: turns left in the round, this one included.
        round: of the episode, from 0.
    """

    state: int
    left: int
    round: int = 0


def fold(text: str) -> str:
    """As texts are compared: compatible characters made one (Unicode NFKC), then without case.

    >>> fold("ＲＥＤ"), fold("Straße")
    ('red', 'strasse')
    """
    return unicodedata.normalize("NFKC", text).casefold()


def named(text: str, actions: Sequence[str]) -> int | None:
    """The number of the action that a text names, None if it names none.

    It is the first that stands in the text as a whole word, whatever the case: between letters or digits of other words
    nothing is found, while punctuation and underscores part words. A text that is a name, with any white space around
    it, so names that action.

    >>> [named(said, ("red", "green")) for said in (" RED ", "**Green**, not red.", "redder", "")]
    [0, 1, None, None]
    """
    found = _pattern(tuple(actions)).search(fold(text))
    return None if found is None else [fold(action) for action in actions].index(found[0])


@functools.lru_cache(maxsize=1024)
def _pattern(actions: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(re.escape(fold(action)) for action in actions)})(?![^\W_])")


def begin(game: Game, round: int = 0) -> Position:
    """The start of a round."""
    return Position(0, game.horizon, round)


def advance(game: Game, at: Position, joint: Sequence[int] | None, repeats: int) -> Position | None:
    """The position after a joint action; None when the last round is over.

    Args:
        game: that is played.
        at: the position before.
        joint: one action number for each agent; None forfeits the round.
        repeats: rounds in an episode.
    """
    if joint is not None and at.left > 1:
        state = int(game.successor[at.state, game.index(joint)])
        if state < len(game.states):
            return Position(state, at.left - 1, at.round)
    return begin(game, at.round + 1) if at.round + 1 < repeats else None
