"""Two programmers in the environment: what they are told and paid, turn by turn, and what happens at failures."""

from __future__ import annotations

import copy
import json
import pickle
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

import pytest

import palaver
from palaver.core import ConfigError, Message
from palaver.envs.base.transcripts import HOSTILE
from palaver.envs.code import base as scoring
from palaver.envs.code import corpus, expert
from palaver.envs.code.sandbox import Report, TestResult

IDS = ("coophumaneval-v0", "humaneval-v0", "mbpp-v0")
TASK = "sample-che/1"  # mirror_sum
AUX = "def aux(number):\n    return str(number) == str(number)[::-1]\n"
MAIN = "def mirror_sum(numbers):\n    return sum(n for n in numbers if aux(n))\n"
WRAPPER = "def mirror_sum(numbers):\n    return aux(numbers)\n"


def make(**kwargs):
    env = palaver.make("coophumaneval-v0", **kwargs)
    observations, _ = env.reset(seed=0, options={"task": TASK})
    return env, observations


def play(aux=AUX, main=MAIN, **kwargs):
    env, _ = make(**kwargs)
    return env, env.step({"aux": aux, "main": main})


# --- pay ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agents", [2, 1])
@pytest.mark.parametrize("id", IDS)
def test_the_reference_solves_the_samples_and_the_lazy_team_does_not(id, agents):
    env = palaver.make(id, agents=agents, num_turns=1)
    means = {}
    for policy in (corpus.reference, corpus.lazy):
        paid = []
        for task in env.tasks:
            told, _ = env.reset(seed=0, options={"task": task.id})
            _, rewards, *_, infos = env.step({a: policy((Message("user", text),), 0) for a, text in told.items()})
            paid.append(rewards[env.possible_agents[0]])
            solved, wrapper = (infos[env.possible_agents[0]]["metrics"][name] for name in ("solved", "wrapper"))
            assert (solved, wrapper) == ((1.0, 0.0) if policy is corpus.reference else (0.0, 1.0))
        means[policy.__name__] = sum(paid) / len(paid)
    assert means["reference"] == pytest.approx(4.0)
    assert means["lazy"] < 2.0


@pytest.mark.parametrize(
    ("aux", "main", "paid", "reason"),
    [
        (AUX, MAIN, 4.0, "5 of 5 tests passed"),
        ("def aux(numbers):\n    return sum(n for n in numbers if str(n) == str(n)[::-1])\n", WRAPPER, 3.0, "5 of 5"),
        (AUX, MAIN.replace("aux(n)", "n > 0"), 1.7, "1 of 5 tests passed; mirror_sum([121, 12, 7]) returned 140"),
        ("", MAIN, 1.3, "1 of 5 tests passed"),
        (AUX, "", 0.4, "no function mirror_sum in the answer"),
        ("", "", 0.0, "no function mirror_sum"),
        ("def aux(number):\n    print(number)\n", MAIN, 3.0, "2 of 5"),
        (
            "def aux(number):\n    return (number\n",
            MAIN,
            1.0,
            "the program is not Python: line 2: '(' was never closed",
        ),
        (AUX, "def mirror_sum(numbers):\n    while True:\n        aux(1)\n", 1.5, "0 of 5 tests passed; "),
        (AUX, "def mirror_sum(numbers):\n    raise SystemExit\n", 1.5, "0 of 5"),
        ("import os\nos._exit(0)\n" + AUX, MAIN, 4.0, "5 of 5"),  # only definitions are taken
    ],
)
def test_what_is_paid_and_why(aux, main, paid, reason):
    _, (_, rewards, _, _, infos) = play(aux, main, limits={"seconds": 0.3, "total_seconds": 1.0})
    assert rewards["aux"] == rewards["main"] == pytest.approx(paid)
    assert infos["main"]["reason"].startswith(reason)
    assert infos["aux"]["metrics"] == infos["main"]["metrics"]
    assert infos["main"]["metrics"]["tests_total"] == 5.0


def test_metrics():
    _, (*_, infos) = play()
    assert infos["aux"]["metrics"] == {
        "syntax_valid": 1.0, "tests_passed": 5.0, "tests_total": 5.0, "solved": 1.0, "aux_used": 1.0, "wrapper": 0.0,
        "timeouts": 0.0, "illegal": 0.0,
    }  # fmt: skip
    _, (*_, infos) = play(
        main="def mirror_sum(n):\n    while 1:\n        pass\n", limits={"seconds": 0.2, "timeouts": 2}
    )
    assert infos["aux"]["metrics"]["timeouts"] >= 2


def test_shift_scale_and_the_format_gate():
    _, (_, rewards, *_, infos) = play(shift=-4, scale=0.5)
    assert rewards["aux"] == pytest.approx(-2.0)
    assert infos["aux"]["reward_components"]["shift"] == -4.0
    assert play(entry_format=True)[1][1]["aux"] == 4.5
    assert play(f"Here:\n{AUX}", MAIN, entry_format=True)[1][1]["aux"] == 0.0
    assert play(AUX, f"{MAIN}\ndef spare():\n    return 1\n", entry_format=True)[1][1]["aux"] == 0.0
    assert make(shift=-4)[0].max_return == 0.0
    assert make()[0].max_return == 8.0
    assert make(stop_above=3.8, num_turns=3)[0].max_return == pytest.approx(11.6)


def test_a_turn_that_pays_enough_ends_the_episode():
    env, (_, _, terminated, truncated, _) = play(stop_above=3.5)
    assert env.agents == []
    assert set(terminated.values()) == {True}
    assert set(truncated.values()) == {False}
    assert play(stop_above=4.0)[0].agents == ["aux", "main"]
    assert play(num_turns=1)[0].agents == []


def test_the_single_programmer_writes_both():
    env, told = make(agents=1)
    assert list(told) == ["coder"]
    _, rewards, *_ = env.step({"coder": f"```python\n{AUX}\n{MAIN}```"})
    assert rewards["coder"] == 4.0
    env, _ = make(agents=1)
    assert env.step({"coder": MAIN.replace("aux(n)", "str(n) == str(n)[::-1]")})[1]["coder"] == pytest.approx(2.1)


# --- feedback ----------------------------------------------------------------------------------------


def told(mode, aux=AUX, main=MAIN, **kwargs):
    return play(aux, main, feedback=mode, **kwargs)[1][0]


def test_level_feedback_on_a_right_program():
    said = told("level")
    assert said["aux"].splitlines() == [
        "Turn 2 of 2.", "What became of the last turn:", "- `aux`: found", "- `mirror_sum`: found",
        "- syntax of both together: correct", "- `mirror_sum([121, 12, 7]) == 128`: passed",
        "Write `aux` again, corrected where it is wrong.",
    ]  # fmt: skip
    assert said["main"].splitlines()[:-1] == said["aux"].splitlines()[:-1]


def test_level_feedback_on_wrong_programs():
    said = told("level", "def aux(x):\n    print(x)\n", WRAPPER, visible_tests=2)
    assert "- `aux`: found, but it returns nothing" in said["aux"]
    assert "`mirror_sum([121, 12, 7]) == 128`: failed (mirror_sum([121, 12, 7]) returned None)" in said["aux"]
    assert "- `mirror_sum` only returns what `aux` returns; do part of the work in it" in said["main"]
    assert "only returns" not in said["aux"]
    said = told("level", AUX, "def mirror_sum(numbers)\n    return 0\n")
    assert "- syntax of both together: line 4: expected ':': def mirror_sum(numbers)" in said["main"]
    assert "- `aux`: missing" in told("level", "", "")["main"]
    assert "- `mirror_sum`: missing" in told("level", "", "")["aux"]
    assert "does not call `aux`" in told("level", AUX, "def mirror_sum(n):\n    return 0\n")["main"]
    assert "drops a result" in told("level", AUX, "def mirror_sum(n):\n    aux(1)\n    return 0\n")["main"]


@pytest.mark.parametrize(
    ("visible", "shown"), [(1, [0]), (2, [0, 1]), (-1, [4]), (-2, [3, 4]), (0, range(5)), (None, range(5))]
)
def test_visible_tests(visible, shown):
    results = ["[121, 12, 7]", "[-11, 10]", "[]", "[1001, 99, 98]", "[0, 5, 50]"]
    said = told("level", visible_tests=visible)["aux"]
    assert [place for place, text in enumerate(results) if f"mirror_sum({text})" in said] == list(shown)


def test_one_bit():
    half = MAIN.replace("aux(n)", "n > 0")
    assert told("passed")["aux"].splitlines()[1] == "The last program passed the visible tests."
    assert told("passed", main=half, visible_tests=0)["aux"].splitlines()[1].endswith("did not pass the visible tests.")
    assert told("passed", main="")["aux"].splitlines()[1].endswith("did not pass the visible tests.")
    assert told("level_passed")["main"].splitlines()[1] == (
        "The last program: `aux` found yes, `mirror_sum` found yes, syntax yes, visible tests yes."
    )
    assert "syntax no, visible tests no" in told("level_passed", aux="def aux(x): return (")["main"]


def test_plain_and_none_tell_nothing_of_the_program():
    for mode in ("plain", "none"):
        assert told(mode) == told(mode, "", "x")
    assert told("none")["aux"] == "Turn 2 of 2.\nWrite `aux` again, corrected where it is wrong."
    assert "fit what your colleague" in told("plain")["aux"]


def test_the_last_turn_tells_nothing():
    env, _ = play()
    observations, *_ = env.step({"aux": AUX, "main": MAIN})
    assert set(observations.values()) == {""}
    assert env.agents == []


def test_what_a_program_prints_in_its_errors_is_made_safe():
    said = told("level", AUX, "def mirror_sum(n):\n    raise ValueError('\\x1b[2J\\u202e' + 'x' * 5000)\n")["main"]
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert len(said) < 1500


# --- experts -----------------------------------------------------------------------------------------


class Script:
    """An expert that gives prepared answers in turn."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.lock = threading.Lock()  # which no copy could take along

    def __call__(self, request):
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_an_expert_sees_both_functions_and_each_agent_is_shown_its_own():
    script = Script(
        "Sure: ```json\n" + json.dumps({"aux": "def aux(n):\n    return 1", "main": "def m(): ..."}) + "\n```"
    )
    env, (said, *_, infos) = play(feedback="expert", expert=script)
    assert AUX.strip() in script.asked[0]
    assert MAIN.strip() in script.asked[0]
    assert "mirror_sum([121, 12, 7]) == 128: passed" in script.asked[0]
    assert "def aux(n):\n    return 1" in said["aux"]
    assert "def m()" not in said["aux"]
    assert "def m(): ..." in said["main"]
    assert infos["aux"]["metrics"]["expert_failed"] == 0.0
    assert env.fork().advisor is env.advisor


def test_an_expert_is_asked_three_times_and_may_fail():
    script = Script("no", OSError("network"), '{"aux": 3} {"main": "def m(): pass"}')
    _, (said, *_) = play(feedback="expert", expert=script)
    assert len(script.asked) == 3
    assert "def m(): pass" in said["main"]
    assert "fit what your colleague" in said["aux"]
    script = Script("", "{", ConnectionError(), "never asked")
    _, (said, *_, infos) = play(feedback="expert", expert=script)
    assert len(script.asked) == 3
    assert "fit what your colleague" in said["main"]
    assert infos["aux"]["metrics"]["expert_failed"] == 1.0


def test_an_expert_by_its_path_and_both_halves_for_one():
    env, told_first = make(feedback="expert", expert="tests.envs.test_code_env:advise", agents=1)
    said, *_ = env.step({"coder": ""})
    assert said["coder"].count("def ") == 2
    assert set(told_first) == {"coder"}


def advise(request):
    assert "(missing)" in request
    return json.dumps({"aux": "def aux(): ...", "main": "def m(): ..."})


@pytest.mark.parametrize(
    "said", ["", "{", "[]", '{"aux": null}', '{"aux": " "}', "{" * 5000, '{"a":' * 3000, None, 7, '{"AUX": "x"}']
)
def test_advice_that_is_none(said):
    assert expert.read(said) == {}


# --- mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"agents": 3}, "agents must be 2, or 1"),
        ({"agents": True}, "agents must be 2, or 1"),
        ({"num_turns": 0}, "num_turns must be a whole number from 1 to 100"),
        ({"feedback": "levels"}, "feedback must be one of level, passed"),
        ({"feedback": "expert"}, "feedback='expert' needs expert="),
        ({"expert": "math:tau"}, "expert must be a function"),
        ({"expert": "nowhere:x", "feedback": "expert"}, "cannot load the expert 'nowhere:x'"),
        ({"expert": advise}, "expert= needs feedback='expert'|needs expert="),
        ({"visible_tests": 1.5}, "visible_tests must be a whole number"),
        ({"stop_above": "4"}, "stop_above must be a number"),
        ({"limits": {"second": 1}}, "limits has no 'second'. Did you mean 'seconds'?"),
        ({"limits": {"seconds": 0}}, "limits.seconds must be a number above 0"),
        ({"limits": {"processes": 1.5}}, "limits.processes must be a whole number"),
        ({"limits": 3}, "limits must map names to numbers"),
        ({"entry_format": "yes"}, "entry_format must be true or false"),
    ],
)  # fmt: skip
def test_bad_keywords(kwargs, message):
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")) as caught:
        palaver.make("coophumaneval-v0", **kwargs)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("agents", [2, 1])
@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_texts_are_paid_little_and_told_why(number, agents):
    env, _ = make(agents=agents, max_length=1_000_000)
    start = time.process_time()
    _, rewards, *_, infos = env.step(dict.fromkeys(env.agents, HOSTILE[number]))
    assert time.process_time() - start < 1.0
    assert set(rewards.values()) == {0.0}
    assert all(info["reason"] for info in infos.values())


def test_a_megabyte_of_text_or_of_code():
    for text in ("word " * 200_000, f"{MAIN}\n" * 12_000, f"{MAIN}# {'x' * 1_000_000}", "\x00" * 1_000_000):
        _, (_, rewards, *_) = play(text, text, max_length=1_000_000)
        assert 0.0 <= rewards["main"] <= 2.1


# --- the scorer fails, threads, copies ---------------------------------------------------------------


def broken(program, tests, entry_point, **_):
    result = TestResult(2, "sandbox_error", "no worker", "f() == 1")
    return Report("sandbox_error", 0, 1, (result,), 0.0, "", "no worker")


def test_what_the_sandbox_could_not_score_is_unscored(monkeypatch):
    monkeypatch.setattr(scoring, "score", broken)
    monkeypatch.setattr(scoring, "_reports", OrderedDict())
    env, (_, rewards, terminated, truncated, infos) = play(shift=-4)
    assert set(rewards.values()) == {0.0}
    assert set(infos["aux"]["reward_components"].values()) == {0.0}
    assert infos["aux"]["unscored"] is True
    assert infos["main"]["reason"] == "not scored, the sandbox failed: no worker (see `palaver doctor`)"
    assert (set(terminated.values()), set(truncated.values())) == ({False}, {True})
    assert env.agents == []
    assert "unscored" not in play(main="")[1][4]["aux"]  # nothing had to be run


def test_equal_programs_are_run_once_unless_they_were_slow_or_the_sandbox_failed(monkeypatch):
    asked, reports = [], OrderedDict()

    def counted(program, *arguments, **keywords):
        asked.append(program)
        return real(program, *arguments, **keywords)

    real = scoring.score
    monkeypatch.setattr(scoring, "score", counted)
    monkeypatch.setattr(scoring, "_reports", reports)
    monkeypatch.setattr(scoring, "KEPT", 2)
    assert play()[1] == play()[1]
    assert len(asked) == 1
    slow = "def mirror_sum(n):\n    while True:\n        aux(n)\n"
    for _ in range(2):
        play(main=slow, limits={"seconds": 0.1, "timeouts": 1})
    assert len(asked) == 3
    for number in range(3):
        play(main=f"{MAIN}\n\ndef mirror_sum(n):\n    return aux({number})\n")
    assert len(asked) == 6
    assert len(reports) == 2
    play()
    assert len(asked) == 7  # the oldest were forgotten
    monkeypatch.setattr(scoring, "score", broken)
    play(limits={"seconds": 1.5})
    assert all(report.scored for report in reports.values())


def test_many_threads_share_the_workers():
    env, _ = make(num_turns=1)
    wrong = MAIN.replace("if aux", "if not aux")
    texts = [(AUX, MAIN), (AUX, wrong), (AUX, ""), ("def aux(x):\n    return x[\n", MAIN)] * 16

    def one(texts):
        copied = env.fork()
        return copied.step(dict(zip(("aux", "main"), texts, strict=True)))[1]["aux"]

    with ThreadPoolExecutor(8) as pool:
        paid = list(pool.map(one, texts))
    assert paid[:4] * 16 == paid
    assert paid[:4] == pytest.approx([4.0, 3.2, 0.4, 1.0])


def test_copies_are_equal_and_apart():
    env, _ = play()
    twin = env.fork()
    assert twin.step({"aux": AUX, "main": MAIN}) == env.step({"aux": AUX, "main": MAIN})
    assert copy.deepcopy(env).problems is env.problems
    assert pickle.loads(pickle.dumps(env)).possible_agents == ["aux", "main"]
