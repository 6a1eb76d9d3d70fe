"""The table of docs/sandbox.md, "What it stops", and the tests that it names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.envs.sandbox import ways_out
from tests.envs.sandbox.attacks import ATTACKS

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "sandbox.md"
_NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


def _section():
    return PAGE.read_text().split("## What it stops\n")[1].split("\n## ")[0]


def _rows():
    lines = [line for line in _section().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def _tests(file):
    return {node.name for node in ast.parse((HERE / file).read_text()).body if isinstance(node, ast.FunctionDef)}


def test_every_line_names_a_test_that_exists():
    named: list[tuple[str, str]] = []
    for what, *modes, shown in _rows():
        assert len(modes) == 2, what
        named = named if shown == "the same" else _NAMED.findall(shown)
        assert named, what
    for file, name in _NAMED.findall(PAGE.read_text()):
        assert name in _tests(file), f"{file}::{name}"


def test_every_test_of_confinement_is_named():
    named = set(_NAMED.findall(_section()))
    for file in ("test_ways_out.py", "test_confinement.py", "test_time.py"):
        assert {(file, name) for name in _tests(file) if name.startswith("test_")} <= named


def test_every_section_of_attacks_has_a_line():
    lines = [what.removeprefix("attacks: ") for what, *_ in _rows() if what.startswith("attacks: ")]
    assert sorted(lines) == sorted({attack.section for attack in ATTACKS})


def test_the_numbers_are_right():
    assert f"each of the {len(ATTACKS)} attacks" in _section()
    assert f"({len(ways_out.WAYS)} ways)" in _section()
