"""What can go wrong between Palaver and the simulator."""

from __future__ import annotations

from palaver.core import EpisodeLostError, PalaverError


class ShowdownError(PalaverError):
    """The simulator is missing, cannot be started, or was asked for something that does not exist."""


class BattleLostError(ShowdownError, EpisodeLostError):
    """A battle that cannot go on: its process crashed, hung or was killed, or the simulator broke in it."""
