"""The machine: cores that this process may use, and the folder for caches."""

from __future__ import annotations

import os
from pathlib import Path


def usable_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cache_folder() -> Path:
    """Cache folder: `PALAVER_CACHE`, else `palaver` in `XDG_CACHE_HOME`, else in `~/.cache`."""
    folder = os.environ.get("PALAVER_CACHE")
    if folder:
        return Path(folder).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "palaver"
