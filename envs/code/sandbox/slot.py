"""An examiner process and the conversation with it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from palaver.envs.code.sandbox import view
from palaver.envs.code.sandbox.clock import STARVED
from palaver.envs.code.sandbox.launch import BOOT, ENVIRONMENT, FLAGS, LaunchPlan
from palaver.envs.code.sandbox.report import SandboxError
from palaver.text import one_line
from palaver.utils.workers import wait_or_kill

ATTEMPTS = 3
_HEADER = 4
_START = 30.0  # seconds for a first worker, on a machine that is busy
_GRACE = 20.0  # beyond the time of program and tests, for replacing a worker there
_KNOWN_GOOD = {"program": "def f(x):\n    return x", "tests": "assert f(1) == 1", "entry_point": "f", "prompt": ""}


class Slot:
    """An examiner, which has a worker. It is started again after it was lost.

    Attributes:
        mode: how its worker is confined.
        refused: ways that were tried before and did not work, with the reason.

    Raises:
        SandboxError: none of the plans works.
    """

    def __init__(self, plans: Sequence[LaunchPlan]) -> None:
        self._boot = json.dumps([view.examiner_modules(), {"plans": plans}]).encode() + b"\n"
        self._process: subprocess.Popen[bytes] | None = None
        self.mode = ""
        self.refused: Mapping[str, str] = {}
        self._start()

    def _start(self) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [sys.executable, *FLAGS, BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=ENVIRONMENT,
            bufsize=0,
            start_new_session=True,
        )
        ready = self._exchange(self._boot, time.monotonic() + _START)
        self.mode, self.refused = ready.get("mode", ""), ready.get("refused", {})
        if not self.mode:
            self.close()
            reasons = "; ".join(f"{mode}: {one_line(reason)}" for mode, reason in (self.refused or ready).items())
            raise SandboxError(f"the sandbox does not start ({reasons}); see docs/sandbox.md")

    def request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Score a program; the reply holds one key.

        `results`: verdict and message of each test. `overrun`, `killed`: its effect on the examiner or the worker.
        `fault`: reason why the tests cannot be run. `lost`: reason why there is no result.
        """
        for _ in range(ATTEMPTS):
            reply = self._request(request)
            if "lost" not in reply:
                return reply
        # whose fault is it?
        works = self._request({**request, **_KNOWN_GOOD}).get("results") == [["pass", ""]]
        return {"killed": f"the program took its worker down {ATTEMPTS} times"} if works else reply

    def _request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if self._process is None:
            self._start()
        body = json.dumps(request).encode()
        limits = request["limits"]
        allowed = (2 + STARVED) * limits["wall_factor"] * limits["total_seconds"] + _GRACE
        reply = self._exchange(len(body).to_bytes(_HEADER, "big") + body, time.monotonic() + allowed)
        if "ended" not in reply:
            return reply
        self.close()
        overrun = reply["ended"] in (-signal.SIGPROF, -signal.SIGALRM)
        return {"overrun": True} if overrun else {"lost": f"the examiner ended: {reply}"}

    def _exchange(self, data: bytes, deadline: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _send(self._process.stdin, data)
            header = _receive(self._process.stdout, _HEADER, deadline)
            body = _receive(self._process.stdout, int.from_bytes(header, "big"), deadline)
        except TimeoutError:
            return {"ended": "it did not answer in time"}
        except (OSError, EOFError):
            code = self._process.wait(_GRACE)
            self._errors.seek(0)
            lines = self._errors.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
            return {"ended": code, "said": lines[-1] if lines else ""}
        reply: dict[str, Any] = json.loads(body)
        return reply

    def close(self) -> None:
        """End the examiner; its worker ends with it."""
        if self._process is not None:
            wait_or_kill(self._process)
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._errors.close()
            self._process = None


def _send(target: IO[bytes], data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(target.fileno(), left) :]


def _receive(source: IO[bytes], count: int, deadline: float) -> bytes:
    data = bytearray()
    ready = select.poll()
    ready.register(source, select.POLLIN)
    while len(data) < count:
        if not ready.poll(1000 * max(0.0, deadline - time.monotonic())):
            raise TimeoutError
        chunk = os.read(source.fileno(), count - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return bytes(data)
