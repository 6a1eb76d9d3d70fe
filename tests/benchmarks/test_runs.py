from __future__ import annotations

from pathlib import Path

import pytest

from palaver.benchmarks.reports.run_folder import number, numbers, read
from palaver.core import CheckpointError


def test_a_run_is_read_whole(fabricate):
    run = read(fabricate(steps=30))
    assert (len(run.train), len(run.evals), run.step) == (30, 2, 30)
    assert run.agents == ("background", "method")
    assert run.config is not None
    assert run.config.train.steps == 30
    assert run.series("time/rollout_s") == (list(range(1, 31)), [0.7] * 30)
    assert [e.task for e in run.episodes(30)] == ["a0", "a1", "a2", "a3", "a4"]
    assert run.notes == ()


def test_a_last_line_cut_in_the_middle_is_left_out_and_named(fabricate):
    folder = fabricate(steps=5)
    path = folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    run = read(folder)
    assert [line["step"] for line in run.train] == [1, 2, 3, 4]
    assert run.notes == ("metrics.jsonl: 1 unreadable line left out",)


@pytest.mark.parametrize(
    "garbage", [b"\xff\xfe\x00bad", b"[1, 2]", b'{"kind": "train"}', b"NaN", b'"step"', b"[" * 9000]
)
def test_garbage_between_good_lines_costs_only_itself(fabricate, garbage: bytes):
    folder = fabricate(steps=3)
    path = folder / "metrics.jsonl"
    path.write_bytes(garbage + b"\n" + path.read_bytes() + garbage)
    assert [line["step"] for line in read(folder).train] == [1, 2, 3]


def test_the_last_of_two_lines_for_a_step_counts(fabricate):
    folder = fabricate(steps=2)
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"kind": "train", "step": 2, "reward/mean": 7.5}\n')
    assert read(folder).series("reward/mean")[1][-1] == 7.5


def test_only_finite_numbers_are_numbers():
    line = {"a": 1, "b": float("nan"), "c": float("inf"), "d": "2", "e": True, "f": None, "g": 10**400, "h": -2.5}
    assert numbers(line) == {"a": 1.0, "h": -2.5}
    assert number(line, "absent") is None
    assert numbers("not a mapping") == {}


def test_no_folder_and_no_run_are_told_apart(tmp_path: Path):
    with pytest.raises(CheckpointError, match="there is no run folder"):
        read(tmp_path / "absent")
    with pytest.raises(CheckpointError, match="is not a run folder"):
        read(tmp_path)


def test_a_config_that_is_not_understood_is_named_and_shown(fabricate):
    folder = fabricate()
    (folder / "config.yaml").write_text("train: {stepz: 3}\n", encoding="utf-8")
    run = read(folder)
    assert run.config is None
    assert "stepz" in run.config_text
    assert "unknown key 'train.stepz'" in run.notes[0]


def test_broken_episode_lines_are_left_out(fabricate):
    folder = fabricate(evals=(0,))
    path = folder / "episodes" / "eval-000000.jsonl"
    path.write_text('{"turns": [{}]}\n{"no": 1}\n' + path.read_text(encoding="utf-8")[:-30], encoding="utf-8")
    assert [e.task for e in read(folder).episodes(0)] == ["a0", "a1", "a2", "a3"]
