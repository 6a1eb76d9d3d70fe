"""Surroundings of a program in each mode, as root and as an ordinary user: privileges, limits, files."""

from __future__ import annotations

import os

import pytest

from palaver.envs.code.sandbox import Limits, view
from tests.envs.sandbox.conftest import SECRET, USERS


@pytest.fixture(params=USERS)
def user(request):
    return request.param


@pytest.fixture(params=["bubblewrap", "landlock"])
def pool(request, pools, user):
    return pools(request.param, user=user)


PRIVILEGES = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def f(name):
    if name == "users": return os.getresuid() + os.getresgid()
    if name == "new privileges": return 1 - libc.prctl(39, 0, 0, 0, 0)
    if name == "open to others": return libc.prctl(3, 0, 0, 0, 0)
    held = (ctypes.c_uint * 6)()
    libc.capget((ctypes.c_uint * 2)(0x20080522, 0), held)
    return sum(held)
"""


def test_a_program_has_no_privileges(pool):
    user = view.NOBODY if os.geteuid() == 0 else os.geteuid()
    group = view.NOBODY if os.geteuid() == 0 else os.getegid()
    tests = f"assert f('users') == {(user,) * 3 + (group,) * 3}\n"
    tests += "\n".join(f"assert f({name!r}) == 0" for name in ("new privileges", "open to others", "capabilities"))
    assert pool.score(PRIVILEGES, tests, "f").verdict == "pass"


RESOURCES = """
import resource
def f(name): return resource.getrlimit(getattr(resource, "RLIMIT_" + name))
"""


def test_resources_are_limited(pool):
    limits = Limits(memory=300 << 20, file_size=12_345, open_files=33, total_seconds=7.0)
    expected = {"AS": 300 << 20, "FSIZE": 12_345, "NOFILE": 33, "CPU": 9}
    expected |= dict.fromkeys(("CORE", "MEMLOCK", "MSGQUEUE", "NICE", "RTPRIO", "SIGPENDING"), 0)
    tests = "\n".join(f"assert f({name!r}) == {(most, most)}" for name, most in expected.items())
    report = pool.score(RESOURCES, tests, "f", limits=limits)
    assert report.verdict == "pass", report


FILES = """
import os
def f(path):
    room = os.statvfs("/tmp")
    try: size = os.stat(path).st_size
    except FileNotFoundError: size = None
    try: open("/tmp/new", "w").close()
    except OSError as error: return size, error.errno
    return size, room.f_blocks * room.f_frsize, room.f_files, os.environ.get("PALAVER_TEST_SECRET")
"""


def test_files_that_are_seen(pool, host):
    """Bubblewrap hides that a file exists and has a /tmp of its own; Landlock shows its size and writes nothing."""
    report = pool.score(FILES, f"assert f({str(host.secret)!r}) == 0", "f")
    found = (len(SECRET), 13) if report.mode == "landlock" else (None, 4 << 20, 256, None)
    assert report.results[0].message == f"f({str(host.secret)!r}) returned {found!r}"
