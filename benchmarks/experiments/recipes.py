"""Kind of work of a recipe. Free of torch, as every start of `palaver train` imports it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from pathlib import Path

from palaver.core import ConfigError


def is_kind(
    recipe: str, shipped: Collection[str], file: str, section: str, read: Callable[[str, str], Container[str]]
) -> bool:
    """Return whether this is a recipe of one kind.

    Args:
        recipe: a shipped one, a YAML file with the section of the kind, or the folder of a run.
        shipped: names of the kind.
        file: name of a file in every folder of the kind.
        section: that identifies the kind.
        read: (text, recipe) -> its sections; a ConfigError is ignored, as loading the recipe reports it.
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
