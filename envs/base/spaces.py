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


def as_heard(action: object, max_length: int) -> tuple[str, bool]:
    """Convert any object to a text of at most `max_length` characters, and True if it was legal.

    None is an empty text and legal. Bytes are decoded, lone surrogates become `?`, a long text is cut, any other object
    becomes an empty text; all of these are illegal.

    >>> as_heard(b"hi", 10), as_heard(None, 10), as_heard("abc", 2)
    (('hi', False), ('', True), ('ab', False))
    """
    if action is None:
        return "", True
    if isinstance(action, bytes | bytearray):
        return bytes(action[: 4 * max_length]).decode("utf-8", "replace")[:max_length], False
    if not isinstance(action, str):
        return "", False
    cut = str.__str__(action)[:max_length]
    text = cut if cut.isascii() else cut.encode("utf-8", "replace").decode("utf-8")
    return text, len(action) <= max_length and text == cut
