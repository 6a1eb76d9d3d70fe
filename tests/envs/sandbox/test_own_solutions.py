"""The public data sets load whole, and the solutions that come with them pass: none is a zero, none unscored."""

from __future__ import annotations

from pathlib import Path

import pytest

import palaver
from palaver.benchmarks.performance.sandbox import own_solutions, tally
from palaver.envs.code.sandbox import Limits, SandboxError
from tests.cpus import busy_processes

DATA = Path("/work/shared/data")
MBPP, HUMANEVAL = DATA / "mbpp/mbpp.jsonl", DATA / "humaneval/HumanEval.jsonl.gz"
COOP = DATA / "coophumaneval/coophumaneval.json"
AMPLE = Limits(seconds=20, total_seconds=60)  # one solution needs about the default of 2 s on a slow processor
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the public data sets are not on this machine")

# a function called `check`; a module, and classes, that only the solution defines; types as arguments; a long search
HARD = {"56", "349", "899", "967", "596", "367", "601", "927", "533", "123"}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("id", "path", "rows"), [("mbpp-v0", MBPP, 974), ("humaneval-v0", HUMANEVAL, 164), ("coophumaneval-v0", COOP, 82)]
)
def test_no_row_is_left_out(id, path, rows):
    env = palaver.make(id, tasks=path)
    assert len(env.problems) == len(env.tasks) == rows


def test_the_rows_that_could_not_be_scored(pools):
    jobs = [job for job in own_solutions(str(MBPP))[0] if job.task in HARD]
    reports = {
        job.task: pools().score(job.program, job.tests, job.entry_point, prompt=job.prompt, limits=AMPLE)
        for job in jobs
    }
    assert {id: report.verdict for id, report in reports.items()} == dict.fromkeys(HARD, "pass")
    lazy = {
        job.task: pools().score(f"def {job.entry_point}(*_): return None", job.tests, job.entry_point).passed
        for job in jobs
    }
    assert lazy == dict.fromkeys(HARD, 0)


def test_the_rows_are_played_without_the_solution_s_classes(pools):
    """A solver that is told of no class Node defines none; what it is given has the attributes that the tests set."""
    pools()
    env = palaver.make("mbpp-v0", tasks=MBPP, agents=1, num_turns=1)
    observations, _ = env.reset(seed=0, options={"task": "927"})
    assert "class Node" not in observations["coder"]
    text = "def max_height(n):\n    return 1 + max(max_height(n.left), max_height(n.right)) if n else 0\n"
    infos = env.step({"coder": text})[4]
    assert infos["coder"]["reason"] == "3 of 3 tests passed"


@pytest.mark.slow
@pytest.mark.parametrize("others", [0, 4])
@pytest.mark.parametrize(("path", "rows"), [(MBPP, 974), (HUMANEVAL, 164)])
def test_every_solution_passes(path, rows, others):
    try:
        with busy_processes(others):
            found = tally(str(path), 2, AMPLE)
    except SandboxError as error:
        pytest.skip(str(error))
    assert {name: found[name] for name in ("left_out", "scored_zeros", "unscored")} == {
        "left_out": {}, "scored_zeros": {}, "unscored": {},
    }  # fmt: skip
    assert (found["rows"], found["without_solution"], found["passed"]) == (rows, 0, rows)
