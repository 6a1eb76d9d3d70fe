"""Files of exported packages and scripts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from palaver.core import ConfigError


def write_new(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write files that do not exist yet.

    Args:
        folder: it is made, as all folders in it.
        texts: path in the folder -> text.

    Returns:
        Paths of the files.

    Raises:
        ConfigError: one of them exists; none is written.
    """
    paths = [folder / path for path in texts]
    if taken := [path for path in paths if path.exists()]:
        raise ConfigError(f"{str(taken[0])!r} exists; name another folder with --out")
    for path, text in zip(paths, texts.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return paths
