"""Questions of reasoning-gym: how answers are read, their scores, hostile answers, and sets that repeat."""

from __future__ import annotations

import functools
import math
import re
import time

import pytest

import palaver
from palaver.core import ConfigError, TaskError
from palaver.envs.base import checks
from palaver.envs.maths import procedural
from palaver.envs.maths.procedural import ProceduralScorer, given, load_procedural, score_answer
from palaver.envs.maths.procedural_worker import is_arithmetic

FAMILIES = ("chain_sum", "gcd", "countdown", "spiral_matrix", "simple_integration", "number_sorting", "n_queens")
FAMILIES += ("word_sorting", "mini_sudoku", "polynomial_equations")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so\n#### 1 2\n3 4\n", "1 2\n3 4"),
        ("#### 1 no: #### 2", "2"),
        ("it is \\boxed{x^{2}}.", "x^{2}"),
        ("<answer>B</answer> or <answer> C </answer>", "C"),
        ("<think>#### 3</think> 42 ", "42"),
        ("####", ""),
        ("", ""),
    ],
)
def test_the_answer_in_a_text(text, answer):
    assert given(text) == answer


def test_votes_count_equal_answers():
    key = ProceduralScorer().key
    assert key("#### 7.0") == key("so #### 7") == key("7") == "7"
    assert key("#### [1, 2]") != key("#### [1, 3]")
    assert key("#### Knight ,  Knave") == key("knight , knave")
    assert key("") == ""


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("x**2/2 + 3*x*asin(3*x) + sqrt(1 - 9*x**2)/3 + C", True),
        ("40*(94 - 90) + 83 - 74", True),
        ("__import__('os').system('true')", False),
        ("open(x)", False),
        ("x.n()", False),
        ("[x for x in y]", False),
        ("9**9**9", False),
        ("9**(9*999*999)", False),
        ("2**1000", False),
        ("exec(x)", False),
        ("999999!", False),
    ],
)
def test_only_arithmetic_is_evaluated(text, accepted):
    assert is_arithmetic(text) is accepted


@pytest.mark.parametrize(
    "source", ["rg:", "rg:chain_sum", "rg:chain_sum:0:1", "rg:chain_sum:5:x", "rg:a b:5:1", "rg:a:5:1[x]"]
)
def test_sources_that_cannot_be_read(source):
    with pytest.raises(TaskError, match="cannot be read; write rg:NAME:SIZE:SEED"):
        palaver.make("gsm8k-v0", tasks=source)


def test_without_the_extra_one_line_names_it(monkeypatch):
    monkeypatch.setattr("palaver.core.importlib.util.find_spec", lambda _: None)
    with pytest.raises(
        ConfigError, match=r"needs reasoning_gym; install it with: pip install 'palaver\[reasoning-gym\]'"
    ):
        palaver.make("gsm8k-v0", tasks="rg:chain_sum:5:7")


def needs_reasoning_gym():
    return pytest.importorskip("reasoning_gym")


def test_an_unknown_family_gets_a_suggestion():
    needs_reasoning_gym()
    with pytest.raises(TaskError, match=r"no family 'chain_sm'\. Did you mean 'chain_sum'\?"):
        palaver.make("gsm8k-v0", tasks="rg:chain_sm:5:7")


def answers_to(question, right):
    """Right, partly right, and wrong answers, and one in the form of a list."""
    rows = [[int(n) for n in line.split()] for line in right.splitlines() if re.fullmatch(r"[\d ]+", line)]
    return [right, f"The answer: {right}", right[: len(right) // 2], "0", "", str(rows), str(rows[0] if rows else [])]


def test_scores_are_those_of_reasoning_gym():
    """On 100 questions of 10 families, 7 answers each."""
    library = needs_reasoning_gym()
    compared, between = 0, 0
    for family in FAMILIES:
        dataset = library.create_dataset(family, size=10, seed=11)
        tasks = load_procedural(f"rg:{family}:10:11")
        assert [(task["question"], task["answer"]) for task in tasks] == [(i["question"], i["answer"]) for i in dataset]
        for task, item in zip(tasks, dataset, strict=True):
            assert score_answer(task, task["answer"]) == (1.0, "")
            for answer in answers_to(task["question"], task["answer"]):
                own = dataset.score_answer(answer, item)
                score, error = score_answer(task, answer)
                assert (score, error) == (pytest.approx(own, abs=1e-9), ""), (family, answer)
                between += 0 < score < 1
            compared += 1
    assert compared == 100
    assert between > 20


def chain_sum(question):
    return eval(question.partition(":")[2].rpartition("=")[0])


def gcd(question):
    return math.gcd(*map(int, re.findall(r"\d+", question.partition(":")[2])))


def count_bits(question):
    return bin(int(re.search(r"number (\d+)", question)[1])).count("1")


@pytest.mark.parametrize(("family", "solve"), [("chain_sum", chain_sum), ("gcd", gcd), ("count_bits", count_bits)])
@pytest.mark.parametrize("workflow", ["vote", "debate"])
def test_answers_worked_out_here_are_right(family, solve, workflow):
    needs_reasoning_gym()
    env = palaver.make("gsm8k-v0", tasks=f"rg:{family}:20:5[:10]", workflow=workflow)
    assert len(env.tasks) == 10
    for index in range(10):
        env.reset(options={"task": index})
        right = solve(env.task["question"])
        texts = dict.fromkeys(env.agents, f"It is #### {right}")
        texts[env.agents[0]] = f"It is #### {right + 100_000}"
        _, rewards, _, _, infos = env.step(texts)
        least = score_answer(env.task, str(right + 100_000))[0]
        shares = [least, *[1.0] * (len(texts) - 1)]
        assert list(rewards.values()) == pytest.approx([sum(shares) / len(shares)] * len(shares))
        metrics = next(iter(infos.values()))["metrics"]
        assert metrics["scoring_failed"] == 0.0
        if workflow == "vote":
            assert metrics["correct"] == 1.0


def test_other_environments_of_maths_and_workflows():
    needs_reasoning_gym()
    keywords = {"workflow": "parallel", "agents": 1}
    for env in (
        palaver.make("maths-mini-v0", tasks="rg:gcd:4:2", workflow="vote"),
        palaver.make("workflow-v0", env="gsm8k-v0", tasks="rg:gcd:4:2", workflow="vote", keywords=keywords),
    ):
        env.reset(options={"task": 0})
        texts = dict.fromkeys(env.agents, f"#### {gcd(env.task['question'])}")
        assert set(env.step(texts)[1].values()) == {1.0}


def test_the_contract():
    """Word ladders depend on the order of hashing: the same process made them all the same."""
    needs_reasoning_gym()
    checks.check(functools.partial(palaver.make, "gsm8k-v0", tasks="rg:word_ladder:4:3", workflow="vote"))


def test_hostile_answers_are_not_evaluated(tmp_path):
    needs_reasoning_gym()
    path = tmp_path / "made"
    code = f"[open({str(path)!r}, 'w')]"
    for family in ("countdown", "spiral_matrix", "n_queens", "string_insertion", "binary_matrix", "simple_integration"):
        (task,) = load_procedural(f"rg:{family}:1:1")
        for answer in (
            code,
            code[1:-1],
            "(" * 5000,
            "9**9**9**9",
            "[" * 3000 + "]" * 3000,
            "9" * 5000,
            "\x00",
            "(9**9)!",
        ):
            began = time.monotonic()
            score, _ = score_answer(task, answer)
            assert score < 0.1, (family, answer[:40])
            assert time.monotonic() - began < 30, (family, answer[:40])
    assert not path.exists()


def test_an_answer_that_takes_too_long_is_counted(monkeypatch):
    needs_reasoning_gym()
    env = palaver.make("gsm8k-v0", tasks="rg:countdown:2:1", workflow="vote")
    env.reset(options={"task": 0})
    monkeypatch.setattr(procedural, "SCORE_S", 2.0)
    texts = dict.fromkeys(env.agents, "#### ((9**999)**999)**999")  # one multiplication, which no signal ends
    texts["solver1"] = "#### 1"
    *_, infos = env.step(texts)
    assert infos["solver1"]["metrics"]["scoring_failed"] == pytest.approx(2 / 3)
    assert infos["solver1"]["reason"].endswith("no reply within 2 seconds")
    monkeypatch.undo()
    assert score_answer(env.task, env.task["answer"]) == (1.0, "")
