"""The layout of ARCHITECTURE section 2: links, no packages at the top, what is shipped, what is declared."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import tomllib
from importlib import metadata, resources

import pytest
from packaging.requirements import Requirement

import palaver
from tests.architecture.running import run
from tests.architecture.source import ROOT, WINGS, tree

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {"demo", "train", "pokemon", "judge", "ray", "vllm", "dev", "all"}
PINS = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]


@pytest.mark.parametrize("wing", WINGS)
def test_wings_are_relative_links(wing):
    link = ROOT / "palaver" / wing
    assert link.is_symlink()
    assert os.readlink(link) == f"../{wing}"
    assert not (ROOT / wing / "__init__.py").exists()


@pytest.mark.parametrize("links", ["missing", "text files"])
def test_a_checkout_without_links_works(tmp_path, links):
    """As git makes it where links are not allowed: left out, or a file that holds the link's target."""
    shutil.copytree(ROOT / "palaver", tmp_path / "palaver", symlinks=True, ignore=shutil.ignore_patterns(*WINGS))
    for wing in WINGS:
        (tmp_path / wing).symlink_to(ROOT / wing)
        if links == "text files":
            (tmp_path / "palaver" / wing).write_text(f"../{wing}")
    code = (
        "import palaver, palaver.agents.base.policy; from palaver.utils.config import recipes;"
        "print(palaver.__file__, palaver.make('echo-v0').metadata['name'], 'arxiv-magrpo' in recipes('run'))"
    )
    assert run("-c", code, cwd=tmp_path, path=tmp_path).split() == [
        str(tmp_path / "palaver" / "__init__.py"), "echo_v0", "True",
    ]  # fmt: skip


def test_types_are_shipped():
    assert resources.files("palaver").joinpath("py.typed").is_file()


def test_versions_agree():
    assert palaver.__version__ == PROJECT["version"] == metadata.version("palaver")


def test_public_names_are_listed_and_documented():
    imported = [
        alias.name
        for node in tree((ROOT / "palaver" / "__init__.py").relative_to(ROOT)).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("palaver")
        for alias in node.names
    ]
    assert sorted([*imported, *palaver._LATE]) == palaver.__all__ == sorted(set(palaver.__all__))
    assert [name for name in palaver.__all__ if not getattr(palaver, name).__doc__] == []
    stub = (ROOT / "palaver" / "__init__.pyi").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^from [\w.]+ import (\w+) as \1$", stub, re.MULTILINE)) == palaver.__all__


def test_the_command_is_installed():
    (script,) = metadata.entry_points(group="console_scripts", name="palaver")
    assert PROJECT["scripts"] == {"palaver": script.value}
    assert callable(script.load())


def test_extras():
    assert set(PROJECT["optional-dependencies"]) >= EXTRAS


def test_constraints_are_exact():
    for pin in PINS:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", pin), f"{pin!r} is not NAME==VERSION"
    assert "torch==2.13.0" in PINS


def test_constraints_cover_what_is_declared():
    pinned = {_canonical(name): version for name, version in (pin.split("==") for pin in PINS)}
    for text in [*PROJECT["dependencies"], *(r for e in ("train", "dev") for r in PROJECT["optional-dependencies"][e])]:
        requirement = Requirement(text)
        name = _canonical(requirement.name)
        if name != "palaver":
            assert name in pinned, f"{name} is not in constraints.txt"
            assert requirement.specifier.contains(pinned[name]), f"{text} against {name}=={pinned[name]}"


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_ci_runs_the_test_command():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().rstrip().endswith("exec make test")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("goal", ["demo", "test"])
def test_make_refuses_an_old_python(tmp_path, goal):
    old = tmp_path / "old-python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.1 && exit 0\nexit 1\n')
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "-C", str(ROOT), goal, f"VENV={tmp_path / 'venv'}", f"PYTHON={old}"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stderr
    assert "Python 3.9.1" in done.stderr
    assert not (tmp_path / "venv").exists()
