from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.trainers.toys import forget_toy


@pytest.fixture(scope="module", autouse=True)
def _toys_are_forgotten() -> Iterator[None]:
    yield
    forget_toy()
