"""The other process of a check: one at a time, none below it, in bounded time, never longer than its parent."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import textwrap
import threading
import time

import psutil
import pytest

from palaver.envs.base import checks
from tests.architecture.source import ROOT
from tests.docs.watch import watched

ENV = """
    import json, os, sys, time
    from palaver.envs.base.env import StepResult, TextEnv
    from palaver.envs.base.checks import PARENT, check, check_processes
    from palaver.envs.base.tasks import Task

    class Env(TextEnv):
        metadata = {**TextEnv.metadata, "name": "env_v0"}
        def __init__(self):
            super().__init__(["a"], [Task("t", {})])
        def initial_observations(self, task):
            return {"a": "go"}
        def transition(self, actions):
            return StepResult({"a": {"x": 1.0}}, terminated=True)
"""
HANGS = """
    if PARENT in os.environ:
        with open("child", "w") as file:
            file.write(str(os.getpid()))
        os.rename("child", "child.pid")
        HOW
"""
SLEEPS = "time.sleep(600)"
KEEPS_THE_INTERPRETER = "sum(range(10**12))"  # in C: no other thread of this process runs


def write(folder, name, *parts):
    (folder / f"{name}.py").write_text("".join(textwrap.dedent(part) for part in parts))


def variables():
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def module(tmp_path, monkeypatch, request):
    """Import a module of these parts, under a name of its own."""
    name = f"palaver_{request.node.name.partition('[')[0]}"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    def made(*parts):
        write(tmp_path, name, ENV, *parts)
        return importlib.import_module(name)

    yield made
    sys.modules.pop(name, None)


@pytest.mark.slow  # tests/docs has a quick one
@pytest.mark.parametrize("call", ["check(Env)", "check_processes(Env)"])
def test_a_check_in_an_imported_module_starts_one_child_and_that_one_none(tmp_path, call):
    write(tmp_path, "checked", ENV, call)
    found = watched([sys.executable, "-c", "import checked; print('imported')"], tmp_path, variables(), 120)
    assert (found.fault, found.code, found.out) == ("", 0, "imported\n")
    assert found.most == 2  # the process that imports, and one child


def test_the_check_still_compares_in_the_child(tmp_path):
    write(tmp_path, "checked", ENV.replace('"go"', "str(PARENT in os.environ)"), "check(Env)")
    found = watched([sys.executable, "-c", "import checked"], tmp_path, variables(), 120)
    assert found.code == 1
    assert "PYTHONHASHSEED=1: the transcripts differ at step 0" in found.out


def test_what_a_module_prints_is_no_part_of_the_answer(module):
    checks.check(module("print('imported', flush=True)", "\nos.system('echo imported')").Env)


def test_a_child_that_ends_early_breaks_the_rule(module):
    made = module("if PARENT in os.environ:\n    sys.exit(0)")
    with pytest.raises(AssertionError, match="another process ended before the episode did"):
        checks.check_processes(made.Env)


@pytest.mark.parametrize("how", [SLEEPS, pytest.param(KEEPS_THE_INTERPRETER, marks=pytest.mark.slow)])
def test_a_child_that_hangs_breaks_the_rule_and_is_ended(module, monkeypatch, tmp_path, how):
    made = module(HANGS.replace("HOW", how))
    monkeypatch.setattr(checks, "CHILD_S", 1.5)
    with pytest.raises(AssertionError, match=r"another process did not play one episode within \d+ seconds"):
        checks.check_processes(made.Env)
    if (tmp_path / "child.pid").exists():  # it does on a machine that imports it in that time
        assert not psutil.pid_exists(int((tmp_path / "child.pid").read_text()))


@pytest.mark.parametrize(
    ("how", "child_s"), [(SLEEPS, 120), pytest.param(KEEPS_THE_INTERPRETER, 15, marks=pytest.mark.slow)]
)
def test_the_child_ends_with_its_parent(tmp_path, how, child_s):
    write(tmp_path, "checked", ENV, HANGS.replace("HOW", how))
    code = (
        f"from palaver.envs.base import checks; import checked; checks.CHILD_S = {child_s}; checks.check(checked.Env)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=variables())
    try:
        until = time.monotonic() + 60
        while not (tmp_path / "child.pid").exists() and time.monotonic() < until:
            time.sleep(0.02)
        child = psutil.Process(int((tmp_path / "child.pid").read_text()))
    finally:
        parent.kill()
        parent.wait(10)
    try:
        # with the interpreter kept, its own limit ends it: that of the parent and five seconds
        gone, _ = psutil.wait_procs([child], timeout=60)
        assert gone == [child]
    finally:
        if child.is_running():
            child.kill()


def test_two_threads_have_one_child_at_a_time(module, tmp_path):
    made = module(
        """
        if PARENT in os.environ:
            import atexit
            def note(what):
                with open("notes", "a") as file:
                    file.write(json.dumps([what, os.getpid()]) + "\\n")
            note("begins")
            atexit.register(note, "ends")
        """
    )
    threads = [threading.Thread(target=checks.check_processes, args=(made.Env,)) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    notes = [json.loads(line) for line in (tmp_path / "notes").read_text().splitlines()]
    assert [what for what, _ in notes] == ["begins", "ends"] * 4
    assert [notes[n][1] == notes[n + 1][1] for n in range(0, 8, 2)] == [True] * 4
