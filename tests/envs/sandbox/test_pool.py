"""Pools: threads, processes, replacement of what was lost, ways of confinement, mistakes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from palaver.core import ConfigError, PalaverWarning
from palaver.envs.code.sandbox import SandboxError, SandboxPool, examiner, pool, slot, view
from tests.envs.sandbox.test_attacks import _below, _examiner

GOOD = ("def f(x): return x", "assert f(1) == 1", "f")


def test_threads_share_a_pool():
    programs = [(f"def f(x): return x + {n % 3}", "assert f(1) == 2", "f") for n in range(30)]
    with SandboxPool(2) as two, ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda job: two.score(*job).verdict, programs))
        assert found == ["pass" if n % 3 == 1 else "fail" for n in range(30)]
        assert sum(each is not None for each in two._slots.queue) <= 2


def test_closing_ends_all_processes():
    with SandboxPool(1) as one:
        assert one.score(*GOOD).verdict == "pass"
        pids = _below(_examiner(one))
        assert len(pids) >= 3
    _gone(pids)
    assert one.score(*GOOD).verdict == "pass"  # and it can be used again
    one.close()


def _gone(pids):
    deadline = time.monotonic() + 5
    while alive := [pid for pid in pids if _runs(pid)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.01)


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _users(pid):
    """The users a process runs as, or none: a program's own process may end between being listed and looked at."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return set()
    return set(next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:])


@pytest.mark.parametrize("which", range(5), ids=["examiner", "bubblewrap", "worker", "child", "next child"])
def test_what_was_lost_is_replaced_and_the_program_scored(which, pools):
    pools("bubblewrap")
    with SandboxPool(1, "bubblewrap") as one:
        one.score(*GOOD)
        time.sleep(0.2)  # until the next children are there
        pids = sorted(_below(_examiner(one)))
        assert len(pids) == 5
        os.kill(pids[which], signal.SIGKILL)
        _gone([pids[which]])
        for _ in range(3):
            assert one.score(*GOOD).verdict == "pass"
        _gone(pids[3:])


def test_a_killed_process_takes_its_workers_along():
    code = (
        "from palaver.envs.code.sandbox import SandboxPool\n"
        "from tests.envs.sandbox.test_attacks import _below, _examiner\n"
        f"p = SandboxPool(1); p.score(*{GOOD!r}); print(*_below(_examiner(p)), flush=True); input()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pids = [int(word) for word in process.stdout.readline().split()]
    assert len(pids) >= 3
    process.kill()
    process.wait(60)
    _gone(pids)
    process.stdin.close()
    process.stdout.close()


def test_a_forked_copy_gets_workers_of_its_own():
    with SandboxPool(1) as one:
        one.score(*GOOD)
        ours = _examiner(one)
        context = multiprocessing.get_context("fork")
        queue = context.SimpleQueue()

        def work():
            queue.put((one.score(*GOOD).verdict, _examiner(one)))
            one.close()

        child = context.Process(target=work)
        child.start()
        verdict, theirs = queue.get()
        child.join(60)
        assert child.exitcode == 0
        assert verdict == "pass"
        assert theirs != ours
        assert one.score(*GOOD).verdict == "pass"
        assert _examiner(one) == ours


def test_a_worker_is_replaced_when_it_has_served_enough(monkeypatch):
    text = dict(view.examiner_modules())["palaver.envs.code.sandbox.examiner"]
    assert "RECYCLE = 500 " in text
    given = [(name, source.replace("RECYCLE = 500 ", "RECYCLE = 3 ")) for name, source in view.examiner_modules()]
    monkeypatch.setattr(slot.view, "examiner_modules", lambda: given)
    with SandboxPool(1) as one:
        seen = set()
        for _ in range(7):
            assert one.score(*GOOD).verdict == "pass"
            seen.add(min(_below(_examiner(one)) - {_examiner(one)}))
        assert len(seen) == 3
    assert examiner.RECYCLE == 500


# --- an error of the sandbox is no score ---------------------------------------------------------


class Broken:
    """An examiner that loses every request but those it knows."""

    def __init__(self, knows=()):
        self.asked, self.knows = [], knows

    def __call__(self, request):
        self.asked.append(request["program"])
        return {"results": [["pass", ""]]} if request["program"] in self.knows else {"lost": "it broke"}


@pytest.fixture
def broken(monkeypatch):
    def make(*knows):
        made = Broken(knows)
        monkeypatch.setattr(slot.Slot, "_request", lambda self, request: made(request))
        return made

    return make


def test_a_sandbox_that_fails_is_retried_and_never_a_zero(broken):
    asked = broken().asked
    with SandboxPool(1) as one:
        report = one.score(*GOOD)
    assert (report.verdict, report.scored, report.message) == ("sandbox_error", False, "it broke")
    assert [result.verdict for result in report.results] == ["sandbox_error"]
    assert asked == [GOOD[0]] * slot.ATTEMPTS + [slot._KNOWN_GOOD["program"]]


def test_a_program_that_takes_every_worker_down_is_at_fault(broken):
    broken(slot._KNOWN_GOOD["program"])
    with SandboxPool(1) as one:
        report = one.score(*GOOD)
    assert (report.verdict, report.scored, report.passed) == ("killed", True, 0)


def test_an_attempt_that_works_counts(broken, monkeypatch):
    replies = iter([{"lost": "once"}, {"results": [["pass", ""]]}])
    monkeypatch.setattr(slot.Slot, "_request", lambda self, request: next(replies))
    with SandboxPool(1) as one:
        assert one.score(*GOOD).verdict == "pass"


def test_an_interrupted_slot_is_not_used_again(monkeypatch):
    with SandboxPool(1) as one:
        one.score(*GOOD)
        before = _examiner(one)
        with monkeypatch.context() as patch:
            patch.setattr(slot.Slot, "_exchange", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
            with pytest.raises(KeyboardInterrupt):
                one.score(*GOOD)
        assert one.score(*GOOD).verdict == "pass"
        assert _examiner(one) != before


# --- ways of confinement -------------------------------------------------------------------------


@pytest.fixture
def fresh():
    """Plans and warnings as if this process had just begun."""
    for cached in (view.plan, view.interpreter, pool._warn_once):
        cached.cache_clear()
    yield
    for cached in (view.plan, view.interpreter, pool._warn_once):
        cached.cache_clear()


def test_without_bubblewrap_the_fallback_is_used_and_said(fresh, monkeypatch, pools):
    pools("landlock")
    monkeypatch.setattr(view.shutil, "which", lambda name: None)
    with SandboxPool(1) as one:
        with pytest.warns(PalaverWarning, match=r"confined by landlock, not by bubblewrap: bwrap is not installed"):
            assert one.score(*GOOD).mode == "landlock"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert one.score(*GOOD).mode == "landlock"
    with pytest.raises(SandboxError, match="apt-get install bubblewrap"):
        SandboxPool(1, "bubblewrap")


def test_where_name_spaces_are_forbidden_the_fallback_is_used(fresh, monkeypatch, tmp_path, pools):
    pools("landlock")
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.stat().st_uid == os.getuid() and str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    monkeypatch.setattr(view.shutil, "which", lambda name: str(fake))
    with SandboxPool(1) as one, pytest.warns(PalaverWarning, match="No permissions to create new namespace"):
        assert one.score(*GOOD).mode == "landlock"
    with pytest.raises(SandboxError, match="No permissions to create new namespace"):
        SandboxPool(1, "bubblewrap").score(*GOOD)


def test_nothing_is_run_where_nothing_confines(fresh, monkeypatch):
    monkeypatch.setattr(view.shutil, "which", lambda name: None)
    monkeypatch.setattr(view.seccomp, "supported", lambda: False)
    with pytest.raises(
        SandboxError, match=r"no sandbox is possible here \(bubblewrap: .*; landlock: .*docs/sandbox.md"
    ):
        SandboxPool(1)


def test_root_needs_an_interpreter_that_others_can_run(fresh, monkeypatch):
    monkeypatch.setattr(view, "unprivileged", lambda: view.NOBODY)
    monkeypatch.setattr(view, "_open_to_all", lambda path: False)
    with pytest.raises(SandboxError, match="for root the sandbox runs programs as user 65534"):
        SandboxPool(1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to drop to another user")
@pytest.mark.parametrize("mode", ["bubblewrap", "landlock", "unsafe"])
def test_root_runs_no_program(mode, pools):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PalaverWarning)
        one = pools(mode)
    one.score(*GOOD)
    top = _examiner(one)
    seen = [users for pid in _below(top) - {top} if (users := _users(pid))]
    assert seen
    assert all(users == {str(view.NOBODY)} for users in seen), seen


def test_unsafe_is_asked_for_and_warned_of(monkeypatch):
    with pytest.warns(PalaverWarning, match="unconfined"), SandboxPool(1, "unsafe") as one:
        assert one.score(*GOOD).mode == "unsafe"
    monkeypatch.setenv(pool.VARIABLE, "unsafe")
    with pytest.warns(PalaverWarning, match="unconfined"):
        SandboxPool(1)


@pytest.mark.parametrize(
    ("arguments", "message"), [({"mode": "docker"}, "got 'docker'"), ({"size": 0}, "at least 1 worker, got 0")]
)
def test_mistakes(arguments, message):
    with pytest.raises(ConfigError, match=message):
        SandboxPool(**arguments)


def test_a_mistake_in_the_environment_variable(monkeypatch):
    monkeypatch.setenv(pool.VARIABLE, "doker")
    with pytest.raises(ConfigError, match="got 'doker'"):
        SandboxPool(1)


# --- what the machine can do ---------------------------------------------------------------------


def test_probe():
    found = {ability.mode: ability for ability in view.probe()}
    assert list(found) == ["bubblewrap", "landlock"]
    works = [mode for mode, ability in found.items() if ability.works]
    with SandboxPool(1) as one:
        assert one.score(*GOOD).mode == works[0]
    assert all("Python 3." in ability.detail for ability in found.values() if ability.works)


def test_probe_says_why_not(fresh, monkeypatch):
    monkeypatch.setattr(view.shutil, "which", lambda name: None)
    (first, *_) = view.probe()
    assert (first.works, first.detail) == (
        False, "bwrap is not installed (Debian, Ubuntu: apt-get install bubblewrap)",
    )  # fmt: skip
