"""The list of shipped data names every data file of the packages with its origin and licence, and no other."""

from __future__ import annotations

import re
import tomllib
from pathlib import PurePath

from tests.architecture.source import ROOT, WINGS

DATA = {".jsonl", ".json", ".txt", ".safetensors", ".jinja", ".csv", ".parquet", ".gz", ".png"}
TEMPLATES = {".py.txt"}  # scripts and their packages, which are code
LICENCE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["license"]


def listed():
    """Pattern of files -> its origin and licence."""
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    return {pattern: (origin, licence) for pattern, _, origin, licence in rows}


def shipped():
    paths = [path.relative_to(ROOT) for wing in WINGS for path in (ROOT / wing).rglob("*") if path.suffix in DATA]
    return [path for path in paths if not path.name.endswith(tuple(TEMPLATES)) and "node_modules" not in path.parts]


def test_every_file_is_listed():
    assert len(shipped()) > 90
    assert [str(path) for path in shipped() if not any(path.match(pattern) for pattern in listed())] == []


def test_every_row_is_of_a_file():
    assert [pattern for pattern in listed() if not any(PurePath(path).match(pattern) for path in shipped())] == []


def test_origins_and_licences_are_given():
    for pattern, (origin, licence) in listed().items():
        assert re.match(r"(written|generated|trained) for Palaver|written by npm", origin), pattern
        assert licence == LICENCE, pattern
