"""These tests start engines of vLLM: `make test-vllm` runs them, in an environment of its own."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MISSING = importlib.util.find_spec("vllm") is None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.vllm)
            if MISSING:
                item.add_marker(pytest.mark.skip(reason="vllm is not installed; make test-vllm installs it"))
