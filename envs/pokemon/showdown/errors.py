"""Errors between Palaver and the simulator."""

from __future__ import annotations

from palaver.core import EpisodeLostError, PalaverError


class ShowdownError(PalaverError):
    """The simulator is missing, cannot be started, or a request is invalid."""


class BattleLostError(ShowdownError, EpisodeLostError):
    """A battle that cannot continue.

    Its process crashed, hung or was killed, or the simulator failed in it.
    """
