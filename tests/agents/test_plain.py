from __future__ import annotations

import io

import pytest
from rich.console import Console

from palaver.agents.base.policy import Policy
from palaver.agents.simple import EchoPolicy, HumanPolicy, RandomPolicy, ScriptedPolicy
from palaver.core import Conversation, Message, PolicyError, Request, Sampling


def ask(*contents: str, seeds: tuple[int, ...] = (0,), **sampling: int) -> Request:
    roles = ("user", "assistant")
    messages = tuple(Message(roles[place % 2], content) for place, content in enumerate(contents))  # type: ignore[arg-type]
    return Request("writer", messages, seeds, Sampling(**sampling))  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", [EchoPolicy(), RandomPolicy(), HumanPolicy(), ScriptedPolicy(lambda c, s: "")])
def test_all_are_policies(policy: object) -> None:
    assert isinstance(policy, Policy)


def test_echo_repeats_the_last_user_message() -> None:
    answers = EchoPolicy().act([ask("one", "two", "three", seeds=(1, 2)), ask("x", "y"), Request("a", ())])
    assert [[u.text for u in row] for row in answers] == [["three", "three"], ["x"], [""]]


def test_random_is_fixed_by_its_seed_and_bounded() -> None:
    policy = RandomPolicy()
    first = policy.act([ask("a", seeds=tuple(range(200)), max_tokens=5)])[0]
    again = policy.act([ask("b", seeds=(7,), max_tokens=5)])[0][0]
    assert again.text == first[7].text
    assert {len(u.text.split()) for u in first} == {1, 2, 3, 4, 5}
    assert len({u.text for u in first}) > 100


def test_scripted_gets_conversation_and_seed() -> None:
    def answer(conversation: Conversation, seed: int) -> str:
        return f"{conversation[-1].content}/{seed}"

    texts = [u.text for u in ScriptedPolicy(answer).act([ask("hi", seeds=(3, 4))])[0]]
    assert texts == ["hi/3", "hi/4"]


def test_scripted_must_return_text() -> None:
    with pytest.raises(PolicyError, match="must return text"):
        ScriptedPolicy(lambda c, s: None).act([ask("hi")])  # type: ignore[arg-type,return-value]


def test_human_sees_what_is_new_as_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("builtins.input", lambda *a: "my answer")
    policy = HumanPolicy(Console(file=out, width=80))
    answer = policy.act([ask("earlier", "mine", "[bold]not markup[/bold] [/oops]")])[0][0]
    assert answer.text == "my answer"
    assert "[bold]not markup[/bold] [/oops]" in out.getvalue()
    assert "earlier" not in out.getvalue()


def test_human_end_of_input_is_an_empty_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*args: object) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", ended)
    assert HumanPolicy(Console(file=io.StringIO())).act([ask("q")])[0][0].text == ""
