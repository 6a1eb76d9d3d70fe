"""A run beside: done, failed, and stopped with the block that it belongs to."""

from __future__ import annotations

import json
import time

import pytest

from palaver.cli import folders
from palaver.cli.beside import Beside, beside
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
    run = Beside(_job(small, tmp_path / "run", "train.steps=1"), tmp_path / "log")
    assert run.finish() == "done"
    assert json.loads((tmp_path / "run" / "status.json").read_text())["step"] == 1


def test_failed(small, tmp_path):
    job = _job(small, tmp_path / "run")
    run = Beside(folders.Job(job.recipe, ("nonsense=1",), job.config, job.folder, resume=False), tmp_path / "log")
    with pytest.raises(PalaverError, match="log' says why"):
        run.finish()
    assert "unknown key 'nonsense'" in (tmp_path / "log").read_text()


def test_it_does_not_outlive_its_block(small, tmp_path):
    with beside(_job(small, tmp_path / "run", "train.steps=100000"), tmp_path / "log") as run:
        while not (tmp_path / "run" / "status.json").exists() and run.process.poll() is None:
            time.sleep(0.05)
    assert run.process.returncode == 130
    assert json.loads((tmp_path / "run" / "status.json").read_text())["status"] == "interrupted"


def test_nothing_beside(tmp_path):
    with beside(None, tmp_path / "log") as run:
        assert run is None
    assert not (tmp_path / "log").exists()
