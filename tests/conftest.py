"""What tests in more than one wing use."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def pool():
    """A process of the Pokémon simulator; a test that needs one is skipped where there is none, and says why."""
    from palaver.envs.pokemon.showdown import Pool, ShowdownError

    try:
        made = Pool(1)
    except ShowdownError as error:
        pytest.skip(str(error))
    with made:
        yield made
