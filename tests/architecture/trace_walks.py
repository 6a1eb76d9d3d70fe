"""Two walks through the code, traced: a training step, and an arena game with its rating.

    python -m tests.architecture.trace_walks [--walk]
    PYTHONPATH=CHECKOUT python tests/architecture/trace_walks.py   # of another checkout

A walk is the sequence of the package's functions in the order of their first call, so that batch sizes do not count.

- A function is a code object in a file of the package. Comprehensions and generator expressions are parts of the
  function around them. Generated methods, as a dataclass's `__init__`, are of no file and not in the sequence.
- The step: the last of three of `arxiv-magrpo`, from its first `env.step` to the return of its last `optimizer.step`.
  It runs on one core, so that its agents are updated in this thread, one after the other.
- The game: `matrix-v1`, two scripted players, from the first `env.reset` to the last return from a rating function.
- files: distinct files of the sequence. changes: neighbours in the sequence that lie in different files.
- classes: distinct classes of `self` in the frames of the walk, generated methods included, defined in the package.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise, product
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

WINGS = ("palaver", "agents", "envs", "trainers", "benchmarks")
COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
RATING_FILES = ("ratings.py", "rating_table.py", "bradley_terry.py")
RECIPE_LOADERS = ("palaver.trainers.config.loading", "palaver.trainers.config")  # today's, and its place before
SMALL = ("train.steps=3", "train.prompts_per_step=2", "algorithm.group_size=4", "eval.n=1", "eval.samples=1")
PLAYERS = ("repeats=2", "--players", "first,last", "--jobs", "1")


@dataclass(frozen=True)
class Event:
    """One frame's call or return, or the return of an optimizer's step."""

    kind: str
    code: CodeType | None = None
    file: str = ""
    owner: type | None = None


@dataclass(frozen=True)
class Walk:
    """The functions of a walk in order of first call, as (file, function), and the classes met."""

    functions: tuple[tuple[str, str], ...]
    classes: frozenset[str]

    @property
    def files(self) -> int:
        """Distinct files."""
        return len({file for file, _ in self.functions})

    @property
    def changes(self) -> int:
        """Neighbours that lie in different files."""
        return sum(before != after for (before, _), (after, _) in pairwise(self.functions))

    def visits(self) -> Iterator[tuple[str, list[str]]]:
        """File -> its functions that follow each other, in order."""
        file, names = "", []
        for at, name in self.functions:
            if at != file and names:
                yield file, names
                names = []
            file = at
            names.append(name)
        yield file, names


class Tracer:
    """Collects the events of the package while it is active."""

    def __init__(self) -> None:
        self.root = Path(sys.modules["palaver"].__file__ or "").resolve().parent.parent
        self.events: list[Event] = []
        self._files: dict[str, str] = {}

    def file(self, name: str) -> str:
        """Path in the package, or "" for a file of another."""
        if name not in self._files:
            path = os.path.relpath(os.path.realpath(name), self.root)
            inside = path.split(os.sep)[0] in WINGS and not name.startswith("<")
            self._files[name] = path if inside else ""
        return self._files[name]

    def __call__(self, frame: FrameType, kind: str, _: Any) -> None:
        """The profiling function."""
        code = frame.f_code
        if kind not in ("call", "return") or not (
            (file := self.file(code.co_filename)) or code.co_filename == "<string>"
        ):
            return
        this = frame.f_locals.get("self") if code.co_varnames[:1] == ("self",) and kind == "call" else None
        owner = type(this) if type(this).__module__.startswith("palaver") else None
        if file or owner:
            self.events.append(Event(kind, code, file, owner))

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Trace the calls of this thread."""
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)

    @contextlib.contextmanager
    def active_after_first_update(self) -> Iterator[None]:
        """Note all steps of optimizers, and trace the calls of this thread after the first."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        def stepped(*_: Any) -> None:
            self.events.append(Event("optimizer"))
            sys.setprofile(self)

        hook = register_optimizer_step_post_hook(stepped)
        try:
            yield
        finally:
            sys.setprofile(None)
            hook.remove()

    def env_calls(self, name: str) -> list[int]:
        """Indices of the calls of an environment's method."""
        return [
            index
            for index, event in enumerate(self.events)
            if event.kind == "call" and event.code is not None and event.code.co_name == name
            and event.file.startswith(("envs", "palaver/envs"))
        ]  # fmt: skip

    def walk(self, begin: int, end: int) -> Walk:
        """The walk of these events."""
        calls = [event for event in self.events[begin : end + 1] if event.kind == "call" and event.code is not None]
        first: dict[CodeType, tuple[str, str]] = {}
        for event in calls:
            if event.file and event.code not in first and event.code.co_name not in COMPREHENSIONS:
                first[event.code] = (event.file, event.code.co_qualname)
        return Walk(tuple(first.values()), frozenset(event.owner.__qualname__ for event in calls if event.owner))


def training_step() -> Walk:
    """Trace the last step of `arxiv-magrpo`."""
    from rich.console import Console

    from palaver.trainers.train import train

    config = _first(RECIPE_LOADERS, "load")("arxiv-magrpo", list(SMALL))
    tracer = Tracer()
    with tempfile.TemporaryDirectory() as folder, _one_core(), tracer.active_after_first_update():
        train(config, Path(folder) / "run", console=Console(file=io.StringIO()))
    updates = [index for index, event in enumerate(tracer.events) if event.kind == "optimizer"]
    played = [index for index in tracer.env_calls("step") if index < updates[-1]]
    former = max(index for index in updates if index < played[-1])
    begin = next(index for index in played if index > former)
    return tracer.walk(begin, updates[-1])


def arena_game() -> Walk:
    """Trace two players' game, and the one with sides swapped, and their rating."""
    tracer = Tracer()
    spelling = next(each for each in product(("matrix-v1", "matrix-v0"), ("--games", "--battles")) if _play(*each))
    with tracer.active():  # the first game has imported all
        _play(*spelling)
    rated = [i for i, e in enumerate(tracer.events) if e.kind == "return" and e.file.endswith(RATING_FILES)]
    return tracer.walk(tracer.env_calls("reset")[0], rated[-1])


def _play(env: str, count: str) -> bool:
    """Play in the arena; return whether it knows the environment and the option."""
    from palaver.cli.app import main

    with tempfile.TemporaryDirectory() as folder, _silent():
        try:
            main(["arena", env, "game=prisoners-dilemma", *PLAYERS, count, "2", "--out", f"{folder}/run"])
        except SystemExit as end:
            return not end.code
    return True


def _first(modules: tuple[str, ...], name: str) -> Callable[..., Any]:
    """The function of this name, of the first module that has it."""
    for module in modules:
        with contextlib.suppress(ImportError, AttributeError):
            found: Callable[..., Any] = getattr(import_module(module), name)
            return found
    raise ImportError(f"none of {', '.join(modules)} has {name}")


@contextlib.contextmanager
def _one_core() -> Iterator[None]:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def main() -> None:
    """Print both walks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--walk", action="store_true", help="print the files and functions in order too")
    verbose = parser.parse_args().walk
    import palaver.trainers.train  # noqa: F401 - its imports are no part of a walk

    for name, walk in (("training step", training_step()), ("arena game", arena_game())):
        print(f"{name}: {walk.files} files, {walk.changes} changes of file, {len(walk.classes)} classes")
        if verbose:
            visits = list(walk.visits())
            for file, names in visits:
                print(f"  {file}: {', '.join(names)}")
            print("  most visited:", Counter(file for file, _ in visits).most_common(12))
            print("  classes:", *sorted(walk.classes))


if __name__ == "__main__":
    main()
