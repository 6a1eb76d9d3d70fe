"""The time since a run in another process has last written."""

from __future__ import annotations

import pytest

from palaver.utils import workers


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(workers.time, "monotonic", lambda: now[0])
    return now


def test_silence_grows_until_a_file_does(clock, tmp_path):
    log, metrics = tmp_path / "log", tmp_path / "run" / "metrics.jsonl"
    kept = workers.Silence((log, metrics))
    clock[0] = 130.0
    assert kept.seconds() == 30.0  # neither file is there
    log.write_text("one\n")
    clock[0] = 150.0
    assert kept.seconds() == 0.0
    clock[0] = 170.0
    assert kept.seconds() == 20.0
    metrics.parent.mkdir()
    metrics.write_text("{}\n")
    clock[0] = 175.0
    assert kept.seconds() == 0.0
    metrics.unlink()  # a run that begins again
    clock[0] = 180.0
    assert kept.seconds() == 0.0
    clock[0] = 185.0
    assert kept.seconds() == 5.0
