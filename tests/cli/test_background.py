"""A background run: done, failed, and stopped with the block that it belongs to."""

from __future__ import annotations

import json
import signal
import time

import pytest

from palaver.cli import folders
from palaver.cli.commands.demo import BackgroundRun, in_background
from palaver.core import PalaverError


@pytest.fixture
def small(model) -> list[str]:
    return [
        f"policy.model={model}", "policy.max_tokens=4", "algorithm.group_size=2", "eval.n=1", "log.tensorboard=false",
        "train.prompts_per_step=1",
    ]  # fmt: skip


def _job(small, folder, *more):
    return folders.plan("coding-mini-magrpo", [*small, *more], False, folder)


def test_done(small, tmp_path):
    run = BackgroundRun(_job(small, tmp_path / "run", "train.steps=1"), tmp_path / "log")
    assert run.finish() == "done"
    assert json.loads((tmp_path / "run" / "status.json").read_text())["step"] == 1


def test_failed(small, tmp_path):
    job = _job(small, tmp_path / "run")
    run = BackgroundRun(
        folders.TrainJob(job.recipe, ("nonsense=1",), job.config, job.folder, resume=False), tmp_path / "log"
    )
    with pytest.raises(PalaverError, match=r"failed with exit code 2; see .*log'"):
        run.finish()
    assert "unknown key 'nonsense'" in (tmp_path / "log").read_text()


@pytest.fixture
def hangs(tmp_path, monkeypatch):
    """A substitute for Python writes one line; Ctrl-C ends it."""
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho up\nexec sleep 600\n")
    script.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(script))
    monkeypatch.setattr("palaver.cli.commands.demo.WATCH_S", 0.1)


def test_one_that_writes_nothing_is_stopped(hangs, small, tmp_path, monkeypatch):
    monkeypatch.setattr("palaver.cli.commands.demo.STALLED_S", 1.0)
    run = BackgroundRun(_job(small, tmp_path / "run"), tmp_path / "log")
    with pytest.raises(PalaverError, match=r"wrote nothing for 1 seconds and was stopped; resume with: palaver train"):
        run.finish()
    assert run.process.returncode == -signal.SIGINT


def test_one_that_heeds_no_ctrl_c_is_killed(hangs, small, tmp_path, monkeypatch):
    monkeypatch.setattr("palaver.cli.commands.demo.PATIENCE_S", 0.5)
    (tmp_path / "python").write_text("#!/bin/sh\ntrap '' INT\necho up\nexec sleep 600\n")
    with in_background(_job(small, tmp_path / "run"), tmp_path / "log") as run:
        while not (tmp_path / "log").read_text():
            time.sleep(0.01)
    assert run.process.returncode == -signal.SIGKILL


def test_it_does_not_outlive_its_block(small, tmp_path):
    with in_background(_job(small, tmp_path / "run", "train.steps=100000"), tmp_path / "log") as run:
        while not (tmp_path / "run" / "status.json").exists() and run.process.poll() is None:
            time.sleep(0.05)
    assert run.process.returncode == 130
    assert json.loads((tmp_path / "run" / "status.json").read_text())["status"] == "interrupted"


def test_nothing_beside(tmp_path):
    with in_background(None, tmp_path / "log") as run:
        assert run is None
    assert not (tmp_path / "log").exists()
