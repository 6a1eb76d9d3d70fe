"""The filter, run by an interpreter of its own, and its numbers, compared with the kernel's headers."""

from __future__ import annotations

import re
import struct
import types
from pathlib import Path

import pytest

from palaver.envs.code.sandbox import seccomp

ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
ARCHS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# x86-64, AArch64
CALLS = {
    "read": (0, 63), "write": (1, 64), "openat": (257, 56), "mmap": (9, 222), "futex": (202, 98),
    "exit_group": (231, 94), "socketpair": (53, 199), "fork": (57, None), "execve": (59, 221), "kill": (62, 129),
    "socket": (41, 198), "ptrace": (101, 117), "io_setup": (206, 0), "sync": (162, 81), "clone": (56, 220),
    "clone3": (435, 435), "prlimit64": (302, 261), "fcntl": (72, 25), "ioctl": (16, 29), "prctl": (157, 167),
    "sendto": (44, 206), "sendmsg": (46, 211), "sendmmsg": (307, 269), "recvfrom": (45, 207), "recvmsg": (47, 212),
    "getsockopt": (55, 209), "setsockopt": (54, 208), "open": (2, None), "openat2": (437, 437),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "memfd_create": (319, 279), "flock": (73, 32),
    "mq_open": (240, 180), "msgget": (68, 186), "shmget": (29, 194), "semget": (64, 190), "add_key": (248, 217),
    "keyctl": (250, 219), "mknodat": (259, 33), "execveat": (322, 281), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "process_vm_writev": (311, 271), "open_by_handle_at": (304, 265),
    "userfaultfd": (323, 282), "bpf": (321, 280), "perf_event_open": (298, 241), "seccomp": (317, 277),
    "inotify_init1": (294, 26), "connect": (42, 203), "bind": (49, 200), "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
}  # fmt: skip


def decide(program, arch, number, *arguments):
    """What the kernel would do: linux/Documentation/networking/filter.rst, the instructions that occur."""
    padded = [*arguments, *[0] * 6][:6]
    data = struct.pack("<iIQ6Q", number, arch, 0, *padded)
    lines = list(struct.iter_unpack("HBBI", program))
    at, held = 0, 0
    while True:
        code, then, otherwise, value = lines[at]
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            (held,) = struct.unpack_from("<I", data, value)
        elif code == 0x05:
            at += value
        else:
            held_is = {0x15: held == value, 0x35: held >= value, 0x45: held & value != 0}[code]
            at += then if held_is else otherwise


@pytest.fixture(params=["x86_64", "aarch64"])
def run(request, monkeypatch):
    monkeypatch.setattr(seccomp.os, "uname", lambda: types.SimpleNamespace(machine=request.param))
    program, column = seccomp.program(), list(ARCHS).index(request.param)

    def asked(call, *arguments, arch=ARCHS[request.param]):
        number = CALLS[call][column] if isinstance(call, str) else call
        return None if number is None else decide(program, arch, number, *arguments)

    asked.machine = request.param
    return asked


@pytest.mark.parametrize("call", ["read", "write", "openat", "mmap", "futex", "exit_group", "recvfrom"])
def test_what_a_program_needs_is_allowed(run, call):
    assert run(call) == ALLOW


REFUSED = [
    "fork", "execve", "kill", "socket", "ptrace", "io_setup", "sync", "sendmsg", "sendmmsg", "recvmsg", "setsockopt",
    "io_uring_setup", "io_uring_enter", "memfd_create", "flock", "mq_open", "msgget", "shmget", "semget", "add_key",
    "keyctl", "mknodat", "execveat", "pidfd_open", "pidfd_getfd", "connect", "bind", "process_vm_writev",
    "open_by_handle_at", "userfaultfd", "bpf", "perf_event_open", "seccomp", "inotify_init1", "tgkill",
    "rt_sigqueueinfo",
]  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_what_it_does_not_need_is_refused(run, call):
    assert run(call) in (EPERM, None)


@pytest.mark.parametrize(
    ("call", "arguments", "decision"),
    [
        ("clone", (17,), EPERM),  # SIGCHLD: fork
        ("clone", (0x10000000 | 17,), EPERM),  # a user name space
        ("clone", (0x3D0F00,), ALLOW),  # what pthread_create asks for
        ("clone3", (1, 88), ENOSYS),
        ("prlimit64", (0, 9), ALLOW),
        ("prlimit64", (1, 9), EPERM),
        ("fcntl", (3, 3), ALLOW),
        ("fcntl", (3, 8), EPERM),
        ("fcntl", (3, 15), EPERM),
        ("fcntl", (3, 1024), EPERM),
        ("fcntl", (3, 6), EPERM),  # F_SETLK
        ("fcntl", (3, 1030), ALLOW),
        ("clone", (0x3D0F00 | 0x20000,), EPERM),  # a mount name space
        ("socketpair", (1, 1, 0), ALLOW),
        ("socketpair", (1, 0x80801, 0), ALLOW),
        ("socketpair", (1, 2, 0), EPERM),  # datagrams
        ("socketpair", (1, 5, 0), EPERM),  # packets in sequence
        ("socketpair", (2, 1, 0), EPERM),  # another family
        ("sendto", (3, 0x7F0000001000, 1, 0, 0, 0), ALLOW),
        ("sendto", (3, 0x7F0000001000, 1, 0, 0x1000, 110), EPERM),
        ("sendto", (3, 0x7F0000001000, 1, 0, 1 << 40, 110), EPERM),  # an address whose lower half is 0
        ("getsockopt", (3, 1, 3), ALLOW),
        ("getsockopt", (3, 1, 77), EPERM),  # SO_PEERPIDFD
        ("openat2", (0, 0, 0, 24), ENOSYS),
        ("ioctl", (0, 0x5421), ALLOW),
        ("ioctl", (0, 0x40086602), EPERM),  # FS_IOC_SETFLAGS
        ("ioctl", (0, 0x5401), ALLOW),
        ("ioctl", (0, 0x5412), EPERM),
        ("prctl", (15,), ALLOW),
        ("prctl", (1, 0), EPERM),
        ("prctl", (1 << 40 | 1, 0), EPERM),
        ("prctl", (4, 1), EPERM),  # PR_SET_DUMPABLE
        ("prctl", (22, 2), EPERM),  # PR_SET_SECCOMP
    ],
)
def test_what_depends_on_an_argument(run, call, arguments, decision):
    assert run(call, *arguments) == decision


@pytest.mark.parametrize("access", [0, 1, 2, 3])
@pytest.mark.parametrize("others", [0, 0x80000, 0x200, 0x80240])
def test_a_file_is_emptied_only_where_it_is_written(run, access, others):
    truncates = bool(others & 0x200)
    decision = EPERM if access == 3 or (truncates and access == 0) else ALLOW
    assert run("openat", -100 & (1 << 64) - 1, 0x1000, access | others) == decision
    assert run("open", 0x1000, access | others) in (decision, None)


def test_other_tables_of_calls(run):
    assert run("read", arch=0x40000003) == KILL  # 32-bit x86
    assert run(0x40000000 | 520) == ENOSYS  # x32
    assert run(469) == EPERM
    assert run(470) == ENOSYS  # newer than the table


def test_only_the_start_of_a_thread_is_asked_about(monkeypatch):
    for column, (machine, arch) in enumerate(ARCHS.items()):
        monkeypatch.setattr(seccomp.os, "uname", lambda machine=machine: types.SimpleNamespace(machine=machine))
        notices = seccomp.thread_notices()
        for name, numbers in CALLS.items():
            if numbers[column] is not None:
                asked = decide(notices, arch, numbers[column], 0x3D0F00)
                assert asked == (0x7FC00000 if name == "clone" else ALLOW), name
        assert decide(notices, arch, CALLS["clone"][column], 17) == ALLOW  # a process: the worker makes children


def test_an_unknown_machine(monkeypatch):
    monkeypatch.setattr(seccomp.os, "uname", lambda: types.SimpleNamespace(machine="riscv64"))
    assert not seccomp.supported()


HEADERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm-generic/unistd.h")


@pytest.mark.parametrize("column", [0, 1], ids=["x86_64", "aarch64"])
def test_numbers_are_the_kernels(column):
    path = Path(HEADERS[column])
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text())
    known = {name: int(number) for name, number in found}
    newest = max(known.values())
    for name, numbers in (seccomp._NUMBERS | seccomp._MISSING).items():
        assert numbers[column] > newest or known.get(name, -1) == numbers[column], name
    for name, numbers in CALLS.items():
        assert known.get(name) == numbers[column], name
