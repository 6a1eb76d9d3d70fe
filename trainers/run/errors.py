"""What stops a run in the middle."""

from __future__ import annotations

from collections.abc import Sequence

from palaver.core import PalaverError


class NumericalError(PalaverError):
    """A loss or gradient that is not finite. Carries the rows at fault."""

    def __init__(self, message: str, rows: Sequence[int]) -> None:
        super().__init__(message)
        self.rows = list(rows)
