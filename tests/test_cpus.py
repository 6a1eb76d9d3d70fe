"""`make test-cpus`: settings and how pytest is called and counted in them; its busy processes end with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests import cpus
from tests.cpus import Outcome, Setting


def test_every_instruction_set_with_one_and_two_threads_and_the_best_on_a_busy_machine():
    assert list(map(str, cpus.settings(["default", "avx2"]))) == [
        "default, 1 thread", "default, 2 threads", "avx2, 1 thread", "avx2, 2 threads",
        "avx2, 1 thread, 4 busy processes",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [("default", "default SSE41 SSE4_2"), ("avx2", "avx2 AVX2 AVX2"), ("avx512", "avx512 AVX512_CORE AVX512")],
)
def test_the_environment_of_a_setting(name, expected):
    found = Setting(name, 2).environment({"HOME": "/h", "OMP_NUM_THREADS": "7"})
    assert " ".join(found[variable] for variable in cpus.VARIABLES) == expected
    assert (found["HOME"], found["OMP_NUM_THREADS"], found["MKL_NUM_THREADS"]) == ("/h", "2", "2")


def test_the_command_of_a_setting():
    start = [sys.executable, "-m", "pytest", "-n"]
    given = cpus.command(Setting("avx2", 1), ["tests/x.py"], Path("r.xml"), jobs=4)
    assert given == [*start, "4", "--dist", "worksteal", "--junitxml=r.xml", "tests/x.py"]
    assert cpus.command(Setting("avx2", 2), ["x"], Path("r"), jobs=4)[4] == "2"
    assert cpus.command(Setting("avx2", 2), ["x"], Path("r"), jobs=1)[4] == "1"
    busy = cpus.command(Setting("avx2", 1, busy=4), [], Path("r"), jobs=1)
    assert "timeout=1200" in busy
    assert busy[-2 - len(cpus.TESTS) :] == ["-m", "not slow", *cpus.TESTS]
    assert all((cpus.ROOT / path).exists() for path in cpus.TESTS)


def test_the_variables_take_effect_and_the_best_is_found_whatever_is_set():
    names = cpus.instruction_sets({**os.environ, "ATEN_CPU_CAPABILITY": "default"})
    code = "import torch; print(torch.backends.cpu.get_cpu_capability().lower(), torch.get_num_threads())"
    environment = Setting("default", 2).environment(os.environ)
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    if len(names) > 1:  # a CPU that is no x86 answers with a name of its own
        assert found.stdout.split() == ["default", "2"]


def test_outcomes_are_counted_and_a_failure_decides_the_exit_code(tmp_path, monkeypatch, capsys):
    (tmp_path / "test_some.py").write_text(
        "import os, pytest\ndef test_a(): assert os.environ['OMP_NUM_THREADS'] == '2'\n"
        "def test_b(): assert False\ndef test_c(): pytest.skip('why')\n"
        "@pytest.fixture\ndef broken(): raise ValueError\ndef test_d(broken): pass\n"
    )
    found = cpus.run(Setting("default", 2), [str(tmp_path)], jobs=1)
    assert (found.passed, found.failed, found.skipped) == (1, 2, 1)
    outcomes = iter([Outcome(Setting("avx2", 1), 9, 0, 0, 61.4), found])
    monkeypatch.setattr(cpus, "instruction_sets", lambda _: ["default"])
    monkeypatch.setattr(cpus, "settings", lambda _: [Setting("avx2", 1), Setting("default", 2)])
    monkeypatch.setattr(cpus, "run", lambda *_: next(outcomes))
    assert cpus.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-4:-1] for line in lines[-2:]] == [["9", "0", "0"], ["1", "2", "1"]]
    outcomes = iter([Outcome(Setting("avx2", 1), 9, 0, 0, 1.0)] * 2)
    assert cpus.main([]) == 0


def test_a_setting_without_any_test_has_failed(tmp_path):
    assert cpus.run(Setting("default", 1), [str(tmp_path)], jobs=1).failed == 1


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_busy_processes_end_with_their_parent(blow):
    code = (
        "import signal, time\nfrom tests import cpus\n"
        "signal.signal(signal.SIGTERM, cpus._terminated)\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with cpus.busy_processes(4) as running:\n"
        "    print(*(process.pid for process in running), flush=True)\n    time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=cpus.ROOT, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL)  # fmt: skip
    with parent:
        busy = [int(pid) for pid in parent.stdout.readline().split()]
        try:
            assert len(busy) == 4
            assert all(psutil.pid_exists(pid) for pid in busy)
        finally:
            parent.send_signal(blow)
        assert parent.wait(timeout=60) != 0
    until = time.monotonic() + 60
    while any(map(alive, busy)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(alive, busy))


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
