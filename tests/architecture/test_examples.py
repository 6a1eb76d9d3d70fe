"""The examples in docstrings are what the code does."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.architecture.source import ROOT, files, module

WITH_EXAMPLES = [module(path) for path in files() if ">>> " in (ROOT / path).read_text(encoding="utf-8")]


def test_there_are_examples():
    assert {"palaver.text", "palaver.envs.base.env", "palaver.benchmarks.reports.summary"} <= set(WITH_EXAMPLES)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples(name, capsys):
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0, capsys.readouterr().out
    assert found.attempted > 0
