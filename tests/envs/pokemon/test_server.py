"""The server: on this machine alone, gone with all its processes, and clear where it cannot start."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest

from palaver.core import ConfigError
from palaver.envs.pokemon.showdown import ShowdownError
from palaver.envs.pokemon.showdown.server import HOST, Server, settings
from tests.architecture.running import started


def _gone(processes):
    _, alive = psutil.wait_procs(processes, timeout=10)
    return [each for each in alive if each.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.usefixtures("pool")
def test_it_serves_on_the_loopback_address_and_leaves_nothing():
    with Server() as server:
        socket.create_connection((HOST, server.port), timeout=10).close()
        first = psutil.Process(server.pid)
        processes = [first, *first.children(recursive=True)]
        assert len(processes) >= 4
        listening = [c.laddr for each in processes for c in each.net_connections() if c.status == psutil.CONN_LISTEN]
        assert {(address.ip, address.port) for address in listening} == {("127.0.0.1", server.port)}
        [folder] = {Path(each.cwd()) for each in processes}
        assert (folder / "config" / "config.js").is_file()
        with pytest.raises(ShowdownError, match=f"port {server.port} cannot be used"):
            Server(server.port)
    assert _gone(processes)
    assert not folder.exists()


@pytest.mark.usefixtures("pool")
def test_control_c_ends_the_command_and_all_its_processes():
    command = [sys.executable, "-m", "palaver", "pokemon", "serve", "--port", "0"]
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # what a background job starts ignores Ctrl-C
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heeds) as process:
        assert process.stdout.readline().startswith("listening at ws://127.0.0.1:")
        below = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "error: interrupted"
    assert len(below) >= 4
    assert _gone(below)


def test_no_such_port():
    with pytest.raises(ConfigError, match="port from 0 to 65535"):
        Server(70000)


def test_it_asks_nobody_and_limits_nobody():
    config = settings(8123, 3)
    assert (config["port"], config["bindaddress"], config["subprocesses"]["simulator"]) == (8123, "127.0.0.1", 3)
    assert config["noguestsecurity"]
    assert config["loginserver"].startswith("http://127.0.0.1:")
