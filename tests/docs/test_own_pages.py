"""The pages of the user's own parts: their commands run, and their figures are those of the kept runs."""

from __future__ import annotations

import json
import re
import shlex
import statistics

import pytest
from scipy import stats

from tests.architecture.running import run
from tests.architecture.source import ROOT
from tests.docs.blocks import fences, python

DOCS = ROOT / "docs"
PAGES = {"own-environment": "crossing", "own-algorithm": "median", "own-reward": "convention", "own-policy": "partner"}
RUNS = json.loads((DOCS / "runs" / "own" / "results.json").read_text(encoding="utf-8"))["runs"]


def figure(kind: str, key: str) -> str:
    values = [one["after"][key] for one in RUNS if one["page"] == kind]
    assert len(values) == 10
    mean = statistics.mean(values)
    half = float(stats.t.ppf(0.975, 9)) * statistics.stdev(values) / 10**0.5
    return f"{mean:.3f} [{mean - half:.3f}, {min(1, mean + half):.3f}]"


@pytest.mark.parametrize(
    ("page", "figures"),
    [
        ("own-environment", [("environment", "passed")]),
        ("own-algorithm", [("algorithm", "passed"), ("environment", "passed")]),
        (
            "own-reward",
            [("reward", "passed"), ("environment", "passed"), ("reward", "right"), ("environment", "right")],
        ),
        ("own-policy", [("policy", "passed")]),
    ],
)
def test_figures(page, figures):
    text = " ".join((DOCS / f"{page}.md").read_text(encoding="utf-8").split())
    assert re.findall(r"\d\.\d{3} \[[^]]+\]", text) == [figure(*one) for one in figures]
    first = figures[0][0]
    before = statistics.mean(one["before"]["passed"] for one in RUNS if one["page"] == first)
    assert page == "own-reward" or f"from {before:.3f} to" in text


def write_files(folder):
    """Save all files that the pages show."""
    for page, name in PAGES.items():
        blocks = [block.code for block in python(DOCS / f"{page}.md")]
        if name == "crossing":
            imports = [line for line in blocks[0].splitlines() if line.startswith(("from ", "import "))]
            blocks = ["\n".join(imports), blocks[1]]
        (folder / f"{name}.py").write_text("\n\n\n".join(blocks), encoding="utf-8")
    (recipe,) = [block.code for block in fences(DOCS / "own-environment.md") if block.info == "yaml"]
    (folder / "crossing.yaml").write_text(recipe, encoding="utf-8")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The working folder of somebody who saved all files that the pages show."""
    folder = tmp_path_factory.mktemp("own")
    write_files(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_commands(files, page):
    commands = [
        line
        for block in fences(DOCS / f"{page}.md")
        if block.info == "bash"
        for line in block.code.splitlines()
        if "human" not in line
    ]
    assert len(commands) >= 2
    for command in commands:
        written = run("-m", *shlex.split(command), cwd=files, path=ROOT)
        if command.startswith("palaver evaluate"):
            mean = re.search(r"mean reward +([\d.]+)", written)
            assert mean is not None, written
            assert float(mean[1]) > (1.2 if page == "own-reward" else 0.8)
