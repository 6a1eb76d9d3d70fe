"""Reading problems: the public schemas, and one clear error that names the row for what is none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import palaver
from palaver.core import PalaverWarning, TaskError
from palaver.envs.code import problems
from palaver.envs.code import problems as context
from palaver.envs.code.corpus import solutions
from palaver.envs.code.sandbox import score

DATA = Path("/work/shared/data")
GOOD = {
    "task_id": "mine/7",
    "prompt": 'import math\n\ndef scale(x):\n    return x * 2\n\ndef f(x):\n    """Return x."""\n',
    "test": "def check(candidate):\n    assert candidate(1) == 1\n    assert candidate(2) == 2\n",
    "entry_point": "f",
}
BASIC = {
    "task_id": 3,
    "text": "Write a function to double a number.",
    "code": "def half(x):\n    return x / 2\ndef double(x):\n    return 2 * x",
    "test_list": ["assert double(1) == 2", "assert double(len([1])) == 2"],
    "test_setup_code": "import math",
    "challenge_test_list": [],
}


def write(tmp_path, rows, name="rows.jsonl"):
    path = tmp_path / name
    text = json.dumps(rows) if path.suffix == ".json" else "".join(json.dumps(row) + "\n" for row in rows)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.json"])
@pytest.mark.parametrize("id", ["coophumaneval-v0", "humaneval-v0", "mbpp-v0"])
def test_files_in_the_public_schema(tmp_path, id, name):
    env = palaver.make(id, tasks=write(tmp_path, [GOOD], name))
    problem = env.problems["mine/7"]
    assert (problem.entry_point, problem.total) == ("f", 2)
    assert problem.context == "import math\n\ndef scale(x):\n    return x * 2"


@pytest.mark.parametrize("spelling", ["text", "prompt"])
def test_the_schemas_of_mbpp(tmp_path, spelling):
    row = {**BASIC, spelling: BASIC["text"], "test_imports": ["import re"]}
    if spelling == "prompt":
        del row["text"]
    env = palaver.make("mbpp-v0", tasks=write(tmp_path, [row]))
    problem = env.problems["3"]
    assert (problem.entry_point, problem.total) == ("double", 2)
    assert problem.prompt == (
        "Write a function to double a number.\n\nThe function is called like this:\nassert double(1) == 2\n"
    )
    assert problem.tests.startswith("import re\nimport math\nassert double(1) == 2\n")
    assert score("def double(x):\n    return 2 * x", problem.tests, "double").verdict == "pass"


def test_the_entry_point_is_what_all_tests_call(tmp_path):
    row = {key: value for key, value in BASIC.items() if key != "code"}
    row["test_list"] = ["assert set(pick([1])) == set([1])", "assert pick([]) == [] or other(1)"]
    assert palaver.make("mbpp-v0", tasks=write(tmp_path, [row])).problems["3"].entry_point == "pick"
    row |= {"entry_point": "set", "test_setup_code": "def pick(x): return x"}
    assert palaver.make("mbpp-v0", tasks=write(tmp_path, [row])).problems["3"].entry_point == "set"


@pytest.mark.parametrize("name", ["check", "candidate", "tests", "trial", "program", "score"])
def test_names_of_ours_do_not_collide_with_those_of_a_row(tmp_path, name):
    """A function of the data set's may be called as one that the sandbox uses."""
    listed = {**BASIC, "task_id": 1, "code": "", "test_list": [f"assert {name}(1) == 2", f"assert {name}(2) == 4"]}
    checked = {**GOOD, "entry_point": name, "prompt": f"def {name}(x):\n", "task_id": 2}
    checked["test"] = "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(2) == 4\n"
    env = palaver.make("mbpp-v0", tasks=write(tmp_path, [listed, checked]))
    for problem in env.problems.values():
        assert (problem.entry_point, problem.total) == (name, 2)
        right, wrong = (f"def {name}(x):\n    return {result}" for result in ("2 * x", "2"))
        assert score(right, problem.tests, name, prompt=problem.context).passed == 2
        assert score(wrong, problem.tests, name, prompt=problem.context).passed == 1


SOLUTION = """
import sys
from os import path
import numpy
class Base:
    size = sys.maxsize
class Node(Base):
    def __init__(self, value): self.value = value
def helper(x): return f(x) + 1
def f(x): return x
"""


@pytest.mark.parametrize(
    ("tests", "taken"),
    [
        ("assert f(1) == 2", ""),
        ("assert f(sys.maxsize) == 2", "import sys\n"),
        ("assert f(path) == 2", "from os import path\n"),
        ("import sys\nassert f(sys.maxsize) == 2", ""),
        ("for sys in (1, 2):\n    assert f(sys)", ""),
        ("assert f(Base) == 2", "import sys\nclass Base:"),
        ("assert f(Node(1)) == 2", "import sys\nclass Base:\n    size = sys.maxsize\nclass Node(Base):"),
        ("assert f(1) == helper(0)", "def helper(x):"),
        ("assert g(f(1))", ""),
    ],
)
def test_tests_take_what_they_need_of_the_solution_and_never_the_entry_point(tests, taken):
    found = context.self_contained(tests, "f", (), SOLUTION)
    assert found.startswith(taken)
    assert found.endswith(tests)
    assert (found == tests) == (taken == "")
    assert "def f(" not in found


def test_a_helper_of_the_solution_is_run_with_the_program_s_own_function():
    tests = context.self_contained("assert f(1) == helper(0)", "f", (), SOLUTION)
    assert score("def f(x): return x", tests, "f").verdict == "pass"
    assert score("def helper(x): return f(1)\ndef f(x): return x", tests, "f").verdict == "pass"
    assert score("def helper(x): return f(1)\ndef f(x): return 2 * x", tests, "f").verdict == "fail"


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ("import numpy as np\nassert f(np.ones(1))", "import 'numpy', and only the standard library"),
        ("def check(candidate):\n    from pandas.io import x\n    assert candidate(x)", "import 'pandas.io'"),
        ("assert f(helper(1)) == 2", "read 'helper', which nothing defines"),
        ("def check(candidate):\n    assert candidate(1) == helper(2)", "read 'helper', which nothing defines"),
        ("assert f(lambda x: x) == 2", "pass a function as an argument, `lambda x: x`"),
        ("def g(): pass\nassert f(key=g) == 2", "pass a function as an argument, `g`"),
        ("def check(c):\n    assert c(print) == 2", "pass a function as an argument, `print`"),
        ("assert f(x for x in [1]) == 2", "pass a function as an argument, `(x for x in [1])`"),
    ],
)
def test_tests_that_no_program_could_pass_are_known_at_load(tmp_path, tests, message):
    assert message in context.fault(tests, "f", ())
    rows = [{**GOOD, "task_id": "mine/0"}, {**GOOD, "test": tests}]
    with pytest.warns(PalaverWarning, match="1 of 2 rows left out") as warned:
        env = palaver.make("humaneval-v0", tasks=write(tmp_path, rows))
    assert list(env.problems) == ["mine/0"]
    assert message in str(warned[0].message)


@pytest.mark.parametrize(
    "tests",
    [
        "assert f(int) == 2",
        "try:\n    import numpy\nexcept ImportError:\n    numpy = None\nassert f(numpy) is None",
        "assert f(1) == 1 or helper(1)",
        "from math import *\nassert f(1) == sqrt(1)",
        "print = 3\nassert f(print) == 3",
        "assert [f(len) for len in [1]] == [1]",
        "def check(candidate):\n    def g(x): return x\n    assert g(candidate(1)) == 1",
        "assert sorted([1], key=f) == [1]",
    ],
)
def test_tests_that_may_be_passed_are_not_left_out(tests):
    assert context.fault(tests, "f", ()) == ""


WRONG = {
    "no prompt": (
        {"prompt": None},
        "the field 'prompt' is missing or empty; it has task_id, prompt, test, entry_point",
    ),
    "empty tests": ({"test": " "}, "the field 'test' is missing or empty"),
    "no entry point": ({"entry_point": ""}, "the field 'entry_point' is missing or empty"),
    "an entry point that is no name": ({"entry_point": "f()"}, "the entry point 'f()' is no name"),
    "an entry point that is a keyword": ({"entry_point": "lambda"}, "the entry point 'lambda' is no name"),
    "an entry point called aux": ({"entry_point": "aux"}, "the entry point 'aux' is no name"),
    "tests that do not parse": ({"test": "def check(candidate):\n    assert ("}, "the tests do not parse"),
    "tests that assert nothing": ({"test": "def check(candidate):\n    candidate(1)\n"}, "the tests hold no assertion"),
    "tests without the entry point": (
        {"test": "def check(candidate):\n    assert g(1) == 1\n"},
        "check never calls its",
    ),
    "assertions without it": ({"test": "assert g(1) == 1\n"}, "the tests never call 'f'"),
    "a prompt of another function": ({"entry_point": "g"}, "the prompt defines scale, f, not the entry point 'g'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_bad_row_is_named(tmp_path, name):
    changes, message = WRONG[name]
    with pytest.raises(TaskError) as caught:
        palaver.make("coophumaneval-v0", tasks=str(write(tmp_path, [{**GOOD, **changes}])))
    path = write(tmp_path, [{**GOOD, "task_id": "mine/0"}, {**GOOD, **changes}])
    with pytest.warns(PalaverWarning, match="1 of 2 rows left out") as warned:
        env = palaver.make("coophumaneval-v0", tasks=str(path))
    assert list(env.problems) == ["mine/0"]
    for text in (str(caught.value), str(warned[0].message)):
        assert message in text
        assert "task 'mine/7'" in text
        assert "rows.jsonl" in text
        assert "\n" not in text


def test_a_row_without_a_name_is_told_by_its_number(tmp_path):
    nameless = {key: value for key, value in GOOD.items() if key != "task_id"}
    path = write(tmp_path, [nameless, nameless | {"test": "("}])
    with pytest.warns(PalaverWarning, match="left out.*: row 1; .*task 'row-1': the tests do not parse"):
        palaver.make("humaneval-v0", tasks=str(path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test_list": []}, "the field 'test_list' is missing or empty"),
        ({"test_list": "assert double(1) == 2"}, "the field 'test_list' must be a list of texts, got str"),
        ({"test_list": ["assert double(1 == 2"]}, "a test is not Python (line 1: '(' was never closed)"),
        ({"test_list": ["assert len([]) == 0"], "code": ""}, "call no function in common"),
        ({"text": ""}, "the field 'text' is missing or empty"),
    ],
)
def test_a_bad_row_of_mbpp_is_named(tmp_path, changes, message):
    with pytest.raises(TaskError) as caught:
        palaver.make("mbpp-v0", tasks=str(write(tmp_path, [{**BASIC, **changes}])))
    assert message in str(caught.value)
    assert "task '3'" in str(caught.value)


@pytest.mark.parametrize(("id", "rows"), [("coophumaneval-v0", 16), ("humaneval-v0", 12), ("mbpp-v0", 12)])
def test_the_sample_sets(id, rows):
    env = palaver.make(id)
    assert len(env.tasks) == rows >= 12
    for task in env.tasks:
        problem = env.problems[task.id]
        assert problem.total >= 2
        assert problem.entry_point in solutions()
        idle = score(f"def {problem.entry_point}(*values):\n    return None", problem.tests, problem.entry_point)
        assert idle.verdict != "pass"


def test_the_samples_of_humaneval_have_solutions_that_pass():
    for task in palaver.make("humaneval-v0").tasks:
        report = score(
            task["prompt"] + task["canonical_solution"], task["test"], task["entry_point"], prompt=task["prompt"]
        )
        assert report.verdict == "pass", task.id


@pytest.mark.skipif(not DATA.is_dir(), reason="the public data sets are not on this machine")
@pytest.mark.parametrize(
    ("id", "file", "rows"),
    [
        ("coophumaneval-v0", "coophumaneval/coophumaneval.json", 82),
        ("humaneval-v0", "humaneval/HumanEval.jsonl.gz", 164),
    ],
)
def test_the_public_data(id, file, rows):
    env = palaver.make(id, tasks=str(DATA / file))
    assert len(env.tasks) == rows
    assert all(f"def {problem.entry_point}" in problem.prompt for problem in env.problems.values())
    assert all(
        f"`{env.problems[task.id].entry_point}`" in env.reset(options={"task": task.id})[0]["aux"] for task in env.tasks
    )


def test_problems_are_shared_by_copies():
    env = palaver.make("mbpp-v0")
    env.reset(seed=0)
    assert env.fork().problems is env.problems


def test_a_problem_alone():
    from palaver.envs.base.tasks import Task

    assert problems.problem(Task("a", GOOD)).entry_point == "f"
