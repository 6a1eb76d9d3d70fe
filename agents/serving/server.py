"""Running the application: in the foreground until Ctrl-C, or in a background thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

from palaver.agents.serving.deadline import DeadlineProtocol
from palaver.core import PolicyError

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
