"""Servers of pages on this machine alone: a free port of the loopback, behind a secret path.

A request must name this server in its `Host` header, which a page of another site cannot do even if its name was bound
to this address, and must carry the secret path; all others are refused.
"""

from __future__ import annotations

import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

LOOPBACK = "127.0.0.1"


class LoopbackServer(ThreadingHTTPServer):
    """Server of one page; it serves inside a `with` block.

    Args:
        handler: of its requests.

    Attributes:
        token: the secret part of every path.
        host: name and port, as requests must give them.
        address: of the page.
    """

    daemon_threads = True

    def __init__(self, handler: type[PageHandler]) -> None:
        super().__init__((LOOPBACK, 0), handler)
        self.token = secrets.token_urlsafe(16)
        self.host = f"{LOOPBACK}:{self.server_address[1]}"
        self.address = f"http://{self.host}/{self.token}/"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self._thread.join(timeout=10)
        self.server_close()


class PageHandler(BaseHTTPRequestHandler):
    """Base of handlers: requests without the secret path, or to another host, are refused.

    Attributes:
        route: the path after the secret, without a query.
        query: the query.
    """

    server: LoopbackServer
    timeout = 30
    route = query = ""

    def parse_request(self) -> bool:
        """Return whether a request is to be answered; refuse it if not."""
        if not super().parse_request():
            return False
        path, _, self.query = self.path.partition("?")
        prefix = f"/{self.server.token}/"
        named = secrets.compare_digest(path[: len(prefix)].encode(), prefix.encode())
        if self.headers.get_all("Host") != [self.server.host] or not named:
            self.send_error(403)
            return False
        self.route = path[len(prefix) :]
        return True

    def send(self, kind: str, text: str, policy: str = "frame-ancestors 'none'", code: int = 200) -> None:
        """Answer with a text.

        Args:
            kind: its media type.
            text: the body.
            policy: the content security policy.
            code: the status.
        """
        body = text.encode()
        self.begin(kind, policy, code, {"Content-Length": str(len(body))})
        self.wfile.write(body)

    def begin(self, kind: str, policy: str, code: int, more: dict[str, str]) -> None:
        """Send status and headers of an answer."""
        self.send_response(code)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Cache-Control": "no-store",
            "Content-Security-Policy": policy,
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            **more,
        }.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing: the terminal shows the address, and a training may run in it."""
