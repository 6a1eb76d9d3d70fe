"""HTTP/1.1 of uvicorn with a deadline for the head of a request.

uvicorn itself has none.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 20.0  # from the connection, or the end of the last response, to the last byte of a head


class DeadlineProtocol(H11Protocol):
    """Closes a connection whose next request has no complete head within `HEAD_SECONDS`.

    The deadline runs from the connection, or from the end of a response, until the application is called: bytes that
    trickle in do not move it. The rest of a body that no one reads, because its request was refused, falls under it
    too. While the application has a request there is no deadline here: it limits the time of a body itself.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline of the first head."""
        super().connection_made(transport)
        self._update()

    def data_received(self, data: bytes) -> None:
        """End the deadline where these bytes complete a head."""
        super().data_received(data)
        self._update()

    def on_response_complete(self) -> None:
        """Start the deadline of the next head, unless it has come already."""
        super().on_response_complete()
        self._update()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the deadline."""
        super().connection_lost(exc)
        self._stop()

    def _update(self) -> None:
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering or self.transport.is_closing():
            self._stop()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._late)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        """Close the connection; half a head gets a 408 first."""
        if self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            reply: list[Any] = [
                h11.Response(status_code=408, headers=[("Connection", "close"), ("Content-Length", "0")]),
                h11.EndOfMessage(),
            ]
            self.transport.write(b"".join(self.conn.send(event) or b"" for event in reply))
        self.transport.close()
