from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.trainers.toys import forget_toy

THREADS = torch.get_num_threads()


@pytest.fixture(scope="module", autouse=True)
def _toys_are_forgotten() -> Iterator[None]:
    yield
    forget_toy()


@pytest.fixture(autouse=True)
def _threads_are_kept() -> Iterator[None]:
    """A recipe sets `threads` for the whole process, so for the tests after it too."""
    torch.set_num_threads(THREADS)
    yield
    torch.set_num_threads(THREADS)
