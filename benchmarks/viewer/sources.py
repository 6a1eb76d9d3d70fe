"""Sources of episodes: files of a run, a JSON-lines file, or a folder of recorded battles."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal, cast

from palaver.benchmarks.reports.run_folder import RunFolder, episode_of, read
from palaver.benchmarks.viewer.battles import unread_battles
from palaver.core import CheckpointError
from palaver.episodes import Episode
from palaver.trainers.run.files import CONFIG, METRICS
from palaver.trainers.trajectories import files
from palaver.utils.run_folder import object_of

ANALYSED = "messages.jsonl"  # in a run's folder: episodes of `palaver results analyse RUN --messages`
LONGEST_LINE = 64 << 20  # bytes; a longer one is counted as unreadable, and never loaded
_NAME = re.compile(r"(eval|train)-(\d+)\.jsonl(?:\.gz)?")

Kind = Literal["eval", "train", "messages", ""]


@dataclass(frozen=True)
class ViewerSource:
    """One file of episodes, or a folder of battles.

    Attributes:
        path: of the file or folder.
        kind: purpose of the episodes; "" if the name does not give it.
        step: of training; None if the name does not give it.
    """

    path: Path
    kind: Kind = ""
    step: int | None = None

    @property
    def stem(self) -> str:
        """Prefix of the ids of its episodes."""
        step = "" if self.step is None else f"{self.step}-"
        return f"{self.kind}-{step}" if self.kind else "e"

    def unread(self) -> Iterator[Callable[[], Episode | None]]:
        """Yield a reader for each episode in order; a reader returns None for an unreadable one.

        Raises:
            CheckpointError: the file cannot be opened; from the call of a reader: a battle is damaged.
        """
        if self.path.is_dir():
            yield from unread_battles(self.path)
            return
        for line in _lines(self.path):
            yield partial(_parsed, line)


def find(path: Path, run: RunFolder | None = None) -> tuple[list[ViewerSource], RunFolder | None]:
    """Find the sources under `path` in reading order, and the run if it is one.

    `run` is given if already read.

    Evaluations come before training, the last step first, then the first, then those between by bisection, so that any
    prefix has evenly spaced steps. Between them are the episodes of an analysis of messages.

    Raises:
        CheckpointError: the path does not exist or has no episodes.
    """
    if path.is_file():
        return [ViewerSource(path)], None
    if not path.is_dir():
        raise CheckpointError(f"there is neither a run folder nor a file of episodes {str(path)!r}")
    if files.shards(path):
        return [ViewerSource(path)], None
    named = ((file, _NAME.fullmatch(file.name)) for file in sorted((path / "episodes").glob("*")))
    sources = [ViewerSource(file, cast("Kind", name[1]), int(name[2])) for file, name in named if name]
    is_run = any((path / name).is_file() for name in (CONFIG, METRICS))
    if not sources and not is_run:
        inside = sorted(folder.parent.name for folder in path.glob("*/episodes"))
        hint = f"; it holds runs, name one of them: {', '.join(inside[:8])}" if inside else ""
        raise CheckpointError(f"{str(path)!r} holds neither a run, nor episodes, nor recorded battles{hint}")
    run = run or (read(path) if is_run else None)
    sources.sort(key=lambda source: source.step or 0)
    evals, others = ([source for source in sources if (source.kind == "eval") == wanted] for wanted in (True, False))
    analysed = [ViewerSource(path / ANALYSED, "messages")] if run and (path / ANALYSED).is_file() else []
    return [*spread(evals), *analysed, *spread(others)], run


def spread(sources: Sequence[ViewerSource]) -> list[ViewerSource]:
    """The last, the first, the middle, the middles of the halves, and so on."""
    if len(sources) < 3:
        return list(sources[::-1])
    order, gaps = [len(sources) - 1, 0], [(0, len(sources) - 1)]
    while gaps:
        low, high = gaps.pop(0)
        middle = (low + high) // 2
        if low < middle:
            order.append(middle)
            gaps += [(low, middle), (middle, high)]
    return [sources[index] for index in order]


def _parsed(line: bytes | None) -> Episode | None:
    record = None if line is None else object_of(line)[0]
    return None if record is None else episode_of(record)


def _lines(path: Path) -> Iterator[bytes | None]:
    """Yield the non-blank lines; None for one that is too long.

    Also None if a compressed file is truncated.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            stream = cast("BinaryIO", file)
            while line := stream.readline(LONGEST_LINE):
                if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
                    while line and not line.endswith(b"\n"):
                        line = stream.readline(LONGEST_LINE)
                    yield None
                elif line.strip():
                    yield line
    except (EOFError, zlib.error, gzip.BadGzipFile):
        yield None
    except OSError as error:
        raise CheckpointError(f"cannot read {str(path)!r}: {error.strerror}") from error
