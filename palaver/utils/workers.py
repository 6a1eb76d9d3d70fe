"""Worker processes: a pool that survives crashes, bounded waits, one object per process."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NamedTuple, ParamSpec, Self, TypeVar

from palaver.core import PalaverWarning

KILLED_S = 10.0  # wait for a killed process, which the kernel may keep while it waits for a device
END_S = 10.0  # for a process that has closed its pipe to end by itself
WATCH_S = 1.0  # polling interval of the files of jobs
STALLED_S = 1800.0  # silence of a training run that hangs: a step is over in minutes, its evaluation too


def wait_or_kill(process: subprocess.Popen[Any] | BaseProcess, patience: float = 0.0) -> int | None:
    """Wait `patience` seconds for a process to exit, then kill it; return the exit code.

    If it still exists `KILLED_S` seconds later, a warning is issued and None returned.
    """
    code = wait(process, patience)
    if code is None:
        process.kill()
        code = wait(process, KILLED_S)
    if code is None:
        message = f"the process {process.pid} was killed {KILLED_S:g} seconds ago and is still there"
        warnings.warn(message, PalaverWarning, 2)
    return code


def wait(process: subprocess.Popen[Any] | BaseProcess, seconds: float) -> int | None:
    """Wait some seconds for a process to exit; return its exit code, None if it still runs."""
    if isinstance(process, BaseProcess):
        process.join(seconds)
        return process.exitcode
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(seconds)
    return None


class Closing(ABC):
    """Context manager that calls `close` on exit."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


P = ParamSpec("P")  # of the constructor
C = TypeVar("C", bound=Closing)


class ProcessLocal(Generic[P, C]):
    """One object per process, forked ones included, made at first use and closed at exit."""

    def __init__(self, make: Callable[P, C]) -> None:
        self._make = make
        self._instances: dict[int, C] = {}
        self._lock = threading.Lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Return the object of this process; arguments are used in the first call only."""
        with self._lock:
            instance = self._instances.get(os.getpid())
            if instance is None:
                instance = self._instances[os.getpid()] = self._make(*args, **kwargs)
                atexit.register(instance.close)
            return instance


class Silence:
    """Time since another process last wrote to its files, to tell a hanging run from a slow one.

    Args:
        files: that it appends to, such as its log and its metrics; they need not exist yet.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = tuple(files)
        self._size, self._since = self._measure(), time.monotonic()

    def reset(self) -> None:
        """Begin to count from 0: there was another sign of life."""
        self._since = time.monotonic()

    def seconds(self) -> float:
        """Return the time since `reset`, or the last call that saw the files grow."""
        size = self._measure()
        if size != self._size:
            self._size, self._since = size, time.monotonic()
        return time.monotonic() - self._since

    def _measure(self) -> int:
        return sum(map(_size, self._files))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


J = TypeVar("J")  # a job: any object that can be pickled
Send = Callable[[Any], None]


class Lost(NamedTuple):
    """End of a worker process during a job.

    Attributes:
        exit_code: of the process; negative: the signal that ended it.
        seconds: since the job began.
        silent_s: seconds without a sign of life for which it was killed; 0 if it ended by itself.
    """

    exit_code: int | None
    seconds: float
    silent_s: float = 0.0


class WorkerPool(Closing, Generic[J]):
    """Fresh processes (`spawn`) that do one job after the other.

    A crash affects only the current job of a process, and the process is replaced. An iteration yields (job, message)
    for each message of a job, then for its result, or `Lost` if its process ended. It ends with the last job; jobs may
    be submitted meanwhile. Ctrl-C is left to the parent: `close` kills all processes. They also exit with their parent,
    however that one ends.

    Args:
        work: (job, send) -> result; a function of a module. An exception in it ends its process.
        workers: number of processes at most, started when there is a job for them.
        patience: seconds without a message, or a growing file, after which the process of a job is killed.
        loading: the same before the first message of a job; 0: `patience`.
        files: job -> files that it appends to.
    """

    def __init__(
        self,
        work: Callable[[J, Send], object],
        workers: int,
        patience: float,
        *,
        loading: float = 0.0,
        files: Callable[[J], Iterable[Path]] = lambda _: (),
    ) -> None:
        self._work, self._workers, self._files = work, workers, files
        self._patience, self._loading = patience, loading or patience
        self._waiting: deque[J] = deque()
        self._idle: list[_Worker[J]] = []
        self._busy: dict[connection.Connection, _Worker[J]] = {}

    def submit(self, job: J) -> None:
        """Add a job, to be done after those submitted before."""
        self._waiting.append(job)

    def __iter__(self) -> Iterator[tuple[J, Any]]:
        """Work until all jobs have ended."""
        while self._waiting or self._busy:
            while self._waiting and len(self._busy) < self._workers:
                worker = self._idle.pop() if self._idle else _Worker(self._work)
                self._busy[worker.pipe] = worker
                job = self._waiting.popleft()
                worker.begin(job, self._loading, Silence(self._files(job)))
            remaining = min(worker.patience - worker.silence.seconds() for worker in self._busy.values())
            ready = connection.wait([*self._busy], min(WATCH_S, max(0.0, remaining)))
            for worker in [*self._busy.values()]:
                if worker.pipe in ready:
                    yield worker.job, self._receive(worker)
                elif (silent_s := worker.silence.seconds()) > worker.patience and not worker.pipe.poll():
                    yield worker.job, self._lost(worker, 0.0, silent_s)

    def _receive(self, worker: _Worker[J]) -> Any:
        try:
            ended, message = worker.pipe.recv()
        except (EOFError, OSError):
            return self._lost(worker, END_S)
        if ended:
            self._idle.append(self._busy.pop(worker.pipe))
        worker.patience = self._patience
        worker.silence.reset()
        return message

    def _lost(self, worker: _Worker[J], patience: float, silent_s: float = 0.0) -> Lost:
        del self._busy[worker.pipe]
        return Lost(worker.end(patience), time.perf_counter() - worker.began, silent_s)

    def close(self) -> None:
        """Kill all processes."""
        for worker in (*self._idle, *self._busy.values()):
            worker.end()
        self._idle.clear()
        self._busy.clear()


class _Worker(Generic[J]):
    """Handle of a worker process in its parent."""

    job: J
    began: float
    patience: float
    silence: Silence

    def __init__(self, work: Callable[[J, Send], object]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, child_pipe = context.Pipe()
        self.process = context.Process(target=_serve, args=(child_pipe, work), daemon=True)
        self.process.start()
        child_pipe.close()

    def begin(self, job: J, patience: float, silence: Silence) -> None:
        self.job, self.began, self.patience, self.silence = job, time.perf_counter(), patience, silence
        with contextlib.suppress(BrokenPipeError):  # it has died, and is lost when its pipe is read
            self.pipe.send(job)

    def end(self, patience: float = 0.0) -> int | None:
        code = wait_or_kill(self.process, patience)
        self.pipe.close()
        return code


def _serve(pipe: connection.Connection, work: Callable[[Any, Send], object]) -> None:
    """Main loop of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()

    def send(message: object, ended: bool = False) -> None:
        try:
            pipe.send((ended, message))
        except BrokenPipeError:  # the parent has ended
            os._exit(1)

    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        send(work(job, send), ended=True)


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
    os._exit(1)


def write_output_to(path: Path) -> None:
    """Redirect the output of this process, including that of C libraries, to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    with path.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
