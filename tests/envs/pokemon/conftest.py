"""Battles need Node.js and the simulator; where they are missing, what needs them is skipped with the reason."""

from __future__ import annotations

import pytest

from palaver.envs.pokemon.showdown import Pool, ShowdownError


@pytest.fixture(scope="session")
def pool():
    try:
        made = Pool(1)
    except ShowdownError as error:
        pytest.skip(str(error))
    with made:
        yield made
