"""Commands where extras are not installed: each does its work, or ends with one line that names an extra."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata

import pytest
import typer
from packaging.requirements import Requirement

from palaver.cli.app import app
from palaver.core import EXTRAS, ConfigError, PolicyError, need
from palaver.trainers.config.loading import load
from tests import calls
from tests import extras as runner
from tests.calls import CALLS, CORE, PROJECT, ROOT, Call, extras, judged

HERE = [call for call in CALLS if not call.simulator]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _with_dependencies(names: list[str]) -> set[str]:
    """Distributions that pip installs for these requirements, of those that are installed here."""
    found: set[str] = set()
    queue = [Requirement(name) for name in names]
    while queue:
        requirement = queue.pop()
        extra = {"extra": next(iter(requirement.extras), "")}
        name = _canonical(requirement.name)
        if name not in found and (not requirement.marker or requirement.marker.evaluate(extra)):
            found.add(name)
            try:
                queue += map(Requirement, metadata.requires(name) or ())
            except metadata.PackageNotFoundError:
                continue
    return found


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Call -> exit code and stderr, in a process that sees the packages of core alone."""
    folder = tmp_path_factory.mktemp("core")
    calls.prepare(folder)
    core = _with_dependencies(PROJECT["dependencies"])
    hidden = [
        package
        for package, owners in metadata.packages_distributions().items()
        if not {*map(_canonical, owners)} & {*core, "palaver"}
    ]
    assert {"torch", "jinja2", "psutil"} <= set(hidden)
    done = subprocess.run(
        [sys.executable, "-P", str(ROOT / "tests/hidden.py")],
        input=json.dumps({"hidden": hidden, "calls": [shlex.split(call.text) for call in HERE]}),
        cwd=folder, env={**os.environ, "COLUMNS": "200"}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(zip((call.text for call in HERE), map(tuple, json.loads(done.stdout)), strict=True))


def test_with_core_alone_every_command_works_or_names_an_extra(ended):
    wrong = {}
    for call in HERE:
        code, err = ended[call.text]
        word, right = judged(call, code, err, extras()[CORE])
        if not right:
            wrong[call.text] = f"{word}: {err[-500:]}"
    assert wrong == {}


def test_the_page_lists_the_extras_of_each_command(ended):
    """Those that calls without them ask for; a cell may name others, as of players or data in files."""
    _, _, section = (ROOT / "docs/commands.md").read_text(encoding="utf-8").partition("\n## Extras\n")
    listed = {}
    for row in re.findall(r"^\| (`.+?) \| (.+) \|$", section.partition("\n## ")[0], re.MULTILINE):
        for command in re.findall(r"`([a-z -]+)`", row[0]):
            listed[command] = set(re.findall(r"`([a-z-]+)`", row[1])) & extras().keys()
    asked: dict[str, set[str]] = {command: set() for command in listed}
    for text, (_, err) in ended.items():
        command = max((c for c in listed if f"{text} ".startswith(f"{c} ")), key=len, default="")
        assert command or text == "--version", f"docs/commands.md#extras has no row of {text!r}"
        asked.setdefault(command, set()).update(calls.NAMED.findall(err))
    assert {c: names for c, names in asked.items() if not names <= listed.get(c, set())} == {}
    assert {c: names for c, names in listed.items() if names and not asked[c] and not c.startswith("pokemon")} == {}


def _commands(command: typer.core.TyperCommand, path: tuple[str, ...] = ()) -> Iterator[str]:
    names = list(getattr(command, "commands", ()))
    if not names:
        yield " ".join(path)
    for name in names:
        yield from _commands(command.commands[name], (*path, name))


def test_every_command_is_called():
    texts = [f"{call.text} " for call in CALLS]
    commands = _commands(typer.main.get_command(app))
    assert [command for command in commands if not any(text.startswith(f"{command} ") for text in texts)] == []


@pytest.mark.parametrize("command", ["train", "results sweep"])
def test_the_recipes_that_are_called_exist(command):
    """Without the extra a call ends before its recipe is read."""
    named = [call.text.removeprefix(command).split()[:1] for call in CALLS if call.text.startswith(f"{command} ")]
    assert named
    for name, *_ in named:
        load(name)


def test_the_modules_of_an_extra_are_what_it_installs():
    owners = {package: {*map(_canonical, names)} for package, names in metadata.packages_distributions().items()}
    for extra, modules in EXTRAS.items():
        required = {
            _canonical(Requirement(line).name)
            for part in extras()[extra]
            for line in PROJECT["optional-dependencies"][part]
        } - {"palaver"}
        for module in modules:
            assert owners.get(module, {_canonical(module)}) & required, module
        assert len(required) == len(set(modules)), extra


def test_one_line_names_what_is_missing(monkeypatch):
    need("this", "judge", "json")
    monkeypatch.setitem(sys.modules, "tenacity", None)
    with pytest.raises(ConfigError, match=r"^this needs tenacity; install it with: pip install 'palaver\[judge\]'$"):
        need("this", "judge")
    with pytest.raises(PolicyError, match="needs tenacity"):
        need("this", "judge", "tenacity", error=PolicyError)


@pytest.mark.parametrize(
    ("code", "err", "expected"),
    [
        (0, "", ("ok", True)),
        (2, "error: x needs torch; install it with: pip install 'palaver[train]'", ("needs train", True)),
        (2, "note\nerror: x needs openai; pip install 'palaver[judge]'", ("needs judge", False)),
        (2, "error: nobody listens", ("refused", True)),
        (2, "error: something else", ("refused", False)),
        (2, "error: nobody listens\nerror: twice", ("exit 2", False)),
        (1, "", ("exit 1", False)),
        (1, "Traceback (most recent call last):\nKeyError", ("traceback", False)),
    ],
)
def test_ends_of_calls(code, err, expected):
    assert judged(Call("x", refusal="nobody listens"), code, err, frozenset({"judge"})) == expected


def test_the_runner_ends_a_server_and_what_has_no_end(tmp_path):
    wait = "import time; print('listening', flush=True); time.sleep(60)"
    assert runner._ended([sys.executable, "-c", wait], tmp_path, "listening") == (0, "")
    code, err = runner._ended([sys.executable, "-c", wait], tmp_path, "", limit=0.5)
    assert (code, "no end after 0.5 s" in err) == (124, True)
    assert runner._ended([sys.executable, "-c", "raise SystemExit('error: no')"], tmp_path, "") == (1, "error: no\n")


def test_the_table_of_the_runner_marks_what_is_wrong():
    outcomes = [
        runner.Outcome("core", "envs", "ok", True, ""),
        runner.Outcome("core", "train", "traceback", False, "Traceback ..."),
        runner.Outcome("train", "envs", "ok", True, ""),
        runner.Outcome("train", "train", "ok", True, ""),
    ]
    assert [line.split() for line in runner.table(outcomes).splitlines()] == [
        ["core", "train", "call"], ["ok", "ok", "envs"], ["traceback!", "ok", "train"],
    ]  # fmt: skip
    assert set(runner.UNPINNED) | set(runner.LEFT_OUT) <= extras().keys()
