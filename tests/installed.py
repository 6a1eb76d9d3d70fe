"""Wheels, and the sample plug-in as if pip had installed it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.architecture.source import ROOT, WINGS

PLUGIN = Path(__file__).parent / "plugin"
NAME = "palaver_crossing"
INGREDIENTS = ("palaver", *WINGS, "pyproject.toml", "setup.py", "README.md", "LICENSE")


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


def wheel_of(project: Path, out: Path) -> Path:
    """Build the wheel of a project from a copy of it."""
    copy = out / "source"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in INGREDIENTS if project == ROOT else [path.name for path in project.iterdir()]:
        if (project / name).is_dir():
            shutil.copytree(project / name, copy / name, symlinks=True, ignore=ignored)
        else:
            copy.mkdir(parents=True, exist_ok=True)
            shutil.copy(project / name, copy / name)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", out, copy]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return built
