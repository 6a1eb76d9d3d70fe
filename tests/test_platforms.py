"""Commands on a system without what only POSIX systems have."""

from __future__ import annotations

import subprocess
import sys

import pytest

# modules and functions that Windows lacks are taken away, after what the libraries use them for on this system
WITHOUT = """
import asyncio, multiprocessing, os, platform, shutil, signal, subprocess, sys, tempfile
for library in ("psutil", "torch", "httpx", "transformers.cache_utils"):
    try:
        __import__(library)
    except ImportError:
        pass
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog"):
    sys.modules[name] = None
for name in ("fork", "killpg", "getuid", "geteuid", "getgid", "setsid", "getpgid", "uname", "mkfifo", "getloadavg",
             "sched_getaffinity", "sched_setaffinity"):
    vars(os).pop(name, None)
for name in ("SIGHUP", "SIGALRM", "SIGUSR1"):
    vars(signal).pop(name, None)
platform.system = lambda: "Windows"
"""
WORKS = """
import palaver
from palaver.cli.app import main
for id in palaver.specs():
    palaver.make(id).reset(seed=0)
for line in ("envs", "play arxiv-v0", "evaluate arxiv-v0 --team random -n 2 --out episodes.jsonl", "doctor",
             "view episodes.jsonl --out page.html", "train arxiv-magrpo train.steps=1 eval.n=1 --out run"):
    try:
        main(line.split())
    except SystemExit as end:
        assert end.code in (None, 0) or line == "doctor", (line, end.code)
"""
HELPS = """
import typer
from palaver.cli.app import app, main
def walk(command, path):
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, [*path, name])
helped = 0
for path in walk(typer.main.get_command(app), []):
    try:
        main([*path, "--help"])
    except SystemExit as end:
        assert end.code in (None, 0), path
        helped += 1
assert helped > 40, helped
"""
CONFINES = """
from palaver.cli.app import main
main(["evaluate", "mbpp-v0", "--team", "scripted:reference", "-n", "1"])
"""


def run(code, folder):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code], cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.slow
def test_environments_are_made_played_evaluated_and_trained_in(tmp_path):
    ran = run(WORKS, tmp_path)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert (tmp_path / "run" / "report.html").exists()
    assert (tmp_path / "page.html").exists()


def test_every_command_has_its_help(tmp_path):
    ran = run(HELPS, tmp_path)
    assert ran.returncode == 0, ran.stderr[-3000:]


def test_programs_are_not_run_unconfined(tmp_path):
    ran = run(CONFINES, tmp_path)
    assert ran.returncode == 2
    assert "on Windows run Palaver in WSL" in ran.stderr
    assert "Traceback" not in ran.stderr
