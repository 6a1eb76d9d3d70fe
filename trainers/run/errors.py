"""Errors that stop a run."""

from __future__ import annotations

from collections.abc import Sequence

from palaver.core import PalaverError


class NumericalError(PalaverError):
    """A loss or gradient is not finite, or an engine computes with other weights.

    `rows` are the rows at fault.
    """

    def __init__(self, message: str, rows: Sequence[int]) -> None:
        super().__init__(message)
        self.rows = list(rows)


class DeviceMemoryError(PalaverError):
    """The GPU's memory was not enough."""
