"""Programs that do not want to solve the task get the right verdict, in time, and leave the machine as it was."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

import pytest

from palaver.envs.code.sandbox import Limits
from palaver.envs.code.sandbox.clock import STARVED
from tests.envs.sandbox.attacks import ATTACKS
from tests.envs.sandbox.conftest import SECRET

TESTS = "assert f(1) == 42\nassert f(2) == 43"
BRIEF = Limits(seconds=0.4, total_seconds=0.8, wall_factor=2.0, timeouts=1, memory=256 << 20)
PATIENT = Limits(
    seconds=1.5, total_seconds=1.5, wall_factor=1.0, timeouts=1, memory=256 << 20
)  # nothing but a busy machine takes it
NEXT = """
import os
def f():
    try: return os.listdir("/tmp")
    except OSError as error: return [error.strerror]
"""
SLACK = 3.0  # for a new worker, on a busy machine
NOBODY = 65534
OURS = 5  # the examiner, bubblewrap, the worker, and two children that wait for programs


@pytest.fixture(scope="session", autouse=True)
def _secret_in_the_environment():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALAVER_TEST_SECRET", SECRET)
        yield


def test_there_are_enough():
    assert len(ATTACKS) >= 40


@pytest.mark.parametrize("mode", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack(attack, mode, pools, host):
    _attacked(attack, pools(mode), host, attack.verdicts[mode])


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="test_attack is run as an ordinary user")
@pytest.mark.parametrize("mode", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack_as_an_ordinary_user(attack, mode, pools, host):
    _attacked(attack, pools(mode, user="ordinary user"), host, attack.verdicts[mode])


FILTERED = {"processes and threads", "signals and other processes", "networks", "the system"}
BEHIND_THE_FILTER = [attack for attack in ATTACKS if attack.section in FILTERED]


@pytest.mark.slow  # a new worker for each program
@pytest.mark.parametrize("attack", BEHIND_THE_FILTER, ids=lambda attack: attack.name)
def test_bubblewrap_holds_without_the_filter(attack, pools, host):
    verdicts = {"fail", "error", "timeout", "memory", "killed"}
    _attacked(attack, pools("bubblewrap", filtered=False), host, verdicts)


def _attacked(attack, pool, host, verdicts):
    strays = _strays()
    limits = BRIEF if "timeout" in attack.verdicts["bubblewrap"] | attack.verdicts["landlock"] else PATIENT
    report = pool.score(host.fill(attack.program), TESTS, "f", limits=limits)
    assert report.verdict in verdicts, report
    assert report.passed == 0, report
    assert report.total == 2
    assert SECRET not in repr(report)
    assert report.seconds < (1 + STARVED) * limits.wall_factor * limits.total_seconds + SLACK
    # nothing outside was touched
    assert host.secret.read_text() == SECRET
    assert sorted(path.name for path in host.folder.iterdir()) == ["secret.txt", "socket"]
    assert host.secret.stat().st_mode & 0o777 == 0o666
    assert select.select(host.sockets, [], [], 0)[0] == []
    # nothing is left running, and the worker serves the next program
    found = "['Permission denied']" if report.mode == "landlock" else "[]"
    assert pool.score(NEXT, f"assert f() == {found}", "f").verdict == "pass"
    _settled(pool, strays)


def _settled(pool, strays):
    deadline = time.monotonic() + 20.0  # of a machine that does other things too
    while len(_below(_examiner(pool))) > OURS or _strays() - strays:
        assert time.monotonic() < deadline, (_below(_examiner(pool)), _strays() - strays)
        time.sleep(0.01)


def _examiner(pool):
    (slot,) = pool._slots.queue
    return slot._process.pid


def _processes():
    """pid: (parent, user) of all that run; what has ended and only waits to be reaped does not."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = dict(line.split(":\t", 1) for line in (entry / "status").read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        if not fields["State"].startswith("Z"):
            found[int(entry.name)] = (int(fields["PPid"]), int(fields["Uid"].split()[0]))
    return found


def _below(top):
    known = _processes()
    found = {top}
    while more := {pid for pid, (parent, _) in known.items() if parent in found} - found:
        found |= more
    return found


def _strays():
    """Processes of the sandbox's user whose parent is gone."""
    user = NOBODY if os.geteuid() == 0 else os.geteuid()
    init = {pid for pid, (parent, owner) in _processes().items() if parent <= 1 and owner == user}
    return init if user == NOBODY else set()
