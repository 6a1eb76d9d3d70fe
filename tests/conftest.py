"""What tests in more than one wing use."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

# A background job or nohup starts us with these ignored, which every process of a test would inherit.
for _number, _default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _default)

settings.register_profile("palaver", deadline=None)  # how long an example takes says how busy the machine is
settings.load_profile("palaver")


@pytest.fixture(scope="session")
def pool():
    """A process of the Pokémon simulator; a test that needs one is skipped where there is none, and says why."""
    from palaver.envs.pokemon.showdown import BattlePool, ShowdownError

    try:
        made = BattlePool(1)
    except ShowdownError as error:
        pytest.skip(str(error))
    with made:
        yield made
