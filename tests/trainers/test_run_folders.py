"""The folder of a training run under edits, damage, signals and full disks, and with two processes that want it."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import warnings
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from palaver.core import CheckpointError, ConfigError, PalaverWarning
from palaver.trainers.config.loading import parse
from palaver.trainers.run import logging as sinks_module
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.files import begin, config_text, refuse_edited
from palaver.trainers.run.logging import DAMAGED, RunLogger, read_metrics
from palaver.trainers.run.session import RunStart, run_session
from palaver.trainers.train import resume, train
from palaver.utils.run_folder import DiskError, FolderInUseError, locked
from tests.trainers.toys import register_toy, save_model

TIMINGS = ("wall_s", "cpu_s", "tokens_per_s", "time/")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    register_toy()
    return save_model(tmp_path_factory.mktemp("model") / "m")


def settings(model: str, **changes):
    return parse(
        {
            "env": {"id": "lengths-v0"}, "policy": {"model": model, "max_tokens": 6}, "algorithm": {"group_size": 2},
            "train": {"steps": 4, "checkpoint_every": 2}, "eval": {"n": 1, "every": 2}, "optim": {"lr": 1e-3},
            "log": {"tensorboard": True}, "device": "cpu", **changes,
        }
    )  # fmt: skip


def numbers(folder: Path) -> list[dict]:
    """The metrics without what a clock says."""
    lines = read_metrics(folder / "metrics.jsonl")
    return [{k: v for k, v in line.items() if not k.startswith(TIMINGS)} for line in lines]


def status(folder: Path) -> dict:
    return json.loads((folder / "status.json").read_text())


def half_written(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if ".writing" in path.name]


@pytest.fixture(scope="module")
def finished(model, tmp_path_factory) -> Path:
    return train(settings(model), tmp_path_factory.mktemp("runs") / "whole")


def cut(finished: Path, folder: Path) -> Path:
    """A copy that was stopped after step 3, with its newest checkpoint at step 2."""
    shutil.copytree(finished, folder)
    for step in ("step-000004", "step-000006"):
        shutil.rmtree(folder / "checkpoints" / step, ignore_errors=True)
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(line for line in lines if json.loads(line)["step"] < 4))
    return folder


# --- one process at a time -----------------------------------------------------------------------


def test_a_run_that_another_process_holds_is_neither_resumed_nor_begun(model, finished, tmp_path):
    folder = cut(finished, tmp_path / "run")
    before = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    with locked(folder):
        for again in (lambda: resume(folder), lambda: train(settings(model), folder)):
            with pytest.raises(FolderInUseError, match=f"is in use by process {os.getpid()} "):
                again()
    with locked(tmp_path / "new"), pytest.raises(FolderInUseError, match=f"process {os.getpid()} "):
        train(settings(model), tmp_path / "new")
    assert {path: path.read_bytes() for path in before} == before


# --- an edited config ----------------------------------------------------------------------------


def edit(folder: Path, **changes) -> None:
    values = yaml.safe_load((folder / "config.yaml").read_text())
    for key, value in changes.items():
        section, _, name = key.partition("__")
        values[section] = {**values[section], name: value} if name else value
    (folder / "config.yaml").write_text(yaml.safe_dump(values))


def test_an_edited_config_is_refused_with_every_difference(model, tmp_path):
    config = settings(model)
    begin(tmp_path, config)
    edit(tmp_path, train__steps=9, seed=7, optim__lr=0.001)  # the last is as it was
    with pytest.raises(ConfigError) as refused:
        resume(tmp_path)
    text = str(refused.value)
    assert re.findall(r"[\w.]+: \S+ -> [^;)]+", text) == ["train.steps: 4 -> 9", "seed: 0 -> 7"]
    assert f"Set it back, or start a new run with it: palaver train {tmp_path / 'config.yaml'} --out NEW" in text
    assert "\n" not in text


def test_a_config_written_otherwise_with_the_same_values_is_the_same(model, tmp_path):
    config = settings(model)
    begin(tmp_path, config)
    values = yaml.safe_load(config_text(config))
    text = "# my notes\n\n" + yaml.safe_dump(dict(reversed(values.items())), default_flow_style=True, width=40)
    (tmp_path / "config.yaml").write_text(text)
    (tmp_path / "checkpoints" / "step-000002").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="no valid checkpoint"):  # past the config, which is as it was
        resume(tmp_path)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (None, "is missing or damaged, so it is not known what the run began with"),
        ("{", "is missing or damaged"),
        ("[]", "is missing or damaged"),
        ('{"format": 1, "config": {}}', "has format 1, and this version of Palaver reads format 2"),
        ('{"config": {}}', "has format 1, and this version"),
        ('{"format": "x", "config": {}}', "has format x, and this version"),
    ],
)
def test_a_folder_that_does_not_say_what_it_began_with_is_refused(model, tmp_path, record, said):
    config = settings(model)
    begin(tmp_path, config)
    (tmp_path / "run.json").unlink() if record is None else (tmp_path / "run.json").write_text(record)
    with pytest.raises(CheckpointError, match=said):
        refuse_edited(tmp_path, config)


# --- damaged metrics -----------------------------------------------------------------------------

DAMAGE = {
    b"garbage": "it is no JSON",
    b"5": "it is int and no object",
    b'{"kind": "train"}': "it has no step",
    b'{"kind": "train", "step": "2"}': "it has no step",
    b'{"kind": "train", "step": true}': "it has no step",
    b'{"step": 1}': "it has no kind",
    b'{"kind": "train", "step": 1, "loss": 3}': "it is a second line of kind train for step 1",
    b"": "it is empty",
    b"\xff\xfe\xfa": "it is not UTF-8: byte 0 is 0xff",
    b'{"kind": "train", "step": 2\x00}': "it is no JSON",
    b'{"kind": "train", "step": 3, "rew': "it is cut off",
}


@pytest.mark.parametrize("damage", list(DAMAGE))
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_a_damaged_line_of_metrics_is_named_and_the_rest_is_kept(model, tmp_path, damage, place):
    sound = [{"kind": "eval", "step": 0}, *({"kind": "train", "step": n, "loss": n / 3} for n in (1, 2, 3))]
    lines = [json.dumps(line).encode() for line in sound]
    at = {"first": 0, "middle": 2, "last": 4}[place]
    (tmp_path / "metrics.jsonl").write_bytes(
        b"\n".join([*lines[:at], damage, *lines[at:]]) + (b"\n" if damage == b"" else b"")
    )
    with pytest.warns(PalaverWarning) as told:
        RunLogger(tmp_path, settings(model, log={"tensorboard": False}), 2)
    (warning,) = told
    second = place == "first" and b'"loss": 3' in damage  # the sound line of step 1 is then the second
    named = f"{tmp_path / 'metrics.jsonl'}, line {3 if second else at + 1}: "
    assert str(warning.message).startswith(named)
    assert DAMAGE[damage].removeprefix("it is cut off" if place != "last" else "") in str(warning.message)
    assert (tmp_path / DAMAGED).read_bytes() == (lines[1] if second else damage) + b"\n"
    kept = read_metrics(tmp_path / "metrics.jsonl")
    assert kept == ([json.loads(damage), sound[0], sound[2]] if second else sound[:3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RunLogger(tmp_path, settings(model, log={"tensorboard": False}), 2)  # named once


def test_a_run_with_damaged_metrics_resumes_as_the_uninterrupted_one(model, finished, tmp_path):
    folder = cut(finished, tmp_path / "run")
    lines = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    lines[1:1] = [b"\x00\x00\n", b"5\n"]
    (folder / "metrics.jsonl").write_bytes(b"junk\n" + b"".join(lines) + b'{"kind": "tra\xff')
    with pytest.warns(PalaverWarning) as told:
        resume(folder)
    named = [re.search(r"line (\d+): ", str(each.message)) for each in told]
    assert [int(found.group(1)) for found in named if found] == [1, 3, 4, 9]
    assert numbers(folder) == numbers(finished)


# --- signals -------------------------------------------------------------------------------------


class Steps:
    """A loop of a hundred steps that sends signals to its own process in the second."""

    def __init__(self, opened, sent):
        self.opened, self.sent = opened, sent

    def run(self):
        for step in range(self.opened.done + 1, 101):
            self.opened.run_logger.write("train", step, {})
            if step == 2:
                for number in self.sent:
                    os.kill(os.getpid(), number)
            self.opened.done = step
            if self.opened.interrupted():
                return


def watched(model, folder, *sent):
    config = settings(model, train={"steps": 100}, log={"tensorboard": False})
    begun = RunStart(folder)
    console = Console(file=open(os.devnull, "w"))  # noqa: SIM115
    with run_session(config, Distributed("cpu", "fp32"), begun, console) as opened:
        Steps(opened, sent).run()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_ends_after_the_step(model, tmp_path, number):
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    watched(model, tmp_path, number)
    assert (status(tmp_path)["status"], status(tmp_path)["step"]) == ("interrupted", 2)
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


@pytest.mark.parametrize("times", [2, 5])
def test_a_second_ctrl_c_records_the_step_that_was_done(model, tmp_path, times):
    with pytest.raises(KeyboardInterrupt):
        watched(model, tmp_path, *[signal.SIGINT] * times)
    assert (status(tmp_path)["status"], status(tmp_path)["step"]) == ("interrupted", 2)


def test_what_nohup_ignores_stays_ignored(model, tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        watched(model, tmp_path, signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (status(tmp_path)["status"], status(tmp_path)["step"]) == ("done", 100)


# --- full disks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1_000, 4_000, 160_000)), 60_000])
def test_a_disk_that_takes_no_more_ends_the_run_in_one_line(model, finished, tmp_path, limit):
    """The system's limit on the size of a file stands for the disk: met by the config, by the numbers for TensorBoard,
    by the weights of a policy (108 kB each), by an optimiser (216 kB each)."""
    folder = tmp_path / "run"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(DiskError) as failed:
            train(settings(model), folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert re.fullmatch(
        rf"cannot write.*: File too large; what was complete is kept; make room, then go on with: "
        rf"palaver train --resume {folder}", str(failed.value),
    )  # fmt: skip
    assert status(folder)["status"] == "failed"
    assert half_written(folder) == []
    resume(folder) if limit > 1_000 else train(settings(model), folder)
    assert numbers(folder) == numbers(finished)
    assert status(folder)["status"] == "done"


@pytest.fixture
def small_disk(tmp_path):
    """Mounts file systems of some kilobytes; skipped where that is not allowed."""
    mounted = []

    def mount(size: int) -> Path:
        place = tmp_path / f"disk-{len(mounted)}"
        place.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}k", "palaver-test", str(place)], capture_output=True, timeout=60
        )
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
        mounted.append(place)
        return place

    if not shutil.which("mount") or os.geteuid():
        pytest.skip("mounting a small file system needs root")
    yield mount
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True, timeout=60)


@pytest.mark.slow
def test_whatever_write_meets_a_full_disk_the_run_resumes_equal(model, finished, small_disk, capfd):
    """Real file systems with room for less and less of the run, so that files of several kinds do not fit."""
    met = set()
    needed = sum(path.stat().st_size for path in finished.rglob("*") if path.is_file()) // 1024
    for size in (*(needed * part // 100 for part in (95, 85, 60, 20)), 28, 20, 16, 12):
        disk = small_disk(size)
        folder = disk / "run"
        with pytest.raises(DiskError, match="No space left on device; what was complete is kept") as failed:
            train(settings(model), folder)
        named = re.match(r"cannot write '(.*?)'", str(failed.value))
        met.add(Path(named.group(1)).name if named else "written by a library")
        assert half_written(folder) == []
        if (folder / "status.json").is_file():
            assert status(folder)["status"] == "failed"
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True, timeout=60)
        if (folder / "config.yaml").is_file():
            resume(folder)
            assert numbers(folder) == numbers(finished)
            assert status(folder)["status"] == "done"
        assert "Traceback" not in capfd.readouterr().err
    assert len(met) >= 3, met


def test_tensorboard_on_a_full_disk_writes_no_traceback(model, tmp_path, capfd, monkeypatch):
    sinks = RunLogger(tmp_path, settings(model), 0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(sinks_module, "append_lines", lambda *_: None)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            [sinks.write("train", step, {"loss": 0.5, "reward": 1.0}) for step in range(20)]
        sinks.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert capfd.readouterr().err == ""
