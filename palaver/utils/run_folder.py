"""Run folders: a lock for one writing process, and atomic writes of all files.

    with locked(folder):                                # FolderInUseError where another process holds it
        replace_text(folder / "status.json", text)      # the old file or the new one, never a part
        append_lines(folder / "metrics.jsonl", [line])  # all of it or nothing
        lines, damaged = read_lines(folder / "metrics.jsonl")

Training runs, arenas, curricula, cloning, laboratories, MARLHF and the tables use it. A process that only reads a
folder (`palaver view`, `report`, `compare`) takes no lock.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from palaver.core import ConfigError, PalaverError
from palaver.text import one_line

LOCK = ".lock"
WRITING = ".writing-"  # begins the name of a file or folder that is not complete yet
DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EROFS})
PATIENCE = 0.2  # seconds that a process tries to take a lock, in which its holder writes its name
_OS_ERROR = re.compile(r"\(os error (\d+)\)")  # as Rust libraries write it


class FolderInUseError(ConfigError):
    """Another process writes into the folder."""


class DiskError(PalaverError):
    """A file could not be written: the disk is full, or broken."""


# --- the lock ------------------------------------------------------------------------------------


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder until the block or the process ends.

    A missing folder is made. The lock is a `FileLock` on `.lock` (`flock(2)`; on Windows `msvcrt.locking`), so the
    system releases it with the process. Between hosts that share a file system it holds as far as that file system's
    `flock` does (NFS from version 3 on with its lock service; not all network file systems). One process that takes it
    twice is refused the second time.

    Raises:
        FolderInUseError: another process holds it; the message names its pid, its host and since when.
        ConfigError: the folder cannot be made, or its file system has no locks.
    """
    path = folder / LOCK
    with writing(folder):
        lock = _take(folder, PATIENCE)
    try:
        about = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        with contextlib.suppress(OSError):  # on a full disk the lock holds without a name in it
            path.write_text(json.dumps(about) + "\n", encoding="utf-8")
        _sweep(folder)
        yield
    finally:
        with contextlib.suppress(OSError):  # releasing it suffices
            os.truncate(path, 0)
        lock.release()


def refuse_in_use(folder: Path) -> None:
    """Raise as `locked` would, and leave the folder as it is.

    Raises:
        FolderInUseError: another process holds the folder.
    """
    if (folder / LOCK).exists():
        with contextlib.suppress(OSError):  # no lock, so no process holds it
            _take(folder, 0.0).release()


def _take(folder: Path, patience: float) -> FileLock:
    """Lock the folder, or raise `FolderInUseError`."""
    lock = FileLock(folder / LOCK, timeout=patience, thread_local=False)
    try:
        lock.acquire(poll_interval=0.02)
    except Timeout as error:
        raise _in_use(folder, read_record(folder / LOCK)) from error
    return lock


def _in_use(folder: Path, holder: Mapping[str, Any]) -> FolderInUseError:
    who = "another process"
    if holder:
        who = f"process {holder.get('pid')} (on {holder.get('host')}, since {holder.get('since')})"
    return FolderInUseError(
        f"{str(folder)!r} is in use by {one_line(who, 200)}; wait for it or end it, or choose another folder"
    )


def _sweep(folder: Path) -> None:
    """Remove half-written files of ended processes of this host in the folder and below.

    A folder below that has a lock of its own is left alone: a process of another host may write there.
    """
    for root, below, names in os.walk(folder):
        below[:] = [child for child in below if not Path(root, child, LOCK).exists()]
        for name in names:
            *_, pid = name.rpartition(".")
            if name.startswith(WRITING) and pid.isdigit() and not alive(int(pid)):
                Path(root, name).unlink(missing_ok=True)


def alive(pid: int) -> bool:
    """Return whether a process of this machine has that positive id; on Windows always True."""
    if os.name == "nt":  # `os.kill` would end it
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def read_record(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one if there is none, or it cannot be read."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


# --- writing -------------------------------------------------------------------------------------


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Context in which files of a folder are written; a missing folder is made.

    Raises:
        ConfigError: the folder or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ConfigError(f"cannot write {str(error.filename or folder)!r}: {error.strerror}") from error


def replace_text(path: Path, text: str) -> None:
    """Write a temporary file and rename it.

    If the process is killed in between, or the disk is full, the old file stays.

    Raises:
        OSError: it cannot be written.
    """
    replace_bytes(path, text.encode("utf-8", "replace"))


def replace_bytes(path: Path, data: bytes) -> None:
    """Replace a file atomically, as `replace_text`.

    Raises:
        OSError: it cannot be written.
    """
    temporary = path.with_name(f"{WRITING}{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync(path.parent)
    except OSError as error:
        error.filename = str(path)  # of a failed write the system names none
        raise
    finally:
        temporary.unlink(missing_ok=True)


def publish_folder(target: Path, fill: Callable[[Path], object]) -> None:
    """Let `fill` write into a temporary folder, and rename it to `target`.

    An existing folder is replaced.

    Raises:
        OSError: it cannot be written; nothing of it is left, and `target` is as before.
    """
    temporary = target.with_name(f"{WRITING}{target.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        fill(temporary)
        for path in files_in(temporary):
            sync(path)
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
        sync(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def append_lines(path: Path, records: Iterable[Mapping[str, Any]], default: Callable[[Any], Any] | None = None) -> None:
    """Append JSON lines; where they do not fit on the disk the file is as before.

    Raises:
        OSError: they cannot be written.
    """
    data = "".join(json.dumps(record, default=default) + "\n" for record in records).encode()
    with path.open("ab", buffering=0) as file:
        append_bytes(file, data)


def append_bytes(file: BinaryIO, data: bytes) -> None:
    """Append to a file that was opened for it without a buffer; all, or nothing.

    Raises:
        OSError: it cannot be written.
    """
    before = os.fstat(file.fileno()).st_size
    remaining = memoryview(data)
    try:
        while remaining:
            remaining = remaining[file.write(remaining) :]
    except OSError as error:
        error.filename = file.name  # of a failed write the system names none
        raise
    finally:
        if remaining:
            os.ftruncate(file.fileno(), before)


def overwrite(path: Path, text: str) -> None:
    """Overwrite a small file in place.

    This needs no room on the disk where the file does not become longer.

    Raises:
        OSError: it cannot be written.
    """
    data = text.encode()
    with path.open("r+b", buffering=0) as file:
        file.write(data.ljust(os.fstat(file.fileno()).st_size))
        file.truncate(len(data))


def sync(path: Path) -> None:
    """Bring a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def files_in(folder: Path) -> list[Path]:
    """Every file under a folder, in order."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


class DiskErrorContext(contextlib.AbstractContextManager[None]):
    """Context that turns errors of a full or broken disk into a `DiskError`, from any library.

    Args:
        hint: how to continue once there is room.

    Raises:
        DiskError: in the place of the `OSError`, or of a library's error that carries the number of one.
    """

    def __init__(self, hint: str) -> None:
        self.hint = hint

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fault = _disk_fault(error)
        if fault is None or isinstance(error, PalaverError):
            return
        where = f" {str(fault.filename)!r}" if fault.filename else ""
        mend = "see to the disk" if fault.errno in (errno.EIO, errno.EROFS) else "make room"
        raise DiskError(
            f"cannot write{where}: {fault.strerror}; what was complete is kept; {mend}, then {self.hint}"
        ) from error


def _disk_fault(error: BaseException | None) -> OSError | None:
    """Find a disk error in an error's chain, or in a message with `... (os error 28)`."""
    known: list[BaseException] = []  # a library may chain errors in a circle
    while error is not None and error not in known:
        known.append(error)
        fault = error if isinstance(error, OSError) else None
        if match := _OS_ERROR.search(str(error)):
            fault = OSError(int(match.group(1)), os.strerror(int(match.group(1))))
        if fault is not None and fault.errno in DISK:
            return fault
        error = error.__cause__ or error.__context__
    return None


# --- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DamagedLine:
    """A damaged line: its number (from 1), the reason, and its bytes."""

    number: int
    reason: str
    raw: bytes


def read_lines(
    path: Path, check: Callable[[dict[str, Any]], str] = lambda _: ""
) -> tuple[list[dict[str, Any]], list[DamagedLine]]:
    """Read the JSON objects of a file of JSON lines, and its damaged lines.

    Empty without a file.

    Args:
        path: path of the file.
        check: called with each object in order; returns an error message, or "".
    """
    lines: list[dict[str, Any]] = []
    damaged: list[DamagedLine] = []
    if not path.is_file():
        return lines, damaged
    texts = path.read_bytes().split(b"\n")
    cut = bool(texts[-1])
    for line_number, raw in enumerate(texts if cut else texts[:-1], start=1):
        record, reason = object_of(raw)
        if record is not None:
            reason = check(record)
        elif cut and line_number == len(texts):
            reason = f"it is cut off ({reason})"
        if record is None or reason:
            damaged.append(DamagedLine(line_number, reason, raw))
        else:
            lines.append(record)
    return lines, damaged


def object_of(raw: bytes) -> tuple[dict[str, Any] | None, str]:
    """A line as a JSON object, or what is wrong with it."""
    if not raw.strip():
        return None, "it is empty"
    try:
        record = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        return None, f"it is not UTF-8: byte {error.start} is 0x{raw[error.start]:02x}"
    except RecursionError:
        return None, "it is nested too deeply"
    except ValueError as error:
        return None, f"it is no JSON: {one_line(error, 80)}"
    return (record, "") if isinstance(record, dict) else (None, f"it is {type(record).__name__} and no object")
