"""Which kind of work a recipe's name stands for. Free of torch, for `palaver train` asks on every start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from pathlib import Path

from palaver.core import ConfigError


def is_kind(
    recipe: str, shipped: Collection[str], file: str, section: str, read: Callable[[str, str], Container[str]]
) -> bool:
    """Whether this names a recipe of one kind.

    Args:
        recipe: a shipped one, a YAML file with a section that the kind is known by, or the folder of a run.
        shipped: names of the kind.
        file: that every folder of the kind holds.
        section: that the kind is known by.
        read: (text, recipe) -> its sections; may raise ConfigError, for whoever loads it says what is wrong with it.
    """
    path = Path(recipe)
    if recipe in shipped or (path / file).is_file():
        return True
    if path.suffix not in {".yaml", ".yml"} or not path.is_file():
        return False
    try:
        return section in read(path.read_text(encoding="utf-8"), recipe)
    except (ConfigError, OSError, UnicodeDecodeError):
        return False
