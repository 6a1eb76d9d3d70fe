"""The key goes into one header and nowhere else."""

from __future__ import annotations

import logging
import pickle
import traceback

import pytest

from palaver.agents.base.chat import Question
from palaver.agents.make_policy import make_policy
from palaver.agents.remote.options import SecretKey
from palaver.core import Message, PolicyError, Request
from tests.agents.remote.faults import completion, error, faults, reply

KEY = "sk-test-0123456789abcdef"
REQUEST = Request("a", (Message("user", "hello"),))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def test_it_goes_into_one_header() -> None:
    with faults() as server:
        make_policy(f"openai:m@{server.url}").act([REQUEST])
        (headers,) = server.headers
        assert headers["authorization"] == f"Bearer {KEY}"
        assert KEY not in str({name: value for name, value in headers.items() if name != "authorization"})
        assert KEY not in str(server.bodies)


def test_it_is_in_no_log_and_no_message(caplog: pytest.LogCaptureFixture) -> None:
    """The server repeats it in every way it can."""
    steps = [error(500, f"bad key {KEY}", Retry_After="0"), reply(f"<b>{KEY}</b>".encode(), 401)]
    with caplog.at_level(logging.DEBUG), faults(*steps) as server:
        policy = make_policy(f"openai:m@{server.url}?backoff=0&attempts=2")
        with pytest.raises(PolicyError, match="OPENAI_API_KEY") as raised:
            policy.act([REQUEST])
    assert KEY not in "".join(traceback.format_exception(raised.value))
    assert caplog.records, "nothing was logged, so nothing was tested"
    assert KEY not in caplog.text
    assert not [record for record in caplog.records if KEY in str(vars(record))]


def test_it_is_in_no_answer_and_no_record() -> None:
    with faults(reply(completion(f"your key is {KEY}, I think"))) as server:
        policy = make_policy(f"openai:m@{server.url}")
        assert policy.act([REQUEST])[0][0].text == "your key is [OPENAI_API_KEY], I think"
        (answer,) = policy.chat.ask([Question(REQUEST.conversation)])
    for shown in (answer, policy.name, policy.chat, policy.chat.name, policy.chat.options, policy.chat._key):
        assert KEY not in repr(shown)
    assert KEY.encode() not in pickle.dumps(policy.chat._key)
    assert pickle.loads(pickle.dumps(policy.chat._key)).reveal() == KEY


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("http://127.0.0.1:8000/v1", KEY),
        ("http://localhost/v1", KEY),
        ("http://[::1]:8000/v1", KEY),
        ("https://example.test/v1", KEY),
        ("http://192.0.2.1/v1", "none"),
        ("http://localhost.example.test/v1", "none"),
        ("", KEY),
    ],
)
def test_it_is_never_sent_in_the_open(url: str, sent: str) -> None:
    assert SecretKey("OPENAI_API_KEY", url).reveal() == sent


@pytest.mark.parametrize("url", ["", "https://example.test/v1"])
def test_where_there_must_be_one(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(PolicyError, match="set OPENAI_API_KEY in the environment"):
        SecretKey("OPENAI_API_KEY", url)
    assert SecretKey("OPENAI_API_KEY", "http://127.0.0.1/v1").reveal() == "none"


@pytest.mark.parametrize("key", ["sk two", "sk\nInjected: header", "schlüssel"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(PolicyError, match="set it again") as raised:
        SecretKey("OPENAI_API_KEY")
    assert key[:4] not in str(raised.value)


def test_a_short_key_garbles_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a")
    assert SecretKey("OPENAI_API_KEY", "http://127.0.0.1/v1").redact("a banana") == "a banana"


def test_a_key_in_a_name_is_refused_and_not_repeated() -> None:
    for name in (f"openai:m?key={KEY}", f"openai:m@https://user:{KEY}@example.test/v1"):
        with pytest.raises(PolicyError) as raised:
            make_policy(name)
        assert KEY not in "".join(traceback.format_exception(raised.value))
