"""Word problems: the sample's own arithmetic, files in the public schema, and the real data where it is there."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

import palaver
from palaver.core import TaskError
from palaver.envs.maths import answers
from palaver.envs.maths.env import SAMPLE

PUBLIC = Path("/work/shared/data/gsm8k")


def test_the_sample_adds_up():
    """Every equation in the solutions holds, and the last one gives the answer."""
    rows = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    assert len(rows) >= 16
    assert len({row["question"] for row in rows}) == len(rows)
    for row in rows:
        body, _, final = row["answer"].rpartition("#### ")
        sums = re.findall(r"([\d(][\d,+*/() .-]*) = \$?(-?[\d,]+(?:/\d+)?)", body)
        assert sums, row["id"]
        for left, right in sums:
            assert eval(left.replace(",", "")) == Fraction(right.replace(",", "")), (row["id"], left, right)
        results = [Fraction(right.replace(",", "")) for _, right in sums]
        assert Fraction(final.replace(",", "")) in results or row["id"] == "own-11"  # whole days, by what is left over


@pytest.mark.skipif(not PUBLIC.is_dir(), reason=f"{PUBLIC} is not there")
@pytest.mark.parametrize(("name", "rows"), [("train", 1000), ("test", 300)])
def test_the_public_data_loads_wholly(name, rows):
    env = palaver.make("gsm8k-v0", tasks=str(PUBLIC / f"{name}.jsonl"))
    assert len(env.tasks) == rows
    for task in env.tasks:
        final = task["answer"].rpartition("#### ")[2].replace(",", "")
        assert answers.gold(task["answer"]).value == Fraction(final)
        assert answers.read(task["answer"]).value == Fraction(final)
    env.reset(options={"task": 0})
    assert env.step(dict.fromkeys(env.agents, env.tasks[0]["answer"]))[1] == {"solver1": 1.0, "solver2": 1.0}


def test_any_questions_and_answers(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("id,question,answer\nq,Which town lies on the Seine?,Paris\n")
    env = palaver.make(
        "gsm8k-v0", tasks=path, workflow="vote", reward_scheme={"no_answer": 1, "format": 0.5, "who": "own"}
    )
    env.reset(options={"task": "q"})
    _, rewards, *_ = env.step({"solver1": "#### paris", "solver2": "Paris", "solver3": "#### Rome"})
    assert rewards == {"solver1": 1.0, "solver2": -1.5, "solver3": 0.0}


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"question": "1 + 1?"}, "'answer' is missing"),
        ({"question": "1 + 1?", "answer": "two ####"}, "no answer after"),
    ],
)
def test_rows_that_cannot_be_used(tmp_path, row, told):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(TaskError, match=told):
        palaver.make("gsm8k-v0", tasks=str(path))
