"""Nothing that a program does reaches a process outside, in each mode, as root and as an ordinary user."""

from __future__ import annotations

import os
import platform
import warnings
from pathlib import Path

import pytest

from palaver.core import PalaverWarning
from palaver.envs.code.sandbox import Limits, seccomp
from tests.envs.sandbox import ways_out
from tests.envs.sandbox.conftest import USERS
from tests.envs.sandbox.outside import Outside

PROGRAM = Path(ways_out.__file__).read_text()
MODES = ["bubblewrap", "landlock"]
PATIENT = Limits(seconds=10, total_seconds=60, timeouts=len(ways_out.WAYS))
# a machine may lack these, or keep processes of one user apart (Yama)
OPTIONAL = {
    "a POSIX message queue", "the memory of another process", "the memory of another process, by /proc",
    "a descriptor of another process", "pidfd_send_signal",
}  # fmt: skip


@pytest.fixture(scope="module")
def outside():
    with Outside(65534 if os.geteuid() == 0 else None) as made:
        yield made


def _try_all(pool, outside):
    """The ways by which something was received, and the report; `f` returns "sent" where no call failed."""
    tests = "\n".join(f"assert f({way!r}, {outside.place!r}) == 'sent'" for way in ways_out.WAYS)
    assert outside.received() == []
    report = pool.score(PROGRAM, tests, "f", limits=PATIENT)
    assert report.scored, report
    return outside.received(), report


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_received_outside(mode, user, pools, outside):
    received, report = _try_all(pools(mode, user=user), outside)
    assert received == []
    assert report.mode == mode
    assert report.total == len(ways_out.WAYS) >= 36
    assert {result.verdict for result in report.results} == {"error"}, report


@pytest.mark.parametrize("user", USERS)
def test_without_a_sandbox_everything_is_received(user, pools, outside):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PalaverWarning)
        pool = pools("unsafe", filtered=False, user=user)
    received, report = _try_all(pool, outside)
    assert set(ways_out.WAYS) - set(received) <= OPTIONAL, report
    assert received.count("a descriptor") == 4
    assert received.count("a connection") == 6


@pytest.mark.parametrize("user", USERS)
def test_nothing_is_received_from_bubblewrap_without_the_filter(user, pools, outside):
    received, _ = _try_all(pools("bubblewrap", filtered=False, user=user), outside)
    assert received == []


NUMBERED = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def f(number, *arguments):
    return libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments]), ctypes.get_errno()
"""


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("mode", MODES)
def test_every_call_of_the_table_is_refused(mode, user, pools):
    column = seccomp._MACHINES[os.uname().machine][0]
    refused = [numbers[column] for numbers in seccomp._NUMBERS.values() if numbers[column] >= 0]
    missing = [numbers[column] for numbers in seccomp._MISSING.values()] + [seccomp._NEWEST + 1]
    if platform.machine() == "x86_64":
        missing.append(0x40000000 | 41)  # socket of x32
    tests = [f"assert f({number}, 0, 0, 0, 0, 0, 0) == (-1, 1), {number}" for number in refused]
    tests += [f"assert f({number}, 0, 0, 0, 0, 0, 0) == (-1, 38), {number}" for number in missing]
    report = pools(mode, user=user).score(NUMBERED, "\n".join(tests), "f")
    assert report.verdict == "pass", [result.message for result in report.results if result.verdict != "pass"]
    assert report.total >= 130


INT_80 = """
import ctypes, mmap
def f():
    # mov eax, 359; mov ebx, 1; mov ecx, 2; xor edx, edx; int 0x80; ret: socket(AF_UNIX, SOCK_DGRAM, 0) of 32-bit x86
    code = bytes.fromhex("b867010000" "bb01000000" "b902000000" "31d2" "cd80" "c3")
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls of 32-bit x86")
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("mode", MODES)
def test_a_call_of_the_32_bit_table_ends_the_program(mode, user, pools):
    report = pools(mode, user=user).score(INT_80, "assert f() < 0", "f")
    assert report.verdict == "killed", report


INSIDE = """
import asyncio, fcntl, os, socket, struct, sys, time

def locked(kind):
    with open(os.__file__) as file:
        fcntl.flock(file, fcntl.LOCK_SH) if kind == "flock" else fcntl.lockf(file, fcntl.LOCK_SH)

def sent():
    one, two = socket.socketpair()
    one.sendall(b"ping")
    return two.recv(9)

async def _slept():
    await asyncio.sleep(0)
    return await asyncio.to_thread(lambda: 7)

def f(name):
    if name == "locked":
        refused = 0
        for kind in ("flock", "lockf"):
            try: locked(kind)
            except PermissionError: refused += 1
        return refused
    return sent() if name == "sent" else asyncio.run(_slept())
"""


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("mode", MODES)
def test_what_stays_inside(mode, user, pools):
    """Pairs of stream sockets and asyncio work; a lock, which every reader of the file would see, is refused."""
    tests = "assert f('sent') == b'ping'\nassert f('slept') == 7\nassert f('locked') == 2"
    assert pools(mode, user=user).score(INSIDE, tests, "f").verdict == "pass"
