"""What the tiny model imitates in cooperative code: the environments' own prompts, answers right, idle and cut off."""

from __future__ import annotations

from collections import Counter

import pytest

import palaver
from palaver.core import Message
from palaver.envs.code import answers, corpus
from palaver.envs.code.prompts import opening, parse_request
from palaver.registry import resolve

IDS = ("coophumaneval-v0", "humaneval-v0", "mbpp-v0")


@pytest.mark.parametrize("id", IDS)
def test_prompts_are_the_environments_and_answers_are_of_three_kinds(id):
    texts = resolve(palaver.spec(id).demonstrations)(1200, 0)
    env = palaver.make(id)
    first = {text for task in env.tasks for text in env.reset(options={"task": task.id})[0].values()}
    kinds = Counter()
    for heard, answer in texts:
        assert heard[0].content in first
        assert [message.role for message in heard] in (["user"], ["user", "assistant", "user"])
        assert len(heard) == 1 or heard[2].content.startswith("Turn 2 of 2.\nWhat became of the last turn:")
        seat, name = parse_request(heard[0].content)
        whole, idle = corpus.reference(heard, 0), corpus.lazy(heard, 0)
        kinds["right" if answer == whole else "idle" if answer == idle else "cut"] += 1
        if answer not in (whole, idle):
            assert whole.startswith(answer)
        elif answer == whole:
            part = answers.read(answer).function("aux" if seat == "aux" else name)
            assert part is not None
            assert part.node is not None
    for kind, share in (("right", 0.5), ("idle", 0.3), ("cut", 0.2)):
        assert kinds[kind] / len(texts) == pytest.approx(share, abs=0.06)
    assert sum(len(heard) > 1 for heard, _ in texts) / len(texts) == pytest.approx(0.5, abs=0.1)


def test_the_same_seed_gives_the_same_texts():
    assert corpus.mbpp(30, 0) == corpus.mbpp(40, 0)[:30]
    assert corpus.mbpp(30, 1) != corpus.mbpp(30, 0)


def test_openings_are_told_apart():
    for seat in ("aux", "main", "coder"):
        assert parse_request(opening(seat, "def f(x):\n    ...", "f")) == (seat, "f")
    assert parse_request("Two programmers solve something else.") == ("", "")
    assert corpus.reference((Message("user", "Hello."),), 0) == corpus.lazy((Message("user", "Hello."),), 0)
    assert corpus.lazy((), 0)
