"""Run folders: the lock, writes that are whole or not there, and JSON lines of which some are damaged."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from palaver.core import ConfigError
from palaver.utils import run_folder
from palaver.utils.run_folder import (
    LOCK,
    DiskError,
    DiskErrorContext,
    FolderInUseError,
    append_lines,
    locked,
    overwrite,
    publish_folder,
    read_lines,
    refuse_in_use,
    replace_text,
)

ROOT = Path(__file__).parents[2]
HOLD = """
import sys, time
from pathlib import Path
from palaver.core import PalaverError
from palaver.utils.run_folder import locked
try:
    with locked(Path(sys.argv[1])):
        print("held", flush=True)
        sys.stdin.read()
except PalaverError as error:
    print(error)
    sys.exit(2)
"""


def hold(folder):
    """A process that holds a folder until its input is closed."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_a_held_folder_is_refused_with_the_holder_and_free_when_it_is_killed(tmp_path):
    holder = hold(tmp_path / "run")
    try:
        assert holder.stdout.readline() == "held\n"
        for again in (lambda: locked(tmp_path / "run").__enter__(), lambda: refuse_in_use(tmp_path / "run")):
            with pytest.raises(FolderInUseError) as refused:
                again()
            text = str(refused.value)
            assert f"is in use by process {holder.pid} (on {socket.gethostname()}, since 20" in text
            assert "\n" not in text
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait(timeout=60)
    refuse_in_use(tmp_path / "run")
    with locked(tmp_path / "run"):
        assert json.loads((tmp_path / "run" / LOCK).read_text())["pid"] == os.getpid()
        with pytest.raises(FolderInUseError, match=f"process {os.getpid()}"), locked(tmp_path / "run"):
            pass
    assert (tmp_path / "run" / LOCK).read_text() == ""


def test_of_four_that_start_together_one_wins(tmp_path):
    crowd = [hold(tmp_path / "run") for _ in range(4)]
    try:
        said = [each.stdout.readline() for each in crowd]
        winners = [each for each, line in zip(crowd, said, strict=True) if line == "held\n"]
        assert len(winners) == 1
        losers = [line for line in said if line != "held\n"]
        assert all(f"is in use by process {winners[0].pid} " in line for line in losers)
    finally:
        for each in crowd:
            each.stdin.close()
    assert sorted(each.wait(timeout=60) for each in crowd) == [0, 2, 2, 2]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigError, match=r"cannot write .*Not a directory") as refused,
        locked(tmp_path / "file" / "run"),
    ):
        pass
    assert "\n" not in str(refused.value)


def test_what_a_killed_process_was_writing_is_swept_away(tmp_path):
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait(timeout=60)
    (tmp_path / f".writing-status.json.{done.pid}").write_text("ha")
    (tmp_path / f".writing-report.html.{os.getppid()}").write_text("of a process that lives")
    for below in ("episodes", "inner/run/deep", "inner/run"):
        (tmp_path / below).mkdir(parents=True, exist_ok=True)
        (tmp_path / below / f".writing-eval.jsonl.{done.pid}").write_text("ha")
    (tmp_path / "inner" / "run" / LOCK).touch()  # a run folder of its own
    with locked(tmp_path):
        kept = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    inner = {f"inner/run/{name}" for name in (LOCK, f".writing-eval.jsonl.{done.pid}")}
    inner.add(f"inner/run/deep/.writing-eval.jsonl.{done.pid}")
    assert kept == {LOCK, f".writing-report.html.{os.getppid()}", *inner}


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside(tmp_path, monkeypatch):
    path = tmp_path / "status.json"
    replace_text(path, "old")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run_folder.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_text(path, "new")
    assert [each.name for each in tmp_path.iterdir()] == ["status.json"]
    assert path.read_text() == "old"
    with pytest.raises(OSError, match="No space"):
        publish_folder(tmp_path / "net", lambda folder: (folder / "weights").write_text("x"))
    assert [each.name for each in tmp_path.iterdir()] == ["status.json"]


def test_lines_that_do_not_fit_leave_the_file_as_it_was(tmp_path):
    """With a real limit of the system: of the second line a part is written before the limit is met."""
    path = tmp_path / "metrics.jsonl"
    append_lines(path, [{"step": 1}])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, before[1]))
    try:
        refusal = pytest.raises(
            DiskError, match=r"cannot write '.*metrics\.jsonl': File too large; what .* is kept.*then do it"
        )
        with refusal, DiskErrorContext("do it again"):
            append_lines(path, [{"step": 2, "text": "x" * 100}])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == '{"step": 1}\n'
    append_lines(path, [{"step": 2}])
    assert read_lines(path) == ([{"step": 1}, {"step": 2}], [])


def test_overwriting_needs_no_more_room(tmp_path):
    path = tmp_path / "status.json"
    path.write_text('{"status": "running", "step": 10}')
    overwrite(path, '{"status": "failed", "step": 9}')
    assert path.read_text() == '{"status": "failed", "step": 9}'


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_fault_of_the_disk_is_named_whichever_library_met_it(number):
    reason, mend = os.strerror(number), "see to the disk" if number == errno.EIO else "make room"
    for error in (OSError(number, reason, "/runs/x"), ValueError(f"serializing: {reason} (os error {number})")):
        refusal = pytest.raises(DiskError, match=f"cannot write.*{reason}; what was complete is kept; {mend}, then")
        with refusal, DiskErrorContext("go on"):
            raise error
    after = RuntimeError("unexpected pos 39104 vs 39056")  # as torch raises when its archive could not be ended
    after.__context__ = OSError(number, reason)
    with pytest.raises(DiskError, match=reason), DiskErrorContext("go on"):
        raise after
    for other in (OSError(errno.ENOENT, "no such file"), ValueError("(os error 2)"), KeyboardInterrupt()):
        with pytest.raises(type(other)), DiskErrorContext("go on"):
            raise other


def test_damaged_lines_are_numbered_and_the_rest_is_kept(tmp_path):
    path = tmp_path / "lines.jsonl"
    sound = b'{"a": 1}'
    cases = {
        2: (b"\xfe\xfe garbage", "it is not UTF-8: byte 0 is 0xfe"),
        3: (b"5", "it is int and no object"),
        4: (b"", "it is empty"),
        5: (b'{"a": \x00}', "it is no JSON"),
        7: (b"[" * 100_000, "it is nested too deeply"),
        8: (b"null", "it is NoneType and no object"),
        9: (b'{"a": "caf\xc3', "it is cut off (it is not UTF-8: byte 10 is 0xc3)"),
    }
    path.write_bytes(b"\n".join(cases[n][0] if n in cases else sound for n in range(1, 10)))
    lines, damaged = read_lines(path)
    assert lines == [{"a": 1}] * 2
    assert [each.number for each in damaged] == list(cases)
    for each in damaged:
        raw, reason = cases[each.number]
        assert each.raw == raw
        assert each.reason.startswith(reason)
        assert "\n" not in each.reason
    assert read_lines(tmp_path / "none") == ([], [])


def test_a_lock_costs_little(tmp_path):
    began = time.process_time()
    for _ in range(100):
        with locked(tmp_path):
            pass
    assert time.process_time() - began < 2


def test_errors_chained_in_a_circle_are_no_fault_of_the_disk():
    first, second = ValueError("first"), ValueError("second")
    first.__context__, second.__context__ = second, first
    with pytest.raises(ValueError, match="first"), DiskErrorContext("go on"):
        raise first
