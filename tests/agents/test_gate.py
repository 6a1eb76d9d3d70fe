"""The examination of models that copy: lines said must be lines of the prompt."""

from __future__ import annotations

import pytest

from palaver.agents.tiny import gate
from palaver.core import Completion, Message

PLAN = "Take some.\n1. red\n2. green\n3. blue"


def found(monkeypatch, said, answer="2. green\n3. blue", plan=PLAN):
    """The checks of a model that says these words to every prompt, by name."""

    class Says:
        def __init__(self, *_args, **_kwargs):
            pass

        def act(self, requests):
            return [[Completion(said)] for _ in requests]

    monkeypatch.setattr(gate, "LLMPolicy", Says)
    texts = [((Message("user", plan),), answer)] * 2
    return {check.name: check for check in gate.examine(None, None, texts, texts)}


@pytest.mark.parametrize(
    ("said", "share", "passed"),
    [
        ("1. red\n3. blue", 1.0, True),
        ("1. red\n2. blue", 0.5, False),
        ("red", 0.0, False),
        ("\n".join(["3. blue"] * 9 + ["3. red"]), 0.9, True),
        ("", 0.0, False),
    ],
)
def test_lines_from_the_prompt(monkeypatch, said, share, passed):
    check = found(monkeypatch, said)["lines from the prompt"]
    assert check.value == pytest.approx(share)
    assert check.passed is passed


def test_lines_matter_only_where_every_answer_copies(monkeypatch):
    assert "lines from the prompt" not in found(monkeypatch, "1. red", answer="2. green\n4. blue")
    assert "lines from the prompt" not in found(monkeypatch, "1. red", answer="")
