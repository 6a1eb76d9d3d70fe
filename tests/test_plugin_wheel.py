"""Palaver and the sample plug-in as wheels in a new environment: from a name to a ranked row of the leaderboard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv

import pytest

from tests.architecture.source import ROOT
from tests.installed import PLUGIN, wheel_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def palaver(tmp_path_factory):
    """Runs the installed `palaver` in an empty folder; other libraries are those of this environment."""
    folder = tmp_path_factory.mktemp("clean")
    wheels = [wheel_of(ROOT, folder / "own"), wheel_of(PLUGIN, folder / "plugin")]
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    site = folder / "venv" / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", *wheels]
    done = subprocess.run(install, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    libraries = [path for path in sys.path if path.endswith("-packages")]
    (site / "libraries.pth").write_text("\n".join(libraries) + "\n", encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*arguments):
        command = [python.with_name("palaver"), *arguments]
        ran = subprocess.run(
            command, cwd=folder, env=env | {"COLUMNS": "160"}, capture_output=True, text=True, timeout=240
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    run.folder, run.site = folder, site
    return run


def test_from_a_plug_in_to_a_ranked_row(palaver):
    assert "crossing-v0" in palaver("envs")
    assert "1.000 of 1" in palaver("play", "crossing-v0", "--team", "a1=always:left,a2=scripted:keep-right")
    for name, seed in (("a", 1), ("b", 2)):
        palaver("train", "crossing-median", f"seed={seed}", "--out", f"runs/{name}")
        palaver("evaluate", "crossing-v0", "--team", f"run:runs/{name}", "--row", "rows", "--label", name)
    assert "magrpo-median" in palaver("compare", "runs/a", "runs/b")
    row = json.loads((palaver.folder / "rows" / "crossing-v0--a.json").read_text())
    assert row["commit"] == ""
    assert row["wheel"].startswith("0.1.0-")
    assert not row["wheel"].endswith("+")
    assert row["made_with"]["plugins"] == {"palaver-crossing": "0.1.0"}
    for name in "ab":
        palaver("leaderboard", "submit", f"rows/crossing-v0--{name}.json", "--submitter", "Ann", "--out", "board/rows")
    assert "4 episodes replayed" in palaver("leaderboard", "verify", "board/rows/crossing-v0--a.json")
    assert "2 rows, 0 refused" in palaver("leaderboard", "board/rows")
    assert "Ann (2" in (palaver.folder / "board" / "LEADERBOARD.md").read_text()


def test_changed_files_are_noticed(palaver):
    with (palaver.site / "palaver" / "scoring.py").open("a", encoding="utf-8") as file:
        file.write("\n")
    palaver("evaluate", "crossing-v0", "--team", "always", "--row", "changed", "--label", "c")
    assert json.loads((palaver.folder / "changed" / "crossing-v0--c.json").read_text())["wheel"].endswith("+")
