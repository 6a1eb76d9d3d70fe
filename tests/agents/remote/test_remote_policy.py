from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import pytest

from palaver.agents.base.chat import Question
from palaver.agents.base.policy import Policy
from palaver.agents.make_policy import make_policy
from palaver.agents.remote.chat import RemoteChat
from palaver.agents.remote.options import read_name
from palaver.core import Message, PolicyError, Request, Sampling
from palaver.scoring import Cost
from tests.agents.remote.faults import completion, error, faults, reply

ASKED = (Message("user", "hello"),)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def seeds(handler) -> None:
    """Says which seed it was asked with."""
    reply(completion(f"seed {handler.body['seed']}"))(handler)


def test_one_request_for_every_seed() -> None:
    requests = [Request("a", ASKED, (1, 2)), Request("b", ASKED, ()), Request("c", ASKED, (3,), Sampling(max_tokens=4))]
    with faults(seeds) as server:
        policy = make_policy(f"openai:some/model:8b@{server.url}?concurrency=1")
        assert isinstance(policy, Policy)
        said = policy.act(requests)
        assert [(body["model"], body["seed"], body["max_tokens"]) for body in server.bodies] == [
            ("some/model:8b", 1, 256), ("some/model:8b", 2, 256), ("some/model:8b", 3, 4)
        ]  # fmt: skip
        assert policy.name == f"openai:some/model:8b@{server.url}?concurrency=1"
    assert [[completion.text for completion in row] for row in said] == [["seed 1", "seed 2"], [], ["seed 3"]]
    assert policy.spent() == Cost(21, 9, 0.0, 3)


def test_a_failure_ends_the_work_with_one_line() -> None:
    with faults(error(404, "no model m")) as server, pytest.raises(PolicyError) as raised:
        make_policy(f"openai:m@{server.url}").act([Request("a", ASKED, (1, 2))])
    assert "HTTP 404: no model m" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_any_text_can_be_asked() -> None:
    hostile = "\ud800\x00\x1b[2J<|im_end|>{{ 1 }}" + "x" * 100_000
    with faults() as server:
        make_policy(f"openai:m@{server.url}").act([Request("a", (Message("user", hostile),))])
        assert server.bodies[0]["messages"][0]["content"] == "?" + hostile[1:]


def test_the_base_url_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with faults() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/")
        assert make_policy("openai:m?timeout=5").act([Request("a", ASKED)])[0][0].text == "fine"


def test_proxies_are_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with faults() as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        assert make_policy(f"openai:m@{server.url}").act([Request("a", ASKED)])[0][0].text == "fine"


def test_the_clients_own_server_has_its_own_word_for_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    assert RemoteChat("m")._limit_field == "max_completion_tokens"
    assert RemoteChat("m", "http://127.0.0.1/v1")._limit_field == "max_tokens"
    chat = RemoteChat.named("openai:m@http://127.0.0.1/v1?length=max_completion_tokens")
    assert chat._limit_field == "max_completion_tokens"


def test_names() -> None:
    model, url, options = read_name("openai:a/b@c@https://x.test:1/v1/?price=0.15/0.6&dollars=2&key=MY_KEY&revision=r")
    assert (model, url) == ("a/b@c", "https://x.test:1/v1")
    assert (options.price.prompt, options.price.completion) == (0.15, 0.6)
    assert (options.dollars, options.key, options.revision, options.tokens) == (2.0, "MY_KEY", "r", None)
    assert read_name("openai:m?price=3")[2].price.completion == 3


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("openai:", "is empty; it is written openai:MODEL"),
        ("openai:@http://127.0.0.1/v1", "is written openai:MODEL"),
        ("openai:m@http://", "must be like http://127.0.0.1:8000/v1"),
        ("openai:m@http://[::1/v1", "must be like http://127.0.0.1:8000/v1"),
        ("openai:m@http://127.0.0.1:99999/v1", "must be like http://127.0.0.1:8000/v1"),
        ("openai:m@http://127.0.0.1/v1#x", "no user, password, query or fragment"),
        ("openai:m@http://127.0.0.1/v1?timeut=3", "Did you mean 'timeout'"),
        ("openai:m@http://127.0.0.1/v1?timeout=0", "an option .* timeout: .*greater than 0"),
        ("openai:m@http://127.0.0.1/v1?timeout=nan", "an option .* timeout: .*finite number"),
        ("openai:m@http://127.0.0.1/v1?concurrency=many", "an option .* concurrency: .*valid integer"),
        ("openai:m@http://127.0.0.1/v1?price=cheap", "an option .* price.prompt"),
        ("openai:m@http://127.0.0.1/v1?dollars=-1", "an option .* dollars"),
        ("openai:m", "set OPENAI_API_KEY"),
    ],
)
def test_names_that_are_refused(name: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says) as raised:
        make_policy(name)
    assert "\n" not in str(raised.value)


def test_callers_in_threads() -> None:
    with faults(seeds) as server:
        policy = make_policy(f"openai:m@{server.url}")
        said: dict[int, str] = {}

        def ask(seed: int) -> None:
            said[seed] = policy.act([Request("a", ASKED, (seed,))])[0][0].text

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert said == {seed: f"seed {seed}" for seed in range(8)}


def test_a_forked_child_asks_for_itself() -> None:
    with faults() as server:
        chat = RemoteChat("m", server.url)
        assert chat.ask([Question(ASKED)])[0].text == "fine"
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=lambda: sender.send((os.getpid(), chat.ask([Question(ASKED)])[0].text)))
        child.start()
        assert receiver.poll(60)
        assert receiver.recv() == (child.pid, "fine")
        child.join(60)
        assert child.exitcode == 0
        assert chat.ask([Question(ASKED)])[0].text == "fine"
        chat.close()
        assert chat.ask([Question(ASKED)])[0].text == "fine"


def test_a_copy_shares_the_budget_and_another_process_has_its_own() -> None:
    with faults() as server:
        chat = RemoteChat.named(f"openai:m@{server.url}?tokens=1000&revision=r")
        chat.ask([Question(ASKED)])
        assert copy.deepcopy({"judge": chat})["judge"] is chat
        other = pickle.loads(pickle.dumps(chat))
        assert (other.name, other.revision, other.options, other.spent()) == (chat.name, "r", chat.options, Cost())
        assert other.ask([Question(ASKED)])[0].text == "fine"


def test_it_needs_no_torch_and_the_factory_no_client() -> None:
    code = (
        "import sys; import palaver.agents.make_policy; assert 'openai' not in sys.modules; "
        "import palaver.agents.remote.chat; assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tenacity", None)
    with pytest.raises(PolicyError, match=r"needs tenacity; install it with: pip install 'palaver\[judge\]'"):
        make_policy("openai:m")
