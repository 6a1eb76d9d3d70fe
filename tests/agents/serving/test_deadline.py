"""Half-sent heads: connections that hold them are closed in time, and ordinary requests are answered meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import selectors
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from urllib.parse import SplitResult, urlsplit

import pytest

from palaver.agents.serving import server as deadline
from palaver.agents.serving.app import make_app
from palaver.agents.serving.server import serving
from palaver.agents.simple import EchoPolicy
from palaver.core import Completion, Request

SHORT = 0.3
HALF = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
BODY = b'{"model": "echo", "messages": [{"role": "user", "content": "hello"}]}'


@pytest.fixture(scope="module")
def where() -> Iterator[SplitResult]:
    with serving(make_app({"echo": EchoPolicy()})) as url:
        yield urlsplit(url)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "HEAD_SECONDS", SHORT)


@contextlib.contextmanager
def connected(where: SplitResult, sent: bytes) -> Iterator[socket.socket]:
    with socket.create_connection((where.hostname, where.port), 60) as line:
        line.sendall(sent)
        yield line


def head(where: SplitResult, kind: str = "application/json", length: int = len(BODY)) -> bytes:
    lines = [f"Host: {where.netloc}", f"Content-Type: {kind}", f"Content-Length: {length}"]
    return "\r\n".join(["POST /v1/chat/completions HTTP/1.1", *lines, "", ""]).encode()


def ask(where: SplitResult, connection: http.client.HTTPConnection | None = None) -> int:
    own = connection or http.client.HTTPConnection(where.netloc, timeout=60)
    own.request("POST", "/v1/chat/completions", BODY, {"Content-Type": "application/json"})
    reply = own.getresponse()
    reply.read()
    if connection is None:
        own.close()
    return reply.status


def rest(line: socket.socket) -> bytes:
    """What still comes until the server closes; a reset ends it too."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := line.recv(4096):
            parts.append(part)
    return b"".join(parts)


def trickle(line: socket.socket, piece: bytes, every: float, limit: float) -> float:
    """Seconds until the server closes the connection, which gets a piece again and again."""
    began = time.monotonic()
    line.settimeout(every)
    while time.monotonic() - began < limit:
        try:
            line.sendall(piece)
            if not line.recv(4096):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - began


def closed(lines: list[socket.socket], limit: float) -> int:
    """How many of them the server has closed within the limit."""
    until, count = time.monotonic() + limit, 0
    with selectors.DefaultSelector() as waiting:
        for line in lines:
            line.setblocking(False)
            waiting.register(line, selectors.EVENT_READ)
        while waiting.get_map() and (left := until - time.monotonic()) > 0:
            for key, _ in waiting.select(left):
                assert isinstance(key.fileobj, socket.socket)
                with contextlib.suppress(ConnectionResetError):
                    if key.fileobj.recv(4096):
                        continue
                waiting.unregister(key.fileobj)
                count += 1
    return count


@pytest.mark.parametrize(("sent", "reply"), [(b"", b""), (HALF, b"HTTP/1.1 408"), (b"P", b"HTTP/1.1 408")])
def test_a_connection_without_a_whole_head_is_closed(
    where: SplitResult, short: None, sent: bytes, reply: bytes
) -> None:
    with connected(where, sent) as line:
        assert rest(line)[: len(reply) or 1] == reply


def test_bytes_that_trickle_in_do_not_move_the_deadline(where: SplitResult, short: None) -> None:
    with connected(where, HALF) as line:
        assert SHORT * 0.9 < trickle(line, b"x", SHORT / 10, 20) < 10


def test_the_next_head_on_a_used_connection_has_the_same_deadline(where: SplitResult, short: None) -> None:
    with connected(where, head(where) + BODY) as line:
        while b"hello" not in line.recv(4096):
            pass
        assert trickle(line, b"x", SHORT / 10, 20) < 10


def test_a_refused_request_cannot_hold_its_connection_with_its_body(where: SplitResult, short: None) -> None:
    with connected(where, head(where, "text/plain", 10**6)) as line:
        assert line.recv(4096).startswith(b"HTTP/1.1 415")
        assert trickle(line, b"x", SHORT / 10, 20) < 10


def test_many_half_heads_while_requests_are_answered(where: SplitResult, short: None) -> None:
    with contextlib.ExitStack() as open_:
        lines = [open_.enter_context(connected(where, HALF)) for _ in range(100)]
        assert ask(where) == 200
        assert closed(lines, 20) == 100


def test_an_answer_may_take_longer_than_the_deadline(short: None) -> None:
    go_on = threading.Event()

    class Slow:
        name = "slow"

        def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
            assert go_on.wait(60)
            return EchoPolicy().act(requests)

    with serving(make_app({"echo": Slow()})) as url:
        where = urlsplit(url)
        threading.Timer(3 * SHORT, go_on.set).start()
        connection = http.client.HTTPConnection(where.netloc, timeout=60)
        assert [ask(where, connection), ask(where, connection)] == [200, 200]
        connection.close()


@pytest.mark.slow
def test_three_hundred_half_heads_are_closed_within_thirty_seconds(where: SplitResult) -> None:
    """With the limit as it ships: all closed, one that trickles among them, and requests answered meanwhile."""
    began, statuses = time.monotonic(), list[int]()
    with contextlib.ExitStack() as open_:
        lines = [open_.enter_context(connected(where, HALF)) for _ in range(300)]
        slow = open_.enter_context(connected(where, HALF))
        took: list[float] = []
        dripping = threading.Thread(target=lambda: took.append(trickle(slow, b"x", 5, 60)))
        dripping.start()

        def regular() -> None:
            while time.monotonic() - began < 25:
                statuses.append(ask(where))
                time.sleep(1)

        asking = threading.Thread(target=regular)
        asking.start()
        assert closed(lines, began + 30 - time.monotonic()) == 300
        asking.join(60)
        dripping.join(60)
    assert took[0] < 30
    assert set(statuses) == {200}
    assert len(statuses) > 5
