"""The pool of worker processes: crashes, stalls, Ctrl-C and a killed parent each cost one job at most."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from palaver.utils.workers import Lost, WorkerPool, write_output_to

SCRIPT = """
import os, sys, time
from pathlib import Path
from palaver.utils.workers import WorkerPool
def work(job, send):
    send(os.getpid())
    time.sleep(600)
if __name__ == "__main__":
    with WorkerPool(work, 2, 300.0) as pool:
        for job in range(3):
            pool.submit(job)
        for _, pid in pool:
            print(pid, flush=True)
"""


def _work(job, send):
    """Do a job (kind, value)."""
    kind, value = job
    send(os.getpid())
    if kind == "die":
        os._exit(value)
    if kind == "raise":
        raise ValueError(value)
    if kind == "kill":
        os.kill(os.getpid(), value)
    if kind == "sleep":
        time.sleep(value)
    if kind == "beat":
        for n in range(value):
            time.sleep(0.5)
            send(n)
    if kind == "write":
        for _ in range(10):
            time.sleep(0.5)
            with Path(value).open("a") as file:
                file.write("x")
    if kind == "log":
        write_output_to(Path(value))
        print("to stdout", flush=True)
        subprocess.run(["echo", "of another program"], check=True, timeout=60)
    return kind, value


def run(jobs, workers=1, patience=60.0, **how):
    """(messages of each job, number of processes)."""
    with WorkerPool(_work, workers, patience, **how) as pool:
        for job in jobs:
            pool.submit(job)
        found = {job: [] for job in jobs}
        for job, message in pool:
            found[job].append(message)
    pids = {messages[0] for messages in found.values()}
    assert not any(map(psutil.pid_exists, pids))
    return {job: messages[1:] for job, messages in found.items()}, len(pids)


def test_jobs_share_processes_that_are_gone_in_the_end():
    jobs = [("end", n) for n in range(6)]
    assert run(jobs, workers=2) == ({job: [job] for job in jobs}, 2)


def test_a_process_is_started_only_for_a_job(monkeypatch):
    monkeypatch.setattr("palaver.utils.workers._Worker", lambda _: pytest.fail("not needed"))
    with WorkerPool(_work, 8, 60.0) as pool:
        assert list(pool) == []


@pytest.mark.parametrize(("job", "code"), [(("die", 3), 3), (("kill", signal.SIGKILL), -9), (("raise", "a defect"), 1)])
def test_a_crash_costs_the_current_job_alone(job, code, capfd):
    found, processes = run([("end", 0), job, ("end", 1)])
    (lost,) = found.pop(job)
    assert found == {("end", 0): [("end", 0)], ("end", 1): [("end", 1)]}
    assert isinstance(lost, Lost)
    assert (lost.exit_code, lost.silent_s) == (code, 0.0)
    assert processes == 2
    assert ("ValueError: a defect" in capfd.readouterr().err) == (job[0] == "raise")


def test_a_lost_job_can_be_submitted_once_more():
    with WorkerPool(_work, 1, 60.0) as pool:
        pool.submit(("die", 3))
        seen = []
        for job, message in pool:
            if isinstance(message, Lost):
                pool.submit(("end", len(seen)))
            seen.append((job, message))
    assert seen[-1] == (("end", 1), ("end", 1))


def test_a_silent_job_is_killed_and_one_with_messages_or_a_growing_file_is_not(tmp_path):
    file = tmp_path / "metrics"
    jobs = [("sleep", 600), ("beat", 10), ("write", str(file))]
    found, _ = run(jobs, 3, 3.0, loading=120.0, files=lambda job: [file] if job[0] == "write" else [])
    (lost,) = found["sleep", 600]
    assert lost.exit_code == -signal.SIGKILL
    assert 3.0 < lost.silent_s < 60
    assert found["beat", 10] == [*range(10), ("beat", 10)]
    assert found["write", str(file)] == [("write", str(file))]


def test_output_to_a_log(tmp_path):
    run([("log", str(tmp_path / "log"))])
    assert (tmp_path / "log").read_text() == "to stdout\nof another program\n"


@pytest.mark.parametrize(("blow", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, -15), (signal.SIGKILL, -9)])
def test_no_process_outlives_its_parent(tmp_path, blow, code):
    """By Ctrl-C, which the whole group gets, or by a signal to the parent alone."""
    script = tmp_path / "parent.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        workers = [psutil.Process(int(process.stdout.readline())) for _ in range(2)]
        os.killpg(process.pid, blow) if blow == signal.SIGINT else process.send_signal(blow)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode in (code, -blow)
    assert said.count("Traceback") == (blow == signal.SIGINT)  # of the parent's KeyboardInterrupt, none of a worker
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert alive == []
