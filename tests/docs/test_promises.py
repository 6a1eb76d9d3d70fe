"""Every command of the page of promises runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
import urllib.request
from importlib import util
from pathlib import Path

import pytest

from tests.architecture.running import started
from tests.architecture.source import ROOT

PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
COMMANDS = dict(re.findall(r"^\| (.+?) \| `(.+)` \|$", PAGE, re.MULTILINE))
PORT = 8099


def test_each_library_and_algorithm_has_a_promise():
    text = PAGE.lower()
    libraries = (
        "pettingzoo",
        "gymnasium",
        "transformers",
        "trl",
        "accelerate",
        "peft",
        "openai",
        "datasets",
        "poke-env",
        "textarena",
    )
    algorithms = ("magrpo", "iac", "maac", "ippo", "mappo", "happo", "cory", "vdn", "qmix")
    assert [name for name in (*libraries, *algorithms) if name not in text] == []


def test_each_row_has_a_command_that_is_run():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and line != "| promise | command |"]
    assert len(COMMANDS) == len(rows) >= 34


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder that the commands run in, in the order of the page."""
    return tmp_path_factory.mktemp("promises")


def _wait(url: str) -> None:
    for _ in range(240):
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except OSError:
            time.sleep(0.25)
        else:
            return
    raise TimeoutError(url)


def _run(command: str, folder: Path) -> None:
    program, *arguments = shlex.split(command)
    own = {"python": [sys.executable], "palaver": [sys.executable, "-m", "palaver"]}
    command_line = [*own.get(program, [str(Path(sys.executable).with_name(program))]), *arguments]
    done = subprocess.run(command_line, cwd=folder, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_every_command_runs(folder, request):
    failed = {}
    for promise, command in COMMANDS.items():
        if "poke-env" in command and util.find_spec("poke_env") is None:
            continue
        if "pokemon" in command or "gen1ou" in command:
            try:
                request.getfixturevalue("pool")
            except pytest.skip.Exception:
                continue
        try:
            if "openai:" in command:
                serve = ["-m", "palaver", "serve", "scripted:reference", "--env", "echo-v0", "--name", "reference"]
                with started([sys.executable, *serve, "--port", str(PORT)], cwd=folder):
                    _wait(f"http://127.0.0.1:{PORT}/v1/models")
                    _run(command, folder)
            else:
                _run(command, folder)
        except (AssertionError, subprocess.TimeoutExpired, TimeoutError) as error:
            failed[promise] = f"{command}: {error}"
    assert failed == {}, "\n\n".join(failed.values())
