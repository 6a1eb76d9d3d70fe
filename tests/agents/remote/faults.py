"""A real HTTP server on loopback that answers by a script: one step a request, the last one for ever."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Step = Callable[["Handler"], None]


def completion(text: str | None = "fine", **changes: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return {"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage} | changes


def reply(body: Any = None, status: int = 200, **headers: str) -> Step:
    content = body if isinstance(body, bytes) else json.dumps(completion() if body is None else body).encode()

    def step(handler: Handler) -> None:
        handler.send(status, content, len(content), headers)

    return step


def error(status: int, message: str = "no", code: str | None = None, **headers: str) -> Step:
    return reply({"error": {"message": message, "code": code, "type": "x", "param": None}}, status, **headers)


def half(handler: Handler) -> None:
    """Half of a reply, then the connection is cut."""
    content = json.dumps(completion("a long answer")).encode()
    handler.send(200, content[: len(content) // 2], len(content), {})
    handler.close_connection = True


def cut(handler: Handler) -> None:
    """Not one byte."""
    handler.close_connection = True


def silent(handler: Handler) -> None:
    """Nothing until the server ends."""
    handler.server.over.wait(30)
    handler.close_connection = True


def drip(handler: Handler) -> None:
    """A byte now and then, for ever: no gap is as long as a time limit."""
    handler.send(200, b"", 1_000_000, {})
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b" ")
    handler.close_connection = True


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: FaultServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.body = body
        step = self.server.take(body, dict(self.headers.items()))
        try:
            step(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def send(self, status: int, content: bytes, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json"} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        pass


class FaultServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *steps: Step) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.steps = list(steps)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.over = threading.Event()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def take(self, body: dict[str, Any], headers: dict[str, str]) -> Step:
        with self._lock:
            self.bodies.append(body)
            self.headers.append({name.lower(): value for name, value in headers.items()})
            return self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]


@contextmanager
def faults(*steps: Step) -> Iterator[FaultServer]:
    server = FaultServer(*(steps or (reply(),)))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join(60)
