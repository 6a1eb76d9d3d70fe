"""A budget that parallel calls cannot exceed.

Each reserves its worst case before it is sent and settles after.
"""

from __future__ import annotations

import asyncio
import functools
import math
import os

from palaver.agents.remote.wire import CallError
from palaver.core import ConfigError
from palaver.scoring import Cost


class Bell:
    """Wakes those who wait for a budget. Used in one event loop."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        """Until it rings."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def ring(self) -> None:
        """Wake all who wait."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class Budget:
    """Most dollars and tokens, read and written together, that calls may cost.

    Changed in one event loop only; `spent` may be read anywhere. A forked child starts with what was spent by then and
    counts for itself.

    Args:
        dollars: most of them; None for no limit.
        tokens: most of them, likewise.
        parent: a budget that must have room as well.
    """

    def __init__(self, dollars: float | None = None, tokens: float | None = None, parent: Budget | None = None) -> None:
        self.dollars, self.tokens = (math.inf if limit is None else limit for limit in (dollars, tokens))
        self.parent = parent
        self.spent = Cost()
        self._bell: Bell = parent._bell if parent else Bell()
        self._reserved = Cost()
        self._pid = os.getpid()

    async def reserve(self, worst: Cost) -> None:
        """Reserve the worst case of a call.

        If there is only room without the calls under way, wait until they settle.

        Raises:
            CallError: there is no room even without them.
        """
        while not all(budget._holds(worst) for budget in self._all()):
            await self._bell.wait()
        for budget in self._all():
            budget._reserved += worst

    def settle(self, worst: Cost, actual: Cost) -> None:
        """Give back the worst case and count what was really spent."""
        for budget in self._all():
            left = budget._reserved + Cost(-worst.prompt_tokens, -worst.completion_tokens, -worst.dollars, -worst.calls)
            budget._reserved = left if left.calls else Cost()  # no rest of rounding stays behind
            budget.spent += actual
        self._bell.ring()

    def _all(self) -> list[Budget]:
        return [self, *(self.parent._all() if self.parent else [])]

    def _holds(self, worst: Cost) -> bool:
        if self._pid != os.getpid():  # the calls of the parent process settle there
            self._pid, self._reserved = os.getpid(), Cost()
        dollars, tokens = self.spent.dollars + worst.dollars, _tokens(self.spent) + _tokens(worst)
        if dollars > self.dollars:
            raise CallError(
                "budget",
                f"${self.spent.dollars:.4f} of ${self.dollars:g} are spent and the call may cost ${worst.dollars:.4f}",
            )
        if tokens > self.tokens:
            raise CallError(
                "budget",
                f"{_tokens(self.spent)} of {self.tokens:.0f} tokens are spent and the call may take {_tokens(worst)}",
            )
        return dollars + self._reserved.dollars <= self.dollars and tokens + _tokens(self._reserved) <= self.tokens


@functools.cache
def purse() -> Budget:
    """The budget of this process, for all remote calls together.

    It is set by `PALAVER_DOLLARS` and `PALAVER_TOKENS`, and unlimited if they are not set.

    Raises:
        ConfigError: one of them is no number of 0 or more.
    """
    return Budget(_limit_from_environment("PALAVER_DOLLARS"), _limit_from_environment("PALAVER_TOKENS"))


def _limit_from_environment(variable: str) -> float:
    text = os.environ.get(variable, "").strip() or "inf"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise ConfigError(f"{variable} must be a number of 0 or more, got {text!r}")
    return value


def _tokens(cost: Cost) -> int:
    return cost.prompt_tokens + cost.completion_tokens
