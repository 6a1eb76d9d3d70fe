"""The space of all texts up to a length."""

from __future__ import annotations

import copy
import string
from typing import Any

from gymnasium.spaces import Text

# A string, not a set: the order of a set of characters, and with it every sample, depends on PYTHONHASHSEED.
_CHARSET = string.ascii_letters + string.digits + string.punctuation + " \n"


def is_text(value: object) -> bool:
    """Return whether `value` is a string that UTF-8 can encode, so without lone surrogates."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value))


class UnicodeText(Text):  # type: ignore[misc]  # Any to mypy: gymnasium's imports are skipped
    """Any valid unicode text of at most `max_length` characters, the empty one included.

    Samples are printable ASCII. gymnasium's `Text` would need all of unicode as its character set, which takes seconds
    to build and prints a megabyte in error messages.
    """

    def __init__(self, max_length: int, *, seed: int | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=_CHARSET, seed=seed)

    def contains(self, x: Any) -> bool:
        """Return whether `x` is a string of at most `max_length` characters without lone surrogates."""
        return is_text(x) and len(x) <= self.max_length

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and other.max_length == self.max_length

    def __hash__(self) -> int:
        return hash((UnicodeText, self.max_length))

    def __deepcopy__(self, memo: dict[int, Any]) -> UnicodeText:
        twin = copy.copy(self)  # the character tables are never changed; only the generator is a state
        twin._np_random = copy.deepcopy(self._np_random, memo)
        return twin
