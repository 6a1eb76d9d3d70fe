"""Keywords of environments, refused at the door with one clear line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from palaver.core import ConfigError
from palaver.text import one_line


def whole_number(keyword: str, value: object, low: int, high: int) -> int:
    """A keyword that must be a whole number.

    Raises:
        ConfigError: it is none, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"{keyword} must be a whole number from {low:,} to {high:,}, got {one_line(repr(value), 60)}")
    return value


def truth(keyword: str, value: object) -> bool:
    """A keyword that must be true or false.

    Raises:
        ConfigError: it is something else.
    """
    if not isinstance(value, bool):
        raise ConfigError(f"{keyword} must be true or false, got {one_line(repr(value), 60)}")
    return value


def choice(keyword: str, value: object, known: Sequence[str]) -> str:
    """A keyword that must be one of some names.

    Raises:
        ConfigError: it is none of them.
    """
    if not isinstance(value, str) or value not in known:
        raise ConfigError(f"{keyword} must be one of {', '.join(known)}, got {one_line(repr(value), 60)}")
    return value


def fresh_metadata(metadata: Mapping[str, Any], fresh: object) -> dict[str, Any]:
    """Metadata in which `conversation` says whether each observation stands alone.

    Raises:
        ConfigError: `fresh` is neither true nor false.
    """
    return {**metadata, "conversation": "fresh" if truth("fresh", fresh) else "continued"}
