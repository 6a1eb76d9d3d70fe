"""Run every command with core alone, with each extra and with all of them, and print one table.

`make test-extras`, or `python -m tests.extras [--venvs FOLDER] [extra ...]`; `core` is the install without extras. Each
is installed with pip into a virtual environment of its own in the folder, where it is not there yet (without the option
in a temporary folder). In each all calls of `tests/calls.py` are made, in processes forked from one that has imported
the command line and torch: a call does its work, or ends with one line that names an extra which is not installed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.running import started
from tests.calls import CALLS, CORE, ROOT, Call, extras, judged, prepare

# extras that need other versions than those of constraints.txt
UNPINNED = ("inspect", "openenv", "poke-env", "pokemon", "verifiers", "vllm")
LEFT_OUT = ("vllm",)  # unless named: gigabytes, with a torch of its own; `make test-vllm` runs what needs it
LIMIT_S = 300.0  # of one call
INSTALL_S = 3600.0
INGREDIENTS = (
    "palaver",
    "envs",
    "agents",
    "trainers",
    "benchmarks",
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
)
# every help text, in one process
HELP = """
import typer
from palaver.cli.app import app
def walk(command, path):
    yield path
    for name in list(getattr(command, "commands", ())):
        yield from walk(command.commands[name], (*path, name))
for path in walk(typer.main.get_command(app), ()):
    try:
        app(args=[*path, "--help"], prog_name="palaver")
    except SystemExit as end:
        assert not end.code, path
"""
# reads lines of arguments, runs each in a process forked from this one, and writes its exit code
FORKING = """
import importlib.util, json, os, signal, sys
from palaver.cli import main
if all(map(importlib.util.find_spec, ("torch", "transformers"))):  # some libraries bring the second alone
    import torch, transformers.models.qwen3.modeling_qwen3
for line in sys.stdin:
    child = os.fork()
    if not child:
        signal.alarm(int(sys.argv[1]))
        for name, number in (("out.txt", 1), ("err.txt", 2)):
            os.dup2(os.open(name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = ["palaver", *json.loads(line)]
        raise SystemExit(main(sys.argv[1:]))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """End of a call with one extra; `right` is True if it is as it should be."""

    extra: str
    call: str
    word: str
    right: bool
    err: str

    def __str__(self) -> str:
        return self.word if self.right else f"{self.word}!"


def install(extra: str, wheel: Path, folder: Path) -> Path:
    """The Python of the virtual environment of an extra, with this state of Palaver."""
    python = folder / extra / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-compile"]
    pins = [] if extra in UNPINNED else ["-c", str(ROOT / "constraints.txt")]
    if not python.exists():
        _run([sys.executable, "-m", "venv", str(folder / extra)])
        if "train" in extras()[extra]:
            _run([*pip, *pins, "torch"])  # first and alone, as the Makefile does
        _run([*pip, *pins, str(wheel) if extra == CORE else f"{wheel}[{extra}]"])
    _run([*pip, "--no-deps", "--force-reinstall", str(wheel)])
    return python


def build(folder: Path) -> Path:
    """A wheel of this checkout, built from a copy."""
    source = folder / "source"
    for name in INGREDIENTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    _run([sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "-w", str(folder), str(source)])
    (wheel,) = folder.glob("palaver-*.whl")
    return wheel


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=INSTALL_S)


def walk(extra: str, python: Path, chosen: Sequence[Call]) -> list[Outcome]:
    """The help texts and the calls, in an empty folder."""
    installed, outcomes = extras()[extra], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        with forking(python, folder) as fork:
            for call in (Call("--help, of every command"), *chosen):
                if call in chosen and not call.until:
                    code, err = fork(shlex.split(call.text))
                else:
                    command = ["-m", "palaver", *shlex.split(call.text)] if call in chosen else ["-c", HELP]
                    code, err = _ended([str(python), *command], folder, call.until)
                outcomes.append(Outcome(extra, call.text, *judged(call, code, err, installed), err))
                print(f"  {outcomes[-1]!s:<14} {call.text}", flush=True)
    return outcomes


@contextmanager
def forking(python: Path, folder: Path) -> Iterator[Callable[[Sequence[str]], tuple[int, str]]]:
    """A function that runs `palaver` with arguments in the folder, and returns exit code and stderr.

    Imports take longer than most calls, so they are made once; a call that takes too long is ended by SIGALRM.
    """
    command = [str(python), "-c", FORKING, f"{LIMIT_S:.0f}"]
    with started(command, cwd=folder, env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        orders, codes = process.stdin, process.stdout

        def fork(arguments: Sequence[str]) -> tuple[int, str]:
            print(json.dumps(arguments), file=orders, flush=True)
            return int(codes.readline()), (folder / "err.txt").read_text(encoding="utf-8", errors="replace")

        yield fork


def _environment() -> dict[str, str]:
    """Variables of the calls; a thread a process, because threads do not outlive a fork."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return kept | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "WANDB_MODE": "offline", "COLUMNS": "200"}


def _ended(command: Sequence[str], folder: Path, until: str, limit: float = LIMIT_S) -> tuple[int, str]:
    """Exit code and stderr of a command; one interrupted once it has written `until` has the exit code 0."""
    out, err = folder / "out.txt", folder / "err.txt"
    with out.open("w") as stdout, err.open("w") as stderr:
        process = subprocess.Popen(
            command, cwd=folder, env=_environment(), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
        )
        end, interrupted = time.monotonic() + limit, False
        try:
            while process.poll() is None and time.monotonic() < end:
                if until and not interrupted and until in out.read_text(encoding="utf-8", errors="replace"):
                    process.terminate()  # not SIGINT, which a shell's background jobs ignore
                    interrupted = True
                time.sleep(0.05)
        finally:
            late = process.poll() is None
            process.kill()
            process.wait(60)
    written = err.read_text(encoding="utf-8", errors="replace")
    return (
        (124, f"{written}\nno end after {limit:g} s") if late else (0 if interrupted else process.returncode, written)
    )


def table(outcomes: Sequence[Outcome]) -> str:
    """A line for each call, a column for each extra."""
    columns = list(dict.fromkeys(each.extra for each in outcomes))
    words = {(each.call, each.extra): str(each) for each in outcomes}
    wide = max(map(len, [*columns, *words.values()]), default=0) + 2
    calls = dict.fromkeys(each.call for each in outcomes)
    rows = [[*columns, "call"], *([*(words[call, name] for name in columns), call] for call in calls)]
    return "\n".join("".join(f"{word:<{wide}}" for word in row).rstrip() for row in rows)


def main(arguments: Sequence[str]) -> int:
    """All extras, or those named; 1 if a call ended otherwise than it should."""
    known = extras()
    parser = argparse.ArgumentParser(prog="python -m tests.extras")
    parser.add_argument("--venvs", type=Path, help="folder of the virtual environments, which are kept")
    parser.add_argument("--only", default="", help="calls that contain this text")
    parser.add_argument("extras", nargs="*", default=[name for name in known if name not in LEFT_OUT])
    given = parser.parse_args(arguments)
    chosen = [call for call in CALLS if given.only in call.text]
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as name:
        wheel = build(Path(name))
        folder = (given.venvs or Path(name) / "venvs").absolute()
        for extra in given.extras:
            print(extra, flush=True)
            outcomes += walk(extra, install(extra, wheel, folder), chosen)
    print(table(outcomes))
    wrong = [each for each in outcomes if not each.right]
    for each in wrong:
        print(f"\n{each.extra}: palaver {each.call}: {each.word}\n{each.err[-3000:]}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
