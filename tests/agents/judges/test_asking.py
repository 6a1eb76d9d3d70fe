"""Asking: what is asked again, what is kept, what it costs, and what is never kept."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from palaver.agents.base.chat import Answer, Question
from palaver.agents.judges.asking import AnswerCache, key
from palaver.agents.judges.judge import Judge
from palaver.agents.judges.spec import JudgeSpec
from palaver.core import Message, Sampling, ScoringError
from palaver.scoring import Cost
from tests.agents.judges.scripted import TWO, Counting, case, fair, judge


def flaky(times, then=fair):
    """Says nonsense so many times, then judges."""
    left = [times]

    def function(conversation, seed):
        left[0] -= 1
        return "I would rather not say {" if left[0] >= 0 else then(conversation, seed)

    return function


def test_an_answer_that_cannot_be_read_is_asked_for_again():
    asked = judge(flaky(2))
    (verdict,) = asked.score([case("good")])
    assert (verdict.score, verdict.failure) == (1.0, "")
    assert verdict.cost == Cost(30, 6, 1.5, 3), "failed attempts cost, too"
    first, second, third = asked._load().asker.chat.asked
    assert second.conversation[1].content.startswith(first.conversation[1].content)
    assert "Your last answer could not be used (unparseable)." in second.conversation[1].content
    assert "rather not" not in second.conversation[1].content
    assert len({first.seed, second.seed, third.seed}) == 3


def test_it_is_asked_three_times_and_then_unscored():
    asked = judge(flaky(99))
    (verdict,) = asked.score([case("good")])
    assert (verdict.score, verdict.failure) == (None, "unparseable: no JSON object")
    assert verdict.cost.calls == len(asked._load().asker.chat.asked) == 3


@pytest.mark.parametrize("failure", ["transport: gone", "timeout", "rate limit", "refusal: no", "budget: spent"])
def test_what_the_chat_could_not_answer_is_not_asked_again(failure):
    asked = judge(lambda *_: Answer("", failure=failure, cost=Cost(calls=1)))
    (verdict,) = asked.score([case("good")])
    assert (verdict.score, verdict.failure) == (None, failure)
    assert len(asked._load().asker.chat.asked) == 1


def test_one_failure_costs_nobody_else_his_verdict():
    def picky(conversation, seed):
        return Answer("", failure="refusal: no") if "fair" in conversation[1].content else fair(conversation, seed)

    verdicts = judge(picky).score([case("good"), case("fair"), case("poor")])
    assert [verdict.score for verdict in verdicts] == [1.0, None, 0.0]


def test_equal_questions_are_put_once():
    asked = judge()
    verdicts = asked.score([case("good"), case("good"), case("poor"), case("good")])
    assert [verdict.score for verdict in verdicts] == [1.0, 1.0, 0.0, 1.0]
    assert [verdict.cost.calls for verdict in verdicts] == [1, 0, 1, 0]
    assert [q.conversation[1].content.count("good") for q in asked._load().asker.chat.asked] == [1, 0], "in order"


def test_the_limit_of_calls_is_held_before_the_call():
    asked = judge(calls=2)
    verdicts = asked.score([case("good"), case("poor"), case("fair")])
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0, None]
    assert verdicts[2].failure == "budget: 2 calls were allowed and are spent"
    assert [verdict.failure[:6] for verdict in asked.score([case("new")])] == ["budget"]
    assert len(asked._load().asker.chat.asked) == 2


def test_answers_are_kept_and_failures_are_not(tmp_path):
    cache = AnswerCache(tmp_path / "deep" / "c.sqlite")
    first = judge(cache=cache)
    before = first.score([case("good"), case("fair")])
    assert first.metrics() == {"cache_hits": 0.0, "unread": 0.0}
    second = judge(cache=cache)
    after = second.score([case("good"), case("fair"), case("poor")])
    assert [verdict.score for verdict in after] == [1.0, 0.625, 0.0]
    assert [verdict.cost.calls for verdict in after] == [0, 0, 1]
    assert [v.reason for v in after[:2]] == [v.reason for v in before]
    assert second.metrics()["cache_hits"] == pytest.approx(2 / 3)
    failing = judge(flaky(99), cache=cache, seed=5)
    failing.score([case("good")])
    again = judge(cache=cache, seed=5)
    again.score([case("good")])
    assert len(again._load().asker.chat.asked) == 1, "what could not be read was not kept"
    down = judge(lambda *_: Answer("", failure="transport: gone"), cache=cache, seed=6)
    down.score([case("good")])
    assert len(cache.get([key(down._load().asker.chat, q, 0) for q in down._load().asker.chat.asked])) == 0


def test_a_kept_second_attempt_is_found_only_after_the_first(tmp_path):
    cache = AnswerCache(tmp_path / "c.sqlite")
    judge(flaky(1), cache=cache).score([case("good")])
    again = judge(flaky(1), cache=cache)
    (verdict,) = again.score([case("good")])
    assert (verdict.score, verdict.cost.calls) == (1.0, 1)


def test_the_key_holds_everything_that_matters():
    chat = Counting()
    base = Question((Message("user", "hi"),), Sampling(0.0, max_tokens=5), 1, {"type": "object"}, 0)
    keys = [
        key(chat, base, 0),
        key(chat, base, 1),
        key(Counting(revision="2"), base, 0),
        key(Counting(name="other"), base, 0),
        key(chat, Question((Message("user", "hi "),), base.sampling, 1, base.schema), 0),
        key(chat, Question((Message("system", "hi"),), base.sampling, 1, base.schema), 0),
        key(chat, Question(base.conversation, Sampling(0.5, max_tokens=5), 1, base.schema), 0),
        key(chat, Question(base.conversation, base.sampling, 2, base.schema), 0),
        key(chat, Question(base.conversation, base.sampling, 1, {}), 0),
        key(chat, Question(base.conversation, base.sampling, 1, base.schema, 5), 0),
    ]
    assert len(set(keys)) == len(keys)
    assert key(Counting(), base, 0) == keys[0]
    assert len(key(chat, Question((Message("user", "\ud800"),)), 0)) == 64


def test_threads_and_processes_share_the_file(tmp_path):
    path = tmp_path / "c.sqlite"
    names = [f"k{n}" for n in range(40)]

    def write(part):
        for name in part:
            AnswerCache(path).put({name: Answer(f"text of {name}", top=({"a": -0.5},))})

    threads = [threading.Thread(target=write, args=(names[n::4] + names[:5],)) for n in range(4)]
    code = (
        "import sys; from pathlib import Path; from palaver.agents.base.chat import Answer\n"
        "from palaver.agents.judges.asking import AnswerCache\n"
        "for n in range(20): AnswerCache(Path(sys.argv[1])).put({f'p{n}': Answer(str(n))})\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], env=dict(os.environ))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert child.wait(60) == 0
    found = AnswerCache(path).get([*names, *(f"p{n}" for n in range(20)), "none"])
    assert len(found) == 60
    assert found["k7"] == Answer("text of k7", top=({"a": -0.5},))


def test_a_broken_file_is_named(tmp_path):
    path = tmp_path / "c.sqlite"
    path.write_text("this is no database, and long enough to be read as one " * 40)
    with pytest.raises(ScoringError, match=r"c\.sqlite.* delete it, or set PALAVER_CACHE"):
        AnswerCache(path).get(["x"])


def test_the_file_is_in_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("PALAVER_CACHE", str(tmp_path))
    assert AnswerCache().path == tmp_path / "judges.sqlite"
    Judge(JudgeSpec.model_validate({"model": "x", "rubric": TWO}), chat=Counting()).score([case("good")])
    assert list(tmp_path.iterdir()) == [], "what a script says is not kept: nobody knows when it changes"


def test_a_chat_that_loses_answers_is_named():
    class Losing(Counting):
        def ask(self, questions):
            return super().ask(questions)[1:]

    with pytest.raises(ScoringError, match="scripted gave 0 answers to 1 questions"):
        Judge(JudgeSpec(model="x"), chat=Losing()).score([case("good")])
