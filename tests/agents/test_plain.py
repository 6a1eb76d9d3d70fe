from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from palaver.agents.base.policy import Policy
from palaver.agents.simple import EchoPolicy, HumanPolicy, QuitError, RandomPolicy, ScriptedPolicy, TerminalSource
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
    policy = HumanPolicy(TerminalSource(Console(file=out, width=80)))
    answer = policy.act([ask("earlier", "mine", "[bold]not markup[/bold] [/oops]")])[0][0]
    assert answer.text == "my answer"
    assert "[bold]not markup[/bold] [/oops]" in out.getvalue()
    assert "earlier" not in out.getvalue()


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> HumanPolicy:
    """A person who types these lines, then ends the input."""
    left = iter(lines)

    def line(*_: object) -> str:
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", line)
    return HumanPolicy(TerminalSource(Console(file=io.StringIO(), width=200)))


@pytest.mark.parametrize("lines", [(), ("/quit",), ("", "/help", " /QUIT ")])
def test_a_person_leaves(monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...]) -> None:
    with pytest.raises(QuitError):
        typed(monkeypatch, *lines).act([ask("q")])


def test_nothing_is_said_by_two_empty_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert typed(monkeypatch, "", " ").act([ask("q")])[0][0].text == " "
    assert typed(monkeypatch, "help").act([ask("q")])[0][0].text == "help"


@pytest.mark.parametrize(
    ("line", "action"),
    [("2", "move Surf"), ("SWITCH  gengar", "switch Gengar"), ("sw", "switch Gengar"), ("move Surf", "move Surf")],
)
def test_a_person_names_a_legal_action(monkeypatch: pytest.MonkeyPatch, line: str, action: str) -> None:
    """What names none, or several, is asked again."""
    person = typed(monkeypatch, "", "zzz", "help", "0", "7", "move", "²", line)
    request = replace(ask("q"), actions=("move Ice Beam", "move Surf", "switch Gengar"))
    assert person.act([request])[0][0].text == action
    shown = person.source.console.file.getvalue()  # type: ignore[attr-defined]
    assert shown.count("1. move Ice Beam, 2. move Surf, 3. switch Gengar") == 2
    assert "'zzz' names no legal action" in shown
    assert "'move' begins several legal actions" in shown


def test_a_person_who_has_left_a_battle_quits(monkeypatch: pytest.MonkeyPatch) -> None:
    request = replace(ask("q"), actions=("left", "right"))
    with pytest.raises(QuitError, match="you left the game"):
        typed(monkeypatch, "Quit").act([request])
