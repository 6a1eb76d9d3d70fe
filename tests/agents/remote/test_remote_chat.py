"""The chat against a real HTTP server that fails by a script. Nothing here sleeps for a time that a test waits out."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from palaver.agents.base.chat import Chat, Question
from palaver.agents.remote import budget as budgets
from palaver.agents.remote.chat import RemoteChat
from palaver.agents.remote.options import Options, read_options
from palaver.core import Message, PolicyError, Sampling
from palaver.scoring import Cost
from tests.agents.remote.faults import completion, cut, drip, error, faults, half, reply, silent

QUESTION = Question((Message("system", "be brief"), Message("user", "hello")), Sampling(max_tokens=9), seed=5)
PAID = Cost(7, 3, 0.0, 1)  # as `completion` reports it


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "PALAVER_DOLLARS", "PALAVER_TOKENS", "PALAVER_PRICES"):
        monkeypatch.delenv(name, raising=False)
    budgets.purse.cache_clear()
    yield
    budgets.purse.cache_clear()


def chat(url: str, query: str = "") -> RemoteChat:
    return RemoteChat("m", url, read_options(f"backoff=0.001&{query}" if query else "backoff=0.001"))


def test_it_is_a_chat() -> None:
    with faults() as server:
        asked = chat(server.url, "revision=7")
        assert isinstance(asked, Chat)
        assert (asked.name, asked.revision) == (f"openai:m@{server.url}", "7")
        (answer,) = asked.ask([QUESTION])
        assert (answer.text, answer.finish, answer.failure, answer.cost) == ("fine", "stop", "", PAID)
        assert asked.spent() == PAID


def test_what_is_sent() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    sampling = Sampling(0.5, 0.9, 4, 9, ("\n", "END"))
    asked = Question((Message("user", "a\ud800b"),), sampling, 5, schema, 3)
    with faults() as server:
        chat(server.url).ask([asked, QUESTION])
        first, second = sorted(server.bodies, key=lambda body: -len(body))
    assert first == {
        "model": "m", "messages": [{"role": "user", "content": "a?b"}], "temperature": 0.5, "top_p": 0.9, "top_k": 4,
        "seed": 5, "max_tokens": 9, "stop": ["\n", "END"], "logprobs": True, "top_logprobs": 3,
        "response_format": {
            "type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True},
        },
    }  # fmt: skip
    assert set(second) == {"model", "messages", "temperature", "top_p", "seed", "max_tokens"}


def test_answers_keep_the_order_of_the_questions() -> None:
    def echo(handler) -> None:
        reply(completion(handler.body["messages"][0]["content"]))(handler)

    with faults(echo) as server:
        questions = [Question((Message("user", str(n)),)) for n in range(20)]
        answers = chat(server.url, "concurrency=1").ask(questions)
    assert [answer.text for answer in answers] == [str(n) for n in range(20)]


@pytest.mark.parametrize(
    ("steps", "calls", "cost"),
    [
        ([error(500), reply()], 2, Cost(7, 3, 0, 2)),
        ([error(429, Retry_After="0"), error(503, Retry_After="0"), reply()], 3, Cost(7, 3, 0, 3)),
        ([reply(b"{garbage"), reply()], 2, None),
        ([reply({"choices": []}), reply()], 2, None),
        ([reply({"choices": "none"}), reply()], 2, None),
        ([reply(b"<html>busy</html>", Content_Type="text/html"), reply()], 2, None),
        ([reply(completion() | {"usage": {"prompt_tokens": -1, "completion_tokens": 1}}), reply()], 2, None),
        ([half, reply()], 2, None),
        ([cut, reply()], 2, None),
    ],
    ids=["500", "429 and 503", "garbage", "no choices", "wrong type", "html", "minus one token", "half", "cut"],
)
def test_another_attempt_heals(steps, calls: int, cost: Cost | None) -> None:
    """What may have been charged costs the worst case: 3 times 16 tokens around two messages of 8 and 5 bytes, and the
    9 tokens of an answer."""
    with faults(*steps) as server:
        (answer,) = chat(server.url).ask([QUESTION])
        assert (answer.text, answer.failure) == ("fine", "")
        assert len(server.bodies) == calls
        assert answer.cost == (cost or Cost(7 + 48 + 13, 3 + 9, 0, 2))


@pytest.mark.parametrize(
    ("step", "query", "calls", "says"),
    [
        (error(500, "out of order"), "attempts=3", 3, "transport: HTTP 500: out of order"),
        (error(400, "no such thing"), "", 1, "transport: HTTP 400: no such thing"),
        (error(400, "not that", "content_filter"), "", 1, "refusal: HTTP 400: not that"),
        (reply(b"\x1b[31mno\nwords", 404), "", 1, "transport: HTTP 404: ␛[31mno words"),
        (error(429, "slow down"), "attempts=2", 2, "rate limit: HTTP 429: slow down"),
        (error(429, "pay first", "insufficient_quota"), "", 1, "rate limit: HTTP 429: pay first"),
        (error(429, "later", Retry_After="86400"), "", 1, "rate limit: HTTP 429: later"),
        (reply(b"nothing"), "attempts=2", 2, "unparseable: the reply: Invalid JSON"),
        (reply({"choices": []}), "attempts=2", 2, "unparseable: choices: List should have at least 1 item"),
        (reply({"error": "x"}), "attempts=1", 1, "unparseable: choices: Field required"),
        (half, "attempts=2", 2, "transport: "),
        (cut, "attempts=1", 1, "transport: "),
        (silent, "timeout=0.5&attempts=1", 1, "timeout: no whole reply within 0.5 s"),
        (drip, "timeout=0.5&attempts=1", 1, "timeout: no whole reply within 0.5 s"),
        (silent, "deadline=0.1", 1, "timeout: the deadline of 0.1 s"),
    ],
)
def test_failures_have_a_word(step, query: str, calls: int, says: str) -> None:
    with faults(step) as server:
        (answer,) = chat(server.url, query).ask([QUESTION])
        assert answer.failure.startswith(says)
        assert "\n" not in answer.failure
        assert answer.text == ""
        # on a crowded machine the deadline may be there before the request
        assert len(server.bodies) <= calls if "deadline" in query else len(server.bodies) == calls


def test_no_server_costs_nothing_but_the_call() -> None:
    with faults() as server:
        url = server.url
    (answer,) = chat(url, "attempts=2").ask([QUESTION])
    assert answer.failure.startswith("transport: ")
    assert answer.cost == Cost(0, 0, 0, 2)


def test_refusals_are_paid_and_not_repeated() -> None:
    said = {"role": "assistant", "content": None, "refusal": "I must not"}
    filtered = completion("")["choices"][0] | {"finish_reason": "content_filter"}
    with faults(
        reply(completion() | {"choices": [{"message": said}]}), reply(completion() | {"choices": [filtered]})
    ) as server:
        first, second = chat(server.url, "concurrency=1").ask([QUESTION, QUESTION])
        assert first.failure == "refusal: I must not"
        assert second.failure == "refusal: the server's filter withheld the answer"
        assert first.cost == second.cost == PAID
        assert len(server.bodies) == 2


def test_an_answer_without_text_is_unparseable_and_not_repeated() -> None:
    with faults(reply(completion(None))) as server:
        (answer,) = chat(server.url).ask([QUESTION])
        assert answer.failure == "unparseable: no text, finish_reason 'stop'"
        assert len(server.bodies) == 1


def test_text_after_a_stop_string_is_cut_off_and_a_cut_is_told() -> None:
    choice = completion("one END two")["choices"][0] | {"finish_reason": "length"}
    with faults(reply(completion() | {"choices": [choice]})) as server:
        (answer,) = chat(server.url).ask([Question(QUESTION.conversation, Sampling(stop=("END",)))])
    assert (answer.text, answer.finish) == ("one ", "length")


def test_the_likeliest_tokens() -> None:
    """log(e^-1 + e^-2) = -0.6867 for the two that are spelt alike."""
    places = [
        {"token": "5", "logprob": -1, "top_logprobs": [
            {"token": "5", "logprob": -1.0}, {"token": "5", "logprob": -2.0}, {"token": "4", "logprob": -3.0}]},
        {"token": ".", "logprob": -0.5, "top_logprobs": [{"token": ".", "logprob": -0.5}]},
    ]  # fmt: skip
    choice = completion("5.")["choices"][0] | {"logprobs": {"content": places}}
    with faults(reply(completion() | {"choices": [choice]})) as server:
        asked = Question(QUESTION.conversation, top_logprobs=3)
        (answer,) = chat(server.url).ask([asked])
        (plain,) = chat(server.url).ask([QUESTION])
    assert answer.top[0] == pytest.approx({"5": -0.68674, "4": -3.0}, abs=1e-5)
    assert answer.top[1] == {".": -0.5}
    assert plain.top == ()


def test_tokens_that_nobody_counted_are_estimated() -> None:
    """13 bytes asked are 2 + 2 tokens (8 / 4, 5 / 4 rounded up), 9 bytes answered are 3; at 2 and 10 dollars a million
    that is 0.000038."""
    with faults(reply(completion("nine byte") | {"usage": None})) as server:
        (answer,) = chat(server.url, "price=2/10").ask([QUESTION])
    assert answer.cost == Cost(4, 3, pytest.approx(3.8e-5), 1)


def test_it_waits_as_long_as_the_server_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def record(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("palaver.agents.remote.chat.sleep", record)
    date = formatdate(time.time() + 100, usegmt=True)
    steps = [error(429, Retry_After="7"), error(503, Retry_After=date), error(500, retry_after_ms="1500")]
    with faults(*steps, reply()) as server:
        (answer,) = chat(server.url).ask([QUESTION])
    assert answer.text == "fine"
    own, shared = waits[::2], waits[1::2]
    assert own == [7, pytest.approx(95, abs=5), 1.5]  # a date tells whole seconds, and some have passed
    assert 0 < shared[0] <= 7
    assert 90 < shared[2] <= 100  # the longest wish that a server told any call


def test_siblings_heed_what_the_server_asked_one_of_them() -> None:
    with faults(error(429, "later", Retry_After="86400"), reply()) as server:
        first, second = chat(server.url, "concurrency=1").ask([QUESTION, QUESTION])
        assert first.failure == "rate limit: HTTP 429: later"
        assert second.failure.startswith("rate limit: the server asks to wait 86")
        assert len(server.bodies) == 1


def test_insisting_ends_with_the_first_failure_and_cancels_the_others() -> None:
    def by_question(handler) -> None:
        wrong = handler.body["messages"][0]["content"] == "1"
        (error(400, "not this") if wrong else silent)(handler)

    with faults(by_question) as server:
        questions = [Question((Message("user", str(n)),)) for n in range(3)]
        asked = chat(server.url, "concurrency=2")
        with pytest.raises(
            PolicyError, match=r"did not answer question 2 of 3: transport: HTTP 400: not this"
        ) as raised:
            asked.insist(questions)
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert asked.spent().calls == 2


def test_options_have_defaults() -> None:
    assert read_options("") == Options(concurrency=8, timeout=60, deadline=600, attempts=5)
