"""The sample plug-in, as if pip had installed it."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

PLUGIN = Path(__file__).parent / "plugin"
NAME = "palaver_crossing"


def install(site: Path) -> Path:
    """Put the package and its metadata into a folder for PYTHONPATH."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shutil.copytree(PLUGIN / NAME, site / NAME, ignore=shutil.ignore_patterns("__pycache__"))
    about = site / f"{NAME}-{project['version']}.dist-info"
    about.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (about / "METADATA").write_text(metadata, encoding="utf-8")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return site
