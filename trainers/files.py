"""The files of a run folder: their names, how small ones are written so that they are whole or as before, its end."""

from __future__ import annotations

import json
import os
from pathlib import Path

CONFIG = "config.yaml"
METRICS = "metrics.jsonl"
STATUS = "status.json"
LAUNCH = "launch.json"


def ended(folder: Path) -> bool:
    """Whether the run in a folder has come to its end; not where it does not say."""
    try:
        return bool(json.loads((folder / STATUS).read_text(encoding="utf-8"))["status"] == "done")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def replace_text(path: Path, text: str) -> None:
    """Write a file beside and rename it: whoever is killed in between leaves the old one."""
    beside = path.with_name(f".writing-{path.name}")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
