"""Provenance of a result: version, commit, machine."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import palaver

LIBRARIES = ("torch", "transformers", "pettingzoo", "numpy")


def provenance() -> dict[str, Any]:
    """Versions of Palaver, Python, the platform and the libraries that affect results."""
    return {
        "palaver": palaver.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "libraries": {name: installed for name in LIBRARIES if (installed := version(name))},
    }


def version(distribution: str) -> str:
    """Installed version of a distribution, "" if it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def commit() -> str:
    """Git commit of Palaver's checkout, followed by `+` if files differ; "" outside a checkout."""
    root = Path(palaver.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return ""
    head = _git(root, "rev-parse", "--short=12", "HEAD")
    return head + ("+" if head and _git(root, "status", "--porcelain", "--untracked-files=no") else "")


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
