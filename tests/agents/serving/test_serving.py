"""A real server on loopback with a small model of random weights, and the real client."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import threading
from urllib.parse import urlsplit

import openai
import pytest

from palaver.agents.base.chat import Question
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.policies.top_logprobs import top_logprobs
from palaver.agents.remote.chat import RemoteChat, RemotePolicy
from palaver.agents.remote.options import read_options
from palaver.agents.serving import app as app_module
from palaver.agents.serving.app import ServerLimits, make_app
from palaver.agents.serving.server import listen, serving
from palaver.agents.simple import EchoPolicy, RandomPolicy, ScriptedPolicy
from palaver.core import Message, PolicyError, Request, Sampling, stable_seed
from palaver.scoring import Cost
from tests.models import byte_tokenizer, tiny_qwen3

HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5, "seed": 3}
SYSTEM = Message("system", "be brief")
REQUESTS = [
    Request("a", (SYSTEM, Message("user", "hello")), (0, stable_seed("x")), Sampling(max_tokens=8)),
    Request("b", (Message("user", "schön <|im_end|>"),), (7,), Sampling(0.7, 0.9, 5, 12, ("q", "zz"))),
    Request("b", (SYSTEM, Message("user", "x"), Message("assistant", "y")), (1,), Sampling(0.0, max_tokens=4)),
]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "PALAVER_DOLLARS", "PALAVER_TOKENS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def model() -> LLMPolicy:
    return LLMPolicy(tiny_qwen3(max_position_embeddings=256), byte_tokenizer(template=True), name="m")


@pytest.fixture(scope="module")
def url(model: LLMPolicy):
    with serving(make_app({"m": model, "echo": EchoPolicy(), "random": RandomPolicy()})) as found:
        yield found


def post(url: str, body: object, path: str = "/chat/completions", method: str = "POST", **headers: str):
    """Status, headers and JSON of a reply."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, where.path + path, content, named)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    assert "Traceback" not in text
    return reply.status, dict(reply.getheaders()), json.loads(text) if text.startswith("{") else text


def test_the_same_seed_gives_the_same_text_over_http(model: LLMPolicy, url: str) -> None:
    local = model.act(REQUESTS)
    remote = RemotePolicy(RemoteChat("m", url)).act(REQUESTS)
    assert [[(said.text, said.finish) for said in row] for row in remote] == [
        [(said.text, said.finish) for said in row] for row in local
    ]
    assert any(said.text for row in local for said in row)


def test_tokens_are_counted_and_paid(model: LLMPolicy, url: str) -> None:
    chat = RemoteChat("m", url, read_options("price=1/10"))
    (answer,) = chat.ask([Question(REQUESTS[0].conversation, REQUESTS[0].sampling, 0)])
    said = model.act(REQUESTS)[0][0]
    read, wrote = len(said.prompt_ids), len(said.token_ids)
    assert answer.cost == chat.spent() == Cost(read, wrote, pytest.approx((read + 10 * wrote) / 1e6), 1)


def test_the_likeliest_tokens_over_http(model: LLMPolicy, url: str) -> None:
    request = REQUESTS[0]
    chat = RemoteChat("m", url)
    (answer,) = chat.ask([Question(request.conversation, request.sampling, 0, top_logprobs=4)])
    said = model.act([request])[0][0]
    (expected,) = top_logprobs(model, [said], 4)
    assert len(answer.top) == len(said.token_ids) - (said.finish == "stop")
    for told, place in zip(answer.top, expected, strict=False):
        assert told == pytest.approx(place, abs=1e-5)


def test_several_answers_have_seeds_made_from_the_first(model: LLMPolicy, url: str) -> None:
    _, _, reply = post(url, HELLO | {"n": 3, "logprobs": True})
    seeds = (3, stable_seed("serve", 3, 1), stable_seed("serve", 3, 2))
    (said,) = model.act([Request("x", (Message("user", "hello"),), seeds, Sampling(max_tokens=5))])
    assert [choice["message"]["content"] for choice in reply["choices"]] == [each.text for each in said]
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2]
    assert reply["usage"]["completion_tokens"] == sum(len(each.token_ids) for each in said)
    tokens = reply["choices"][0]["logprobs"]["content"]
    assert [token["logprob"] for token in tokens] == pytest.approx(said[0].logprobs[: len(tokens)])
    assert tokens[0]["top_logprobs"] == []


def test_without_a_seed_answers_differ(url: str) -> None:
    body = {name: value for name, value in HELLO.items() if name != "seed"} | {"max_tokens": 30}
    assert len({post(url, body)[2]["choices"][0]["message"]["content"] for _ in range(4)}) > 1


def events(text: str) -> list[dict]:
    """The chunks of an event stream."""
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_a_stream_holds_what_one_answer_holds(url: str) -> None:
    body = HELLO | {"n": 2, "logprobs": True}
    _, _, whole = post(url, body)
    status, headers, text = post(url, body | {"stream": True, "stream_options": {"include_usage": True}})
    chunks = events(text)
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    for index, choice in enumerate(whole["choices"]):
        mine = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
        assert "".join(c["delta"].get("content") or "" for c in mine) == choice["message"]["content"]
        assert [c["finish_reason"] for c in mine] == [None, choice["finish_reason"]]
        assert mine[0]["logprobs"] == choice["logprobs"]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == whole["usage"]
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert all("usage" not in chunk for chunk in events(post(url, body | {"stream": True})[2]))


def test_the_openai_client_streams(url: str) -> None:
    create = openai.OpenAI(api_key="none", base_url=url, timeout=60).chat.completions.create
    whole, chunks = create(**HELLO), list(create(**HELLO, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_curl_streams(url: str) -> None:
    command = ["curl", "-sN", "--max-time", "60", "-H", "Content-Type: application/json"]
    body = json.dumps(HELLO | {"stream": True})
    done = subprocess.run([*command, "-d", body, f"{url}/chat/completions"], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0
    assert events(done.stdout)[-1]["choices"][0]["finish_reason"] in ("stop", "length")


def test_models(url: str) -> None:
    status, _, reply = post(url, b"", "/models", "GET")
    assert (status, [each["id"] for each in reply["data"]]) == (200, ["m", "echo", "random"])


def test_a_policy_without_tokens(url: str) -> None:
    """5 bytes are 2 tokens by the estimate."""
    parts = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    messages = [{"role": "developer", "content": "x" * 8}, {"role": "user", "content": parts}]
    status, headers, reply = post(
        url, {"model": "echo", "messages": messages, "response_format": {"type": "json_object"}}
    )
    assert status == 200
    assert reply["choices"][0]["message"]["content"] == "hello"
    assert reply["usage"] == {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}
    assert "not enforced" in headers["palaver-note"]


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        (b"{nothing", 400, "Invalid JSON"),
        (b"\xff\xfe", 400, "Invalid JSON"),
        (b"[" * 100_000, 400, "Invalid JSON"),
        (b"[]", 400, "should be an object"),
        (b'{"model": "m", "messages": [{"role": "user", "content": "\\ud800"}]}', 400, "Invalid JSON"),
        ({"messages": []}, 400, "messages: List should have at least 1 item"),
        ({"messages": "hi"}, 400, "messages: "),
        ({"messages": [{"role": "critic", "content": "x"}]}, 400, "messages.0.role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages.0.content"),
        ({"model": 5}, 400, "model: "),
        ({"model": "x" * 1000}, 404, "there is no model 'xxx"),
        ({"functions": []}, 400, "the field functions is not served"),
        ({"stream_options": {"include_usage": True}}, 400, "stream_options needs stream: true"),
        ({"stream": True, "stream_options": {"pace": 1}}, 400, "the field stream_options.pace is not served"),
        ({"n": 0}, 400, "n: "),
        ({"n": 129}, 400, "n: "),
        ({"n": True}, 400, "n: "),
        ({"seed": 2**63}, 400, "seed: "),
        ({"seed": "1"}, 400, "seed: "),
        ({"temperature": -1}, 400, "temperature: "),
        (b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": NaN}', 400, "temperature: "),
        ({"top_p": 0}, 400, "top_p: "),
        ({"max_tokens": 0}, 400, "max_tokens: "),
        ({"max_tokens": 5000}, 400, "answers with 1024 at most"),
        ({"stop": ""}, 400, "stop"),
        ({"stop": ["x"] * 65}, 400, "stop"),
        ({"top_logprobs": 3}, 400, "needs logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, 400, "top_logprobs: "),
        ({"model": "echo", "logprobs": True}, 400, "echo has no log-probabilities to tell"),
        ({"response_format": {"type": "xml"}}, 400, "response_format.type"),
        ({"response_format": {"type": "text", "json_schema": {"name": "x", "schema": []}}}, 400, "response_format"),
        ({"messages": [{"role": "user", "content": "x" * 400}]}, 400, "does not fit the context"),
        (b" " * ((1 << 20) + 1), 413, "longer than 1048576 bytes"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(url: str, change: object, status: int, says: str) -> None:
    body = change if isinstance(change, bytes) else HELLO | change
    got, _, reply = post(url, body)
    assert got == status
    assert says in reply["error"]["message"]
    assert "\n" not in reply["error"]["message"]
    assert reply["error"]["type"] == "invalid_request_error"
    assert post(url, HELLO)[0] == 200


def test_paths_and_methods(url: str) -> None:
    assert post(url, HELLO, "/completions")[0] == 404
    status, headers, reply = post(url, b"", method="GET")
    assert (status, headers["allow"]) == (405, "POST")
    assert "POST /v1/chat/completions" in reply["error"]["message"]


def test_a_web_page_cannot_use_it(url: str) -> None:
    """A page may send plain text anywhere without asking, and its name may lead to this machine."""
    assert post(url, HELLO, Content_Type="text/plain")[0] == 415
    assert post(url, HELLO, Host="page.example.test")[0] == 400


def chunked(url: str, chunks) -> int:
    """The status of a request whose length nobody tells beforehand."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
    headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    try:
        connection.request("POST", "/v1/chat/completions", chunks, headers, encode_chunked=True)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_body_without_a_length_has_the_same_limit(url: str) -> None:
    assert chunked(url, iter([b" " * (1 << 19)] * 3)) == 413


def test_a_body_without_an_end_is_not_read_for_ever(url: str) -> None:
    """What comes beyond 16 times the limit is not read: the server closes the connection."""
    sent = 0

    def endless():
        nonlocal sent
        while True:
            sent += 1
            yield b" " * (1 << 20)

    with pytest.raises(OSError):  # noqa: PT011 - a broken pipe or a reset, as the kernel likes
        chunked(url, endless())
    assert 16 <= sent < 64


def test_a_body_that_stays_away_is_not_waited_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "BODY_SECONDS", 0.05)
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port), 60) as line:
        head = f"Host: {where.netloc}\r\nContent-Type: application/json\r\nContent-Length: 10"
        line.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n\r\n".encode())
        assert line.recv(100).startswith(b"HTTP/1.1 408")


def test_a_client_that_leaves_in_the_middle_leaves_no_traceback(url: str, caplog: pytest.LogCaptureFixture) -> None:
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port), 60) as line:
        head = f"Host: {where.netloc}\r\nContent-Type: application/json\r\nContent-Length: 10"
        line.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n\r\n{{".encode())
    assert post(url, HELLO)[0] == 200
    assert not [record for record in caplog.records if record.exc_info]


class Held:
    """Holds its first batch until it is told to go on; remembers how many requests came in each."""

    name = "held"

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.begun = threading.Event()
        self.batches: list[int] = []

    def act(self, requests):
        self.batches.append(len(requests))
        self.begun.set()
        assert self.go_on.wait(60)
        return EchoPolicy().act(requests)


def ask_in_threads(chat: RemoteChat, *texts: str) -> tuple[list[threading.Thread], dict[str, object]]:
    answers: dict[str, object] = {}

    def ask(text: str) -> None:
        answers[text] = chat.ask([Question((Message("user", text),))])[0]

    threads = [threading.Thread(target=ask, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    return threads, answers


def until(condition) -> None:
    pause = threading.Event()
    for _ in range(6000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it did not come about within a minute")


def test_requests_that_wait_together_are_answered_together() -> None:
    held = Held()
    app = make_app({"m": held})
    with serving(app) as url:
        chat = RemoteChat("m", url)
        first, _ = ask_in_threads(chat, "first")
        assert held.begun.wait(60)
        others, answers = ask_in_threads(chat, *"abcdef")
        until(lambda: len(app.state.batcher.waiting) == 6)
        held.go_on.set()
        for thread in (*first, *others):
            thread.join(60)
    assert held.batches == [1, 6]
    assert {text: answer.text for text, answer in answers.items()} == {text: text for text in "abcdef"}


def test_one_that_cannot_be_answered_costs_the_others_nothing() -> None:
    def picky(conversation, seed):
        if conversation[-1].content == "bad":
            raise PolicyError("not this one")
        return conversation[-1].content

    held = Held()
    app = make_app({"held": held, "m": ScriptedPolicy(picky)})
    with serving(app) as url:
        first, _ = ask_in_threads(RemoteChat("held", url), "first")
        assert held.begun.wait(60)
        others, answers = ask_in_threads(RemoteChat("m", url), "good", "bad", "fine")
        until(lambda: len(app.state.batcher.waiting) == 3)
        held.go_on.set()
        for thread in (*first, *others):
            thread.join(60)
    assert (answers["good"].text, answers["fine"].text) == ("good", "fine")
    assert answers["bad"].failure == "transport: HTTP 400: not this one"


def test_a_full_house_asks_to_come_again() -> None:
    held = Held()
    with serving(make_app({"m": held}, ServerLimits(room=2))) as url:
        threads, answers = ask_in_threads(RemoteChat("m", url), "first")
        assert held.begun.wait(60)
        status, headers, reply = post(url, HELLO | {"n": 2})
        assert (status, headers["retry-after"]) == (429, "1")
        assert "room for 2" in reply["error"]["message"]
        held.go_on.set()
        for thread in threads:
            thread.join(60)
        assert post(url, HELLO | {"n": 2})[0] == 200
    assert answers["first"].text == "first"


def test_a_defect_of_a_policy_shows_no_traceback() -> None:
    def broken(conversation, seed):
        raise ZeroDivisionError("secret details")

    with serving(make_app({"m": ScriptedPolicy(broken), "echo": EchoPolicy()})) as url:
        status, _, reply = post(url, HELLO)
        assert (status, reply["error"]["type"]) == (500, "server_error")
        assert reply["error"]["message"] == "the server failed (ZeroDivisionError)"
        assert post(url, HELLO | {"model": "echo"})[0] == 200


def test_a_key() -> None:
    limits = ServerLimits(key="a key of many letters")
    assert "many letters" not in repr(limits)
    with serving(make_app({"m": EchoPolicy()}, limits)) as url:
        assert post(url, HELLO)[0] == 401
        assert post(url, HELLO, Authorization="Bearer another")[0] == 401
        assert post(url, b"", "/models", "GET")[0] == 401
        assert post(url, HELLO, Authorization="bearer a key of many letters")[0] == 200


def test_a_taken_port_is_named() -> None:
    with serving(make_app({"m": EchoPolicy()})) as url:
        port = urlsplit(url).port
        with pytest.raises(PolicyError, match=f"cannot listen at 127.0.0.1:{port}"):
            listen("127.0.0.1", port)
    with pytest.raises(PolicyError, match=r"cannot listen at no\.such\.host\.invalid"):
        listen("no.such.host.invalid", 0)
