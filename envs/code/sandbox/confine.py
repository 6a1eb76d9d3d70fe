"""Confinement of a worker and of its children.

It restricts mounts, capabilities and files of the worker, and resources and calls of the children. Standard library
only: this module also runs in the worker, where Palaver is not installed.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from collections.abc import Iterable, Mapping

TMP = "/tmp"
_TMP_OPTIONS = b"size=4m,nr_inodes=256,mode=700"
_NOSUID_NODEV_NOEXEC = 2 | 4 | 8

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 4, 24, 38, 47
_AMBIENT_CLEAR = 4
_CAPABILITY_V3 = 0x20080522
_SIGKILL = 9

# Landlock, the same numbers on every machine
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}  # of files, by version
_NET_VERSION, _SCOPE_VERSION = 4, 6
_NET, _SCOPES = 3, 3  # TCP bind and connect; abstract unix sockets and signals

_LIMITS = {
    "memory": resource.RLIMIT_AS,
    "file_size": resource.RLIMIT_FSIZE,
    "open_files": resource.RLIMIT_NOFILE,
    "cpu": resource.RLIMIT_CPU,
    "processes": resource.RLIMIT_NPROC,
}

_libc = ctypes.CDLL(None, use_errno=True)


def private_tmp() -> None:
    """Mount a small file system of its own over /tmp, limited in size and number of files.

    Raises:
        OSError: the capability is missing.
    """
    _must(_libc.mount(b"tmpfs", TMP.encode(), b"tmpfs", _NOSUID_NODEV_NOEXEC, _TMP_OPTIONS), "mounting /tmp")


def drop_capabilities() -> None:
    """Give up every capability for good.

    Raises:
        OSError: the kernel refuses.
    """
    capability = 0
    while _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    _libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR, 0, 0, 0)
    header, no_capabilities = struct.pack("Ii", _CAPABILITY_V3, 0), bytes(24)
    _must(_libc.capset(header, no_capabilities), "dropping capabilities")


def close_ranks() -> None:
    """End with the parent process, and forbid inspection and new privileges.

    Inspection is by processes of the same user, new privileges by exec.
    """
    _must(_libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0), "asking for a signal at the parent's death")
    _must(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "hiding memory")
    _must(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "giving up new privileges")


def landlock_version() -> int:
    """The kernel's version of Landlock, 0 without it."""
    return max(0, int(_libc.syscall(_CREATE, None, 0, _VERSION)))


def landlock(files: Iterable[str], folders: Iterable[str]) -> int:
    """Restrict access to files from here on.

    Only `files` (and all below them) can be read, `folders` be listed, and nothing written.

    Returns:
        The version of Landlock.

    Raises:
        OSError: the kernel has no Landlock, or refuses.
    """
    version = landlock_version()
    rights = _RIGHTS[max((known for known in _RIGHTS if known <= version), default=1)]
    attributes = struct.pack("Q", rights)
    attributes += struct.pack("Q", _NET) if version >= _NET_VERSION else b""
    attributes += struct.pack("Q", _SCOPES) if version >= _SCOPE_VERSION else b""
    rules = _must(_libc.syscall(_CREATE, attributes, len(attributes), 0), "creating Landlock rules")
    for path in files:
        _allow(rules, path, (_READ_FILE | _READ_DIR | _EXECUTE) if os.path.isdir(path) else (_READ_FILE | _EXECUTE))
    for path in folders:
        _allow(rules, path, _READ_DIR)
    _must(_libc.syscall(_RESTRICT, rules, 0), "enforcing Landlock")
    os.close(rules)
    return version


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    _must(_libc.syscall(_ADD, rules, _PATH_BENEATH, struct.pack("=Qi", rights, beneath), 0), f"allowing {path}")
    os.close(beneath)


def forbid() -> None:
    """The limits that are 0 for every program."""
    # SIGPENDING: timers of a program take from what all processes of the user have in common
    for which in ("CORE", "MEMLOCK", "MSGQUEUE", "NICE", "RTPRIO", "SIGPENDING"):
        resource.setrlimit(getattr(resource, f"RLIMIT_{which}"), (0, 0))


def set_limits(order: Mapping[str, int], count_processes: bool) -> None:
    """Set the resource limits of this process, none above those it has.

    Args:
        order: `memory`, `file_size`, `open_files`, `processes`, and `cpu` in seconds.
        count_processes: whether the kernel's count of this user's processes is the sandbox's alone.
    """
    for name, which in _LIMITS.items():
        if name != "processes" or count_processes:
            hard = resource.getrlimit(which)[1]
            soft_limit = order[name] if hard == resource.RLIM_INFINITY else min(order[name], hard)
            resource.setrlimit(which, (soft_limit, soft_limit))


def _must(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result
