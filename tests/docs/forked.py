"""Calls of `palaver`, each in a process forked from one that has imported the heavy libraries.

`python -P tests/docs/forked.py JOBS` reads chains as JSON from stdin: `[[folder, [call, ...]], ...]`, a call being
`{arguments, copies: [[path, name], ...], input, until}`. The calls of a chain are made one after another, JOBS chains
at the same time. What is missing in the folder is copied first, and a call is interrupted once it has printed `until`.
It writes `[[[exit code, stderr, seconds], ...], ...]` to stdout. Without the fork each call would import for seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIMIT_S = 1200.0  # of one call; the partner of a scenario is trained once for each machine


@dataclass
class Chain:
    """Calls in a folder, of which one is running."""

    folder: Path
    calls: list[dict[str, Any]]
    outcomes: list[tuple[int, str, float]] = field(default_factory=list)
    pid: int = 0
    since: float = 0.0
    interrupted: bool = False

    def start(self) -> None:
        """Fork the process of the next call."""
        call = self.calls[len(self.outcomes)]
        for source, name in call.get("copies", ()):
            target = self.folder / name
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copytree(source, target) if Path(source).is_dir() else shutil.copy(source, target)
        (self.folder / ".in").write_text(call.get("input", ""), encoding="utf-8")
        for name in (".out", ".err"):
            (self.folder / name).write_bytes(b"")
        self.since, self.interrupted = time.monotonic(), False
        self.pid = os.fork()
        if not self.pid:
            _call(self.folder, call["arguments"])

    def ended(self) -> bool:
        """Return True once the running call has ended; one that has no end is killed."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        seconds = time.monotonic() - self.since
        until = self.calls[len(self.outcomes)].get("until", "")
        if not pid:
            if until and not self.interrupted and until in self._read(".out"):
                os.kill(self.pid, signal.SIGINT)
                self.interrupted = True
            if seconds > LIMIT_S:
                os.killpg(self.pid, signal.SIGKILL)
            return False
        code = os.waitstatus_to_exitcode(status)
        self.outcomes.append((0 if self.interrupted and code == 130 else code, self._read(".err"), round(seconds, 2)))
        return True

    def _read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8", errors="replace")


def _call(folder: Path, arguments: list[str]) -> None:
    """Make a call in a forked process, and end it."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        for target, name, mode in ((0, ".in", os.O_RDONLY), (1, ".out", os.O_WRONLY), (2, ".err", os.O_WRONLY)):
            os.dup2(os.open(name, mode), target)
        sys.argv = ["palaver", *arguments]
        from palaver.cli import main

        main(arguments)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as a process of its own would end
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Make the calls of all chains."""
    import torch  # noqa: F401
    from transformers import AutoModelForCausalLM  # noqa: F401

    chains = [Chain(Path(folder), calls) for folder, calls in json.load(sys.stdin)]
    waiting, running = [chain for chain in chains if chain.calls], list[Chain]()
    while waiting or running:
        while waiting and len(running) < int(sys.argv[1]):
            running.append(waiting.pop(0))
            running[-1].start()
        for chain in [chain for chain in running if chain.ended()]:
            code, _, seconds = chain.outcomes[-1]
            words = chain.calls[len(chain.outcomes) - 1]["arguments"]
            print(f"{code} {seconds:6.2f} s {' '.join(words)}", file=sys.stderr, flush=True)
            if len(chain.outcomes) < len(chain.calls):
                chain.start()
            else:
                running.remove(chain)
        time.sleep(0.01)
    json.dump([chain.outcomes for chain in chains], sys.stdout)


if __name__ == "__main__":
    main()
