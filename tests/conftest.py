"""What tests in more than one wing use."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("palaver", deadline=None)  # how long an example takes says how busy the machine is
settings.load_profile("palaver")


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
