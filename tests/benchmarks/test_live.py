"""The live page: what it serves to whom, a metrics file that grows, and how it ends."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

from palaver.benchmarks.reports import live
from palaver.core import CheckpointError, ConfigError


def set_status(folder: Path, status: str, pid: int | None = None) -> None:
    (folder / "status.json").write_text(json.dumps({"status": status, "step": 1, "pid": pid or os.getpid()}))


@pytest.fixture
def running(fabricate):
    folder = fabricate(steps=12)
    set_status(folder, "running")
    return folder


def get(server: live.LiveServer, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(server.host, timeout=10)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_the_page_and_its_data(running):
    with live.LiveServer(running) as server:
        home = f"/{server.token}/"
        code, text = get(server, home)
        assert code == 200
        assert "connect-src 'self'" in text
        code, text = get(server, f"{home}data")
        found = json.loads(text)
        assert (found["ended"], found["status"]) == (False, "running, step 30 of 30")
        training, evaluated = found["reward"]["curves"]
        assert len(training["mean"]) == 12
        assert evaluated["band"] == [[pytest.approx(0.1), pytest.approx(2.1)], [pytest.approx(0.4), pytest.approx(2.4)]]
        assert found["metrics"]["background/loss"][0] == list(range(1, 13))
        assert json.loads(get(server, f"{home}data?seen={found['version']}")[1]) == {"same": True}


def test_others_get_nothing(running):
    with live.LiveServer(running) as server:
        home = f"/{server.token}/"
        assert server.server_address[0] == "127.0.0.1"
        for path in ("/", "/data", f"/{server.token}", f"/{server.token}x/data", f"//{server.host}{home}"):
            assert get(server, path)[0] == 403
        for path in (f"{home}config.yaml", f"{home}../x"):
            assert get(server, path)[0] == 404
        assert get(server, home, Host="evil.test")[0] == 403, "a name that was bound to this address"


def test_a_last_line_that_is_half_written_counts_when_it_is_complete(running):
    path = running / "metrics.jsonl"
    whole = path.read_text()
    line = json.dumps({"kind": "train", "step": 31, "reward/mean": 9.0}) + "\n"
    for text, points in (("", 0), (whole + line[:20], 12), (whole + line, 13)):
        path.write_text(text)
        curves = live.data(running, "")["reward"]["curves"]
        assert len(curves[0]["mean"] if curves else []) == points
    path.unlink()
    assert live.data(running, "")["reward"]["curves"] == []
    assert "live" in live.page(running)


def test_it_ends_with_the_run(running, monkeypatch):
    monkeypatch.setattr(live, "POLL", 0.05)
    monkeypatch.setattr(live, "GRACE", 0.05)
    before = {path: path.stat().st_mtime_ns for path in running.rglob("*")}
    addresses = []

    def opened(address: str) -> None:
        addresses.append(address)
        threading.Timer(0.3, set_status, (running, "done")).start()

    assert live.serve_live(running, opened).startswith("finished")
    assert addresses[0].startswith("http://127.0.0.1:")
    changed = {path.name for path in running.rglob("*") if before.get(path) != path.stat().st_mtime_ns}
    assert changed == {"status.json"}, "which the trainer wrote"


def test_it_ends_with_ctrl_c(running, monkeypatch):
    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(live.time, "sleep", stop)
    assert live.serve_live(running, lambda address: None).startswith("running")


def test_a_run_that_has_ended_is_refused(running, tmp_path):
    child = subprocess.Popen(["true"])
    child.wait(timeout=10)
    for status, pid in (("done", None), ("interrupted", None), ("failed", None), ("running", child.pid)):
        set_status(running, status, pid)
        with pytest.raises(ConfigError, match="no longer training") as caught:
            live.serve_live(running, lambda address: None)
        assert "\n" not in str(caught.value)
    (running / "status.json").unlink()
    assert not live.has_ended(live.read(running)), "the trainer has not yet written it"
    with pytest.raises(CheckpointError, match="no run folder"):
        live.serve_live(tmp_path / "nowhere", lambda address: None)
