"""A worker's view of this machine, and which ways to confine it work here.

The view holds the interpreter, the standard library and shared libraries.

Folders of installed packages are masked: a data set that lies in one of them, ours included, holds the tests.
"""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaver.envs.code.sandbox import seccomp
from palaver.envs.code.sandbox.launch import BOOT, FLAGS, LaunchError, LaunchPlan, SandboxWorker
from palaver.envs.code.sandbox.report import Mode, SandboxError
from palaver.text import one_line

NOBODY = 65534
_OLDEST, _NEWEST = 11, 20  # minor versions of Python 3 to look for
MODES: tuple[Mode, ...] = ("bubblewrap", "landlock")
_SYSTEMS = {"bubblewrap": ("Linux",), "landlock": ("Linux",), "unsafe": ("Linux", "Darwin")}
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store", "/gnu/store")
_FILES = ("/etc/ld.so.cache", "/usr/share/zoneinfo")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
_PACKAGE = __name__.rpartition(".")[0]
_WORKER = ("wire", "confine", "seccomp", "threads", "worker")
_EXAMINER = ("wire", "suite", "launch", "clock", "session", "examiner")


def unprivileged() -> int | None:
    """User that a worker runs as: None for this one; for root, which few limits hold, `nobody`."""
    return NOBODY if os.geteuid() == 0 else None


@functools.cache
def interpreter() -> Path:
    """This process's Python or, where the worker's user cannot run it, the system's.

    The system's is of the same version if there is one, else the newest.

    Raises:
        SandboxError: there is none.
    """
    versions = [sys.version_info.minor, *range(_NEWEST, _OLDEST - 1, -1)]
    system = [Path(f"{folder}/python3.{minor}") for minor in versions for folder in ("/usr/local/bin", "/usr/bin")]
    for path in (Path(sys.executable), *system):
        real = path.resolve()
        if real.is_file() and (unprivileged() is None or _open_to_all(real)):
            return real
    raise SandboxError(
        f"for root the sandbox runs programs as user {NOBODY}, and {sys.executable} is in a folder closed to others:"
        f" install Python 3.{_OLDEST} or newer in /usr/bin (Debian: apt-get install python3), or run as another user"
    )


def _open_to_all(path: Path) -> bool:
    try:
        return all(ancestor.stat().st_mode & 0o001 for ancestor in (path, *path.parents))
    except OSError:
        return False


def modules(names: Iterable[str]) -> list[tuple[str, str]]:
    """Name and text of modules of this package."""
    return [(f"{_PACKAGE}.{name}", Path(__file__).with_name(f"{name}.py").read_text("utf-8")) for name in names]


def examiner_modules() -> list[tuple[str, str]]:
    """Modules that an examiner runs."""
    return modules(_EXAMINER)


@functools.cache
def plan(mode: Mode, filtered: bool = True) -> LaunchPlan:
    """Plan of a worker of this mode.

    `filtered`: with the system call filter, where the machine has one.

    Raises:
        SandboxError: the mode is impossible here.
    """
    if platform.system() not in _SYSTEMS[mode]:
        raise SandboxError(f"the mode {mode} needs {' or '.join(_SYSTEMS[mode])}; on Windows run Palaver in WSL")
    python = [str(interpreter()), *FLAGS, BOOT]
    settings: dict[str, Any] = {
        "mode": mode,
        "filter": filtered and seccomp.supported(),
        "count_processes": mode == "bubblewrap",
        "count_threads": mode == "landlock",
    }
    if mode == "landlock":
        if not seccomp.supported():
            raise SandboxError(f"no system call filter for {os.uname().machine}, without which Landlock is not enough")
        settings |= {"files": _unmasked(), "folders": [str(path) for path in _roots()]}
    command = [*_bubblewrap(), *python] if mode == "bubblewrap" else python
    return {"mode": mode, "command": command, "user": unprivileged(), "modules": modules(_WORKER), "settings": settings}


def _roots() -> list[Path]:
    """Folders with what an interpreter loads."""
    prefix = interpreter().parent.parent
    folders = [Path(name) for name in _LIBRARIES] + [prefix / "lib", prefix / "lib64"]
    return [path for path in dict.fromkeys(folders) if path.is_dir()]


def _masks() -> list[Path]:
    """Folders of installed packages in the roots."""
    return sorted({path.resolve() for root in _roots() for path in root.glob("python3*/*-packages") if path.is_dir()})


def _unmasked() -> list[str]:
    """The largest pieces of the roots that hold no masked folder, and the single files."""
    masks = _masks()
    roots = sorted({path.resolve() for path in _roots()})
    return [*(str(piece) for root in roots for piece in _pieces(root, masks)), str(interpreter()), *_FILES, *_DEVICES]


def _pieces(folder: Path, masks: list[Path]) -> Iterator[Path]:
    if not any(mask.is_relative_to(folder) for mask in masks):
        yield folder
    elif folder not in masks:
        for child in folder.iterdir():
            yield from _pieces(child, masks)


def _bubblewrap() -> list[str]:
    executable = shutil.which("bwrap")
    if executable is None:
        raise SandboxError("bwrap is not installed (Debian, Ubuntu: apt-get install bubblewrap)")
    command = [executable, "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    command += ["--unshare-cgroup-try", "--die-with-parent", "--as-pid-1", "--new-session"]
    command += ["--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN"]  # to mount its /tmp; dropped before it serves
    for path in _roots():
        command += ["--symlink", os.readlink(path), str(path)] if path.is_symlink() else ["--ro-bind", *[str(path)] * 2]
    command += ["--ro-bind", *[str(interpreter())] * 2]
    for mask in _masks():
        command += ["--tmpfs", str(mask)]
    for name in _FILES:
        command += ["--ro-bind-try", name, name]
    command += ["--dir", "/tmp", "--dir", "/dev"]
    for name in _DEVICES:
        command += ["--dev-bind", name, name]
    for mask in _masks():
        command += ["--remount-ro", str(mask)]
    return [*command, "--remount-ro", "/", "--chdir", "/"]


def bubblewrap_version() -> str:
    """`bubblewrap 0.8.0`, or empty."""
    executable = shutil.which("bwrap")
    if executable is None:
        return ""
    done = subprocess.run([executable, "--version"], capture_output=True, text=True, timeout=5, check=False)
    return done.stdout.strip()


@dataclass(frozen=True, slots=True)
class Ability:
    """Result of trying one way of confinement on this machine.

    Attributes:
        mode: the way.
        works: True if a worker started in it.
        detail: its properties, or the reason why it did not start.
    """

    mode: Mode
    works: bool
    detail: str


def probe() -> tuple[Ability, ...]:
    """Start a worker in each way of confinement, best first; `auto` takes the first that works."""
    return tuple(_try(mode) for mode in MODES)


def _try(mode: Mode) -> Ability:
    try:
        settings = plan(mode)
        worker = SandboxWorker(settings)
    except (SandboxError, LaunchError) as error:
        return Ability(mode, False, one_line(error))
    facts, filtered = worker.facts, settings["settings"]["filter"]
    worker.close()
    how = bubblewrap_version() if mode == "bubblewrap" else f"Landlock {facts['landlock']}"
    parts = [how, "system call filter" if filtered else "no system call filter", f"user {facts['uid']}"]
    return Ability(mode, True, ", ".join([*parts, f"Python {facts['python']} ({interpreter()})"]))
