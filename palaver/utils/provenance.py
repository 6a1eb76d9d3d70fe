"""Provenance of a result: version, commit, machine."""

from __future__ import annotations

import base64
import functools
import hashlib
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import palaver
from palaver import plugins

LIBRARIES = ("torch", "transformers", "pettingzoo", "numpy")


def provenance() -> dict[str, Any]:
    """Versions of Palaver, Python, the platform and the libraries that affect results."""
    return {
        "palaver": palaver.__version__,
        "commit": commit(),
        "wheel": wheel(),
        "plugins": plugins.packages(),
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


@functools.cache
def wheel() -> str:
    """Version and hash of an installed wheel, then `+` if its files differ; "" in a checkout.

    The hash is of the names and hashes of the wheel's files, as its RECORD lists them.
    """
    try:
        distribution = metadata.distribution("palaver")
    except metadata.PackageNotFoundError:
        return ""
    files = [file for file in distribution.files or [] if file.hash and file.parts[0] == "palaver"]
    if not files or (Path(palaver.__file__).resolve().parent.parent / ".git").exists():
        return ""
    listed = "".join(sorted(f"{file}:{file.hash.value}\n" for file in files if file.hash))
    name = f"{distribution.version}-{hashlib.sha256(listed.encode()).hexdigest()[:12]}"
    return name + ("+" if any(_differs(file) for file in files) else "")


def _differs(file: metadata.PackagePath) -> bool:
    path = Path(str(file.locate()))
    if file.hash is None or not path.is_file():
        return True
    digest = hashlib.new(file.hash.mode, path.read_bytes()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
