"""What the environment adds to a record: the verdicts of programs, pictures of turns, and why some are missing."""

from __future__ import annotations

import json

import pytest

from palaver import make, registry
from palaver.benchmarks.viewer import extras
from palaver.benchmarks.viewer.page import Choices, collect
from palaver.core import Completion, PalaverError
from palaver.envs.code.sandbox.report import Report, TestResult
from palaver.episodes import Episode
from palaver.trainers.rollout.branches import start
from tests.benchmarks.test_replay import Dice, dice, played  # noqa: F401
from tests.benchmarks.viewer.made import episode, save

AUX, MAIN = "def aux(x):\n    return x % 2 == 1", "def f(xs):\n    return [x for x in xs if aux(x)]"


@pytest.fixture
def sandbox(monkeypatch):
    """In place of the sandbox: what it was asked to run, and a report of two tests."""
    asked = []

    def run(problem, program, limits):
        asked.append((problem.entry_point, program, limits))
        results = (TestResult(1, "pass", "", "f([1]) == [1]"), TestResult(2, "fail", "got []", "f([]) == 1"))
        return Report("fail", 1, 2, results, 0.1, "")

    monkeypatch.setattr(extras, "run", run)
    return asked


def program(task: str, main: str = MAIN) -> Episode:
    return episode(task, {"aux": AUX, "main": main}, env="coding_mini_v0")


def test_programs_are_run_as_the_environment_joins_them(sandbox, tmp_path):
    env = make("coding-mini-v0")
    path = save(tmp_path / "e.jsonl", program(env.tasks[0].id))
    data = collect(path, Choices(tests=True))
    (turn,) = data["episodes"][0]["turns"]
    assert sandbox == [("f", f"{AUX}\n\n{MAIN}\n", env.limits)]
    assert turn["program"] == {
        "source": data["texts"].index(f"{AUX}\n\n{MAIN}\n"), "verdict": "fail", "fault": "", "more": 0,
        "tests": [["f([1]) == [1]", "pass", ""], ["f([]) == 1", "fail", "got []"]],
    }  # fmt: skip
    assert "program" not in collect(path, Choices())["episodes"][0]["turns"][0]
    assert len(sandbox) == 1


def test_what_is_no_program_is_not_run(sandbox):
    env = make("coding-mini-v0")
    task = env.tasks[0].id
    (broken,) = extras.verdicts(env, program(task, "def f(:"))
    (missing,) = extras.verdicts(env, episode(task, completions={"aux": Completion(AUX)}, env="coding_mini_v0"))
    assert (broken["verdict"], missing["verdict"], sandbox) == ("not run", "not run", [])


def test_why_tests_were_not_run_is_told(sandbox, tmp_path):
    rows = [program("gone"), *[episode(env="arxiv_v0") for _ in range(20)]]
    notes = collect(save(tmp_path / "e.jsonl", *rows), Choices(tests=True))["notes"]
    assert notes == [
        "tests not run: the environment has no task 'gone' any more",
        "tests not run: arxiv_v0 has no programs to run; leave --tests out",
    ]
    unknown = collect(save(tmp_path / "u.jsonl", episode(env="who")), Choices(tests=True))["notes"]
    assert "tests not run: " in unknown[0]
    assert "who" in unknown[0]


def test_only_so_many_programs_are_run(sandbox, tmp_path, monkeypatch):
    monkeypatch.setattr(extras, "MOST_PROGRAMS", 2)
    task = make("coding-mini-v0").tasks[0].id
    data = collect(save(tmp_path / "e.jsonl", *[program(task) for _ in range(5)]), Choices(tests=True))
    assert ["program" in each["turns"][0] for each in data["episodes"]] == [True, True, False, False, False]
    assert data["notes"] == ["tests were run for 2 programs, not for the others"]


@pytest.fixture
def dicing(dice, monkeypatch):  # noqa: F811
    monkeypatch.setattr(registry, "_SPECS", {"dice-v0": registry._SPECS["dice-v0"]})


def test_pictures_of_the_first_episodes(dicing, tmp_path):
    """Three turns each: five pictures are enough for one of two episodes."""
    path = save(tmp_path / "e.jsonl", *played(Dice()))
    pictures = [
        [("picture" in turn) for turn in each["turns"]] for each in collect(path, Choices(pictures=5))["episodes"]
    ]
    assert pictures == [[True] * 3, [False] * 3]
    data = collect(path, Choices(pictures=6))
    assert all(
        turn["picture"].startswith("data:image/png;base64,") for each in data["episodes"] for turn in each["turns"]
    )
    assert not any(
        "picture" in turn for each in collect(path, Choices(pictures=0))["episodes"] for turn in each["turns"]
    )


def test_an_environment_that_has_changed_is_soon_left_alone(dicing, tmp_path, monkeypatch):
    tried = []
    monkeypatch.setattr(
        "palaver.benchmarks.reports.frames.start",
        lambda env, task, seed: tried.append(task) or start(env, task, seed),
    )
    (one, *_) = played(Dice())
    record = one.to_dict()
    record["turns"][0]["rewards"] = {"a": 9.0, "b": 9.0}
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(record) + "\n" for _ in range(30)))
    notes = collect(tmp_path / "e.jsonl", Choices())["notes"]
    assert notes == [
        "no pictures of t0: the environment dice_v0 no longer gives the recorded reward for task 't0', turn 1"
    ]
    assert len(tried) == extras.FAILED


def test_an_environment_without_programs_says_so():
    with pytest.raises(PalaverError, match="has no programs"):
        extras.verdicts(make("echo-v0"), episode())
