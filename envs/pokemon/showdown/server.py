"""The package's own server, for this machine only.

It is for players that speak Showdown's protocol over a websocket.

It runs from a folder of its own, made of links to the installed package, with a configuration of ours: it listens on
127.0.0.1, authenticates no player (any free name will do), limits nothing by address or speed, and names no login
server, no mail and no remote ladder. Ratings and logs lie in that folder and are gone with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palaver.core import ConfigError
from palaver.envs.pokemon.showdown import install
from palaver.envs.pokemon.showdown.errors import ShowdownError
from palaver.text import one_line
from palaver.utils.workers import Closing, wait_or_kill

HOST = "127.0.0.1"
START_SECONDS = 90.0  # ten processes load the simulator, on a busy machine
WATCH_SECONDS = 0.2
_SCRIPT = Path(__file__).with_name("server.js")
_OWN = ("config", "databases", "logs", "node_modules")


def settings(port: int, simulators: int = 1) -> Mapping[str, Any]:
    """The configuration, beyond the package's own example."""
    ours = dict.fromkeys(("network", "validator", "verifier"), 1)
    idle = ("localartemis", "remoteartemis", "friends", "chatdb", "modlog", "pm", "battlesearch", "datasearch")
    return {
        "port": port,
        "bindaddress": HOST,
        "loginserver": f"http://{HOST}:9/",
        "noguestsecurity": True,
        "nothrottle": True,
        "noipchecks": True,
        "backdoor": False,
        "consoleips": [],
        "watchconfig": False,
        "repl": False,
        "reportjoins": False,
        "reportbattles": False,
        "reportbattlejoins": False,
        "nobattlesearch": True,
        "autolockdown": False,
        "crashguardemail": None,
        "loguserstats": 0,
        "subprocesses": {**ours, **dict.fromkeys(idle, 0), "simulator": simulators},
    }


class Server(Closing):
    """A running server; a context manager that ends it.

    Args:
        port: to listen on; 0 takes a free one.
        simulators: processes that simulate battles.

    Attributes:
        port: that it listens on.
        pid: of its first process; the others are its children.

    Raises:
        ConfigError: no such port, or a number of simulators below 1.
        ShowdownError: no Node.js, no simulator, the port is taken, or the server does not start.
    """

    def __init__(self, port: int = 0, simulators: int = 1) -> None:
        if not 0 <= port <= 65535 or simulators < 1:
            raise ConfigError(f"a server needs a port from 0 to 65535 and a simulator, got {port} and {simulators}")
        program, package = install.find_node().path, install.package()
        self.port = _free(port)
        self._folder = tempfile.TemporaryDirectory(prefix="palaver-showdown-")
        root = Path(self._folder.name)
        _lay_out(root, package, settings(self.port, simulators))
        links = ("--preserve-symlinks", "--preserve-symlinks-main")  # so that all paths are those of our folder
        self._output: deque[str] = deque(maxlen=50)
        self._listening: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [str(program), *links, str(_SCRIPT), str(root)],
            cwd=root,
            start_new_session=True,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            errors="replace",
        )
        self.pid = self._process.pid
        threading.Thread(target=self._read, name="palaver-showdown-server", daemon=True).start()
        try:
            started = self._listening.get(timeout=START_SECONDS)
        except queue.Empty:
            started = False
        if not started or not _answers(self.port, self._process):
            error_line = one_line(next((line for line in self._output if "Error" in line), " ".join(self._output)), 300)
            self.close()
            raise ShowdownError(
                f"Showdown's server did not start on port {self.port}: {error_line or 'it printed nothing'}"
            )

    @property
    def address(self) -> str:
        """URL of the websocket."""
        return f"ws://{HOST}:{self.port}/showdown/websocket"

    def wait(self) -> None:
        """Wait until the server ends by itself.

        It is checked every `WATCH_SECONDS`, without a limit.

        Raises:
            ShowdownError: always, with its last words; Ctrl-C ends the wait instead.
        """
        while (code := self._process.poll()) is None:
            time.sleep(WATCH_SECONDS)
        last = one_line(self._output[-1], 300) if self._output else "it printed nothing"
        raise ShowdownError(f"Showdown's server ended with code {code}: {last}")

    def close(self) -> None:
        """End all its processes and remove its folder."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        _end_session(self.pid)
        wait_or_kill(self._process)
        self._folder.cleanup()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._output.append(line.strip())
                if "now listening on" in line:
                    self._listening.put(True)
        self._listening.put(False)


def _answers(port: int, process: subprocess.Popen[str]) -> bool:
    """Return whether connections are accepted, a moment after the server reports to listen."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=5.0):
            return True
        time.sleep(0.05)
    return False


def _free(port: int) -> int:
    """The port itself, or for 0 one that is free now."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
        except OSError as error:
            raise ShowdownError(f"port {port} cannot be used ({error.strerror}); name another by --port") from error
        free_port: int = tried.getsockname()[1]
        return free_port


def _lay_out(root: Path, package: Path, config: Mapping[str, Any]) -> None:
    for entry in package.iterdir():
        if entry.name not in _OWN:
            (root / entry.name).symlink_to(entry)
    (root / "node_modules").symlink_to(package.parent)
    for name in ("config/chat-plugins", "databases", "logs/repl", "logs/chat", "logs/modlog", "logs/tickets"):
        (root / name).mkdir(parents=True)
    lines = [f"exports.{name} = {json.dumps(value)};" for name, value in config.items()]
    (root / "config" / "config.js").write_text("'use strict';\n" + "\n".join(lines) + "\n", encoding="utf-8")


def _end_session(leader: int) -> None:
    """End what is left of the session that the server began, politely and then not."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, sent)
            time.sleep(0.2)
