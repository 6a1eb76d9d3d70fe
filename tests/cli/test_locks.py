"""A folder that another process writes into is refused by every command that would write there, with its pid."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from palaver.benchmarks.experiments.marlhf import run as marlhf
from palaver.benchmarks.experiments.matrix_games import study as lab
from palaver.benchmarks.experiments.reasoning import study as reasoning
from palaver.benchmarks.judge_audit import run as audit
from palaver.benchmarks.leaderboard import board
from palaver.trainers.config.loading import load
from palaver.trainers.curriculum import ablation
from palaver.trainers.curriculum import run as curriculum
from palaver.trainers.run.files import begin
from palaver.utils.run_folder import FolderInUseError, locked

ARENA = ("arena", "matrix-v1", "game=prisoners-dilemma", "--players", "legal,first", "-n", "2", "--out", "run")


@pytest.fixture
def held(palaver):
    """A folder with a training run, held by this process."""
    Path("run").mkdir()
    begin(Path("run"), load("arxiv-magrpo"))
    Path("run/metrics.jsonl").write_text('{"kind": "eval", "step": 0}\n')
    with locked(Path("run")):
        yield palaver


@pytest.mark.parametrize(
    "command",
    [("train", "--resume", "run"), ("train", "arxiv-magrpo", "--out", "run"), (*ARENA, "--resume"), ARENA],
    ids=" ".join,
)
def test_a_second_command_ends_with_code_2_and_the_pid(held, command):
    before = Path("run/metrics.jsonl").read_bytes()
    ran = held(*command)
    assert ran.code == 2
    assert f"'run' is in use by process {os.getpid()} (on " in ran.err
    assert ran.err.strip().count("\n") == 0
    assert "Traceback" not in ran.err
    assert Path("run/metrics.jsonl").read_bytes() == before


def test_who_only_reads_needs_no_lock(held):
    ran = held("report", "run")
    assert "is in use" not in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "work",
    [
        lambda folder: lab.run(SimpleNamespace(folder=folder), {}),
        lambda folder: reasoning.run(SimpleNamespace(folder=folder), 1, {}),
        lambda folder: marlhf.run(None, folder, None),
        lambda folder: curriculum.run(None, folder, None),
        lambda folder: ablation.ablate("key", {}, folder, None),
        lambda folder: audit.audit(None, "", (), folder=folder),
        lambda folder: board.measure_all((), folder, print),
    ],
    ids=["lab", "reasoning", "marlhf and reward models", "curriculum", "ablation", "judge audit", "leaderboard"],
)
def test_every_writer_takes_the_lock_before_it_looks_at_anything(tmp_path, work):
    with locked(tmp_path), pytest.raises(FolderInUseError, match=f"process {os.getpid()}"):
        work(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
