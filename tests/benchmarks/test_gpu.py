"""`palaver bench gpu`: the stages on a CPU, their records, and the exit code of a bound that fails."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch

from palaver.benchmarks.performance.gpu import right
from palaver.benchmarks.performance.gpu.record import LIMIT_S, Bound, StageRecord
from palaver.benchmarks.performance.gpu.run import run
from palaver.core import ConfigError, PolicyError

SKIPPED = {
    1: ("CUDA graphs captured", "syncs in 64 steps", "training, magrpo: losses as on a CPU"),
    2: ("kernel launches a step", "static, 8 rows: rate: bound", "CUDA graphs"),
    3: ("pass: share of the peak: bound", "refold: bound", "pass, compiled"),
    4: (
        "step, separate, B 8: bound",
        "step, lora, B 8: memory against the estimate",
        "memory of lora",
        "memory over steps",
        "peer in turns",
    ),
}
MEASURED = {
    1: ("drift, fp32, top-p, packed", "drift, adapter 1, bf16", "decode as transformers: equal rows", "resume: losses"),
    2: ("operations a step", "eager, 8 rows", "static, 8 rows: rate", "transformers, 1 rows"),
    3: ("pass: rate", "pass: share of the head", "refold", "full sync", "adapter sync"),
    4: ("step, one, B 8", "step, separate, B 1", "step, shared, B 8", "step, lora, B 8"),
}


def lines_of(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("stage", [1, 2, 3, 4])
def test_a_stage_on_a_cpu(stage, tmp_path, monkeypatch):
    """Right numbers are demanded here too; times and what CUDA alone has are skipped by name."""
    monkeypatch.setattr(right, "TRAINED", {name: right.TRAINED[name] for name in ("magrpo", "magrpo, lora")})
    logged: list[str] = []
    assert run(stage, tmp_path / "lines.jsonl", "cpu", logged.append) == []
    first, *lines = lines_of(tmp_path / "lines.jsonl")
    assert first["about"]["device"] == "cpu"
    assert first["about"]["model"]["name"] == "0.1M"
    assert len(logged) == len(lines)
    verdicts = {line["name"]: line["verdict"] for line in lines}
    assert len(verdicts) == len(lines)
    assert {verdicts[name] for name in SKIPPED[stage]} == {"SKIP"}
    wanted = {line["name"]: line for line in lines if line["name"] in MEASURED[stage]}
    assert wanted.keys() == set(MEASURED[stage])
    assert all(line["verdict"] == ("PASS" if stage == 1 else "INFO") for line in wanted.values())
    assert all(line["value"] >= 0 for line in wanted.values())
    assert all(line["reason"] for line in lines if line["verdict"] == "SKIP")


def test_values_bounds_and_errors(tmp_path):
    record = StageRecord(2, tmp_path / "out", True, lambda _: None)
    record.value("rate", 9.0, "tokens/s", Bound(10, most=False), rows=8)
    record.value("time", 9.0, "ms", Bound(10))
    record.value("none", float("nan"), "", Bound(1))

    def full():
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried")

    record.measure("full", full)
    record.measure("refused", lambda: (_ for _ in ()).throw(PolicyError("no device")))
    found = lines_of(tmp_path / "out")
    assert [line["verdict"] for line in found] == ["FAIL", "PASS", "FAIL", "FAIL", "FAIL"]
    assert found[0]["bound"] == ">= 10"
    assert found[0]["details"] == {"rows": 8}
    assert found[2]["value"] is None
    assert found[3]["reason"] == "OutOfMemoryError: CUDA out of memory. Tried"
    assert record.failed == ["rate", "none", "full", "refused"]
    with pytest.raises(ZeroDivisionError):
        record.measure("a mistake of the program", lambda: 1 // 0)


def test_a_stage_begins_nothing_after_its_time(tmp_path, monkeypatch):
    record = StageRecord(2, tmp_path / "out", True, lambda _: None)
    began = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: began + LIMIT_S + 1)
    record.measure("late", lambda: pytest.fail("measured"))
    assert [(line["verdict"], line["reason"]) for line in lines_of(tmp_path / "out")] == [
        ("SKIP", "the stage has taken 540 s already")
    ]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="--out: there is no folder"):
        run(1, tmp_path / "none" / "file", "cpu", print)
