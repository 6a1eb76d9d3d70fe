"""The files of a run folder: their names, and how small ones are written so that they are whole or as before."""

from __future__ import annotations

import os
from pathlib import Path

CONFIG = "config.yaml"
METRICS = "metrics.jsonl"
STATUS = "status.json"
LAUNCH = "launch.json"


def replace_text(path: Path, text: str) -> None:
    """Write a file beside and rename it: whoever is killed in between leaves the old one."""
    beside = path.with_name(f".writing-{path.name}")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
