from __future__ import annotations

import asyncio
import os

import pytest

from palaver.agents.base.chat import Question
from palaver.agents.remote import budget as budgets
from palaver.agents.remote.budget import Budget
from palaver.agents.remote.chat import RemoteChat
from palaver.agents.remote.options import read_options
from palaver.agents.remote.wire import CallError
from palaver.core import ConfigError, Message, PolicyError, Sampling
from palaver.scoring import Cost
from tests.agents.remote.faults import completion, error, faults, reply, silent

CALL = Cost(10, 10, 0.1, 1)
QUESTION = Question((Message("user", "hello"),), Sampling(max_tokens=63))  # at worst 5 + 16 + 16 + 63 = 100 tokens
TEN = reply(completion() | {"usage": {"prompt_tokens": 4, "completion_tokens": 6}})


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "PALAVER_DOLLARS", "PALAVER_TOKENS", "PALAVER_PRICES"):
        monkeypatch.delenv(name, raising=False)
    budgets.purse.cache_clear()
    yield
    budgets.purse.cache_clear()


def test_what_is_reserved_cannot_be_spent_twice() -> None:
    """Of 50 tokens two calls of 20 fit; the third waits, and goes when the first settles for 5 (5 + 20 + 20 <= 50)."""

    async def run() -> None:
        budget = Budget(tokens=50)
        await budget.reserve(CALL)
        await budget.reserve(CALL)
        third = asyncio.create_task(budget.reserve(CALL))
        await asyncio.sleep(0)
        assert not third.done()
        budget.settle(CALL, Cost(5, 0, 0.0, 1))
        await third
        assert budget.spent == Cost(5, 0, 0.0, 1)

    asyncio.run(run())


def test_what_fits_exactly_fits_again_and_again() -> None:
    """In floats 0.01 + 0.12 - 0.01 - 0.12 is 1.4e-17: a rest of rounding must not make a call wait for ever."""

    async def run() -> None:
        budget = Budget(dollars=0.15)
        few, more, all_ = (Cost(1, 1, dollars, 1) for dollars in (0.01, 0.12, 0.15))
        await budget.reserve(few)
        await budget.reserve(more)
        budget.settle(few, Cost(calls=1))
        budget.settle(more, Cost(calls=1))
        await budget.reserve(all_)

    asyncio.run(asyncio.wait_for(run(), 5))


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        (Budget(tokens=19), "budget: 0 of 19 tokens are spent and the call may take 20"),
        (Budget(dollars=0.09), "budget: $0.0000 of $0.09 are spent and the call may cost $0.1000"),
        (Budget(parent=Budget(tokens=0)), "budget: 0 of 0 tokens"),
    ],
)
def test_a_call_that_can_never_fit_is_refused_at_once(budget: Budget, says: str) -> None:
    with pytest.raises(CallError) as raised:
        asyncio.run(budget.reserve(CALL))
    assert str(raised.value).startswith(says)
    assert not raised.value.again


def test_a_parent_counts_for_its_children() -> None:
    async def run() -> None:
        parent = Budget(tokens=40)
        one, other = Budget(parent=parent), Budget(tokens=20, parent=parent)
        await one.reserve(CALL)
        await other.reserve(CALL)
        waits = asyncio.create_task(one.reserve(CALL))
        await asyncio.sleep(0)
        assert not waits.done()
        other.settle(CALL, Cost(1, 1, 0, 1))  # of another child
        one.settle(CALL, Cost(2, 2, 0, 1))
        await waits
        assert (one.spent, other.spent, parent.spent) == (Cost(2, 2, 0, 1), Cost(1, 1, 0, 1), Cost(3, 3, 0, 2))

    asyncio.run(run())


def test_a_forked_child_does_not_wait_for_calls_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(tokens=30)
    asyncio.run(budget.reserve(CALL))
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    asyncio.run(asyncio.wait_for(budget.reserve(CALL), 5))


@pytest.mark.parametrize("concurrency", [1, 4, 50])
def test_parallel_calls_never_overrun(concurrency: int) -> None:
    """250 tokens; a call takes 100 at worst and 10 in truth. After n calls 10 n are spent and the next is sent while
    10 n + 100 <= 250: n = 0 ... 15, that is 16 calls and 160 tokens, however many go at once."""
    with faults(TEN) as server:
        chat = RemoteChat("m", server.url, read_options(f"tokens=250&concurrency={concurrency}"))
        answers = chat.ask([QUESTION] * 40)
        assert len(server.bodies) == 16
    assert sum(not answer.failure for answer in answers) == 16
    assert chat.spent() == Cost(64, 96, 0.0, 16)
    refused = [answer.failure for answer in answers if answer.failure]
    assert set(refused) == {"budget: 160 of 250 tokens are spent and the call may take 100"}


def test_dollars_by_price() -> None:
    """A call is at worst (37 x 1 + 63 x 10) / 10^6 = 0.000667 dollars; in truth (4 x 1 + 6 x 10) / 10^6 = 0.000064. Of
    0.001 dollars 0.000333 may be gone before a call: 6 calls (0.000320 after 5)."""
    with faults(TEN) as server:
        chat = RemoteChat("m", server.url, read_options("dollars=0.001&price=1/10"))
        answers = chat.ask([QUESTION] * 20)
        assert len(server.bodies) == 6
    assert sum(not answer.failure for answer in answers) == 6
    assert chat.spent() == Cost(24, 36, pytest.approx(6 * 6.4e-5), 6)


def test_what_may_have_been_charged_is_counted_at_its_worst() -> None:
    with faults(silent) as server:
        chat = RemoteChat("m", server.url, read_options("tokens=150&timeout=1&attempts=5&backoff=0"))
        (answer,) = chat.ask([QUESTION])
        assert len(server.bodies) == 1
    assert answer.failure == "budget: 100 of 150 tokens are spent and the call may take 100"
    assert answer.cost == chat.spent() == Cost(37, 63, 0.0, 1)


def test_what_the_server_refused_costs_nothing() -> None:
    with faults(error(500), error(429), TEN) as server:
        chat = RemoteChat("m", server.url, read_options("tokens=100&backoff=0"))
        (answer,) = chat.ask([QUESTION])
    assert answer.cost == Cost(4, 6, 0.0, 3)


def test_the_purse_of_the_process_is_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALAVER_TOKENS", "110")
    with faults(TEN) as server:
        first, second = (RemoteChat(model, server.url) for model in "mn")
        assert first.ask([QUESTION])[0].text == "fine"
        assert second.ask([QUESTION])[0].text == "fine"
        assert second.ask([QUESTION])[0].failure.startswith("budget: 20 of 110 tokens")


@pytest.mark.parametrize(("variable", "value"), [("PALAVER_DOLLARS", "much"), ("PALAVER_TOKENS", "-1")])
def test_a_purse_is_a_number(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=f"{variable} must be a number"):
        budgets.purse()


def test_dollars_need_a_price(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    with pytest.raises(PolicyError, match="needs the price of 'm'"):
        RemoteChat("m", "http://127.0.0.1:9/v1", read_options("dollars=1"))
    monkeypatch.setenv("PALAVER_DOLLARS", "1")
    with pytest.raises(PolicyError, match="needs the price of 'm'"):
        RemoteChat("m", "http://127.0.0.1:9/v1")
    prices = tmp_path / "prices.yaml"
    prices.write_text("m: {prompt: 0.15, completion: 0.6}\nfree: {}\n")
    monkeypatch.setenv("PALAVER_PRICES", str(prices))
    chat = RemoteChat("m", "http://127.0.0.1:9/v1")
    assert chat.price.cost(1_000_000, 500_000) == Cost(1_000_000, 500_000, pytest.approx(0.45), 1)
    assert RemoteChat("free", "http://127.0.0.1:9/v1").price.cost(5, 5).dollars == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a\n- b", "must be written as MODEL"),
        ("m: {prompt: -1}", "prompt: Input should be greater than or equal to 0"),
        ("m: {in: 1}", "in: Extra inputs are not permitted"),
        ("m: cheap", "a price: Input should be a valid dictionary"),
        ("m: {", "cannot read the prices"),
    ],
)
def test_prices_that_do_not_fit(tmp_path, text: str, says: str) -> None:
    from palaver.agents.remote.options import read_prices

    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(ConfigError, match=says) as raised:
        read_prices(tmp_path / "p.yaml")
    assert "\n" not in str(raised.value)
