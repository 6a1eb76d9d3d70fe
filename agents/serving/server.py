"""Running the application: in the foreground until Ctrl-C, or in a background thread.

uvicorn has no deadline for the head of a request, so its protocol gets one here.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from palaver.core import PolicyError

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


GRACE = 5  # seconds that requests under way have when the server ends


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Raises:
        PolicyError: the address is taken, or not of this machine.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise PolicyError(f"cannot listen at {host}:{port}: {error.strerror or error}; try --port 0") from error


def url(listening: socket.socket) -> str:
    """The base URL for clients, `/v1` included."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def run(app: Starlette, listening: socket.socket) -> None:
    """Serve until Ctrl-C.

    Ctrl-C is raised as KeyboardInterrupt after the grace period of requests under way.
    """
    _server(app).run([listening])


@contextmanager
def serving(app: Starlette, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve in a thread; yields the base URL."""
    listening = listen(host, port)
    server = _server(app)
    thread = threading.Thread(target=server.run, args=([listening],), name="palaver-serve", daemon=True)
    thread.start()
    try:
        yield url(listening)
    finally:
        server.should_exit = True
        thread.join(4 * GRACE)  # a daemon: what still hangs then ends with this process
        listening.close()


def _server(app: Starlette) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            timeout_graceful_shutdown=GRACE,
            server_header=False,
            ws="none",
            http=DeadlineProtocol,
            h11_max_incomplete_event_size=1 << 16,
        )
    )
