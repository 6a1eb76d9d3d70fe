"""Workers in this process, every argument and result of which is pickled, as between processes."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from palaver.trainers.config.run import RunConfig
from palaver.trainers.placement import ray_workers
from palaver.trainers.placement.ray_workers import PlacementLostError
from palaver.trainers.placement.remote import worker_learners
from palaver.trainers.placement.worker import Failure, PolicyWorker, WorkerSetup, worker_setups


def carried(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


class LoopbackHost:
    """Calls of a worker; `before` is called with the method's name before each, and may raise."""

    def __init__(self, setup: WorkerSetup, before: Callable[[str], None]) -> None:
        self.name, self._before, self.acted = setup.worker, before, False
        self.worker = PolicyWorker(carried(setup))

    def call(self, target: str, method: str, *arguments: Any, keep: str = "") -> Any:
        return self._result(method, self.worker.call, target, method, *arguments, keep=keep)

    def read(self, target: str, *names: str) -> Any:
        return self._result("read", self.worker.read, target, *names)

    def act_batched(self, queries: Sequence[Any]) -> Any:
        self.acted = True
        return self._result("act", self.worker.act, [(policy.name, request) for policy, request in queries])

    def send(self, target: str, other: LoopbackHost) -> None:
        sent = self._result("sent_weights", self.worker.sent_weights, target)
        other._result("take_weights", other.worker.take_weights, target, sent)

    def load(self) -> Any:
        return self._result("load", self.worker.load)

    def _result(self, method: str, function: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
        self._before(method)
        result = carried(function(*carried(arguments), **settings))
        if isinstance(result, Failure):
            raise result.error()
        return result


class Loopback:
    """Stands in for Ray: counts calls, and loses the worker in the calls given by method and number."""

    def __init__(self, *losses: tuple[str, int]) -> None:
        self.losses, self.counts, self.hosts = list(losses), dict[str, int](), list[LoopbackHost]()
        self._lock = threading.Lock()  # workers answer in threads

    def install(self, monkeypatch: Any) -> Loopback:
        monkeypatch.setattr(ray_workers, "cluster", self.cluster)
        monkeypatch.setattr(ray_workers, "ray_learners", self.learners)
        return self

    @contextmanager
    def cluster(self, placement: Any) -> Iterator[None]:
        yield

    @contextmanager
    def learners(self, config: RunConfig, agents: Sequence[str], folder: Path, start: Path | None) -> Iterator[Any]:
        setups = worker_setups(config, agents, start, torch.get_num_threads())
        self.hosts = [LoopbackHost(setup, self.before) for setup in setups]
        yield worker_learners([(host, host.load()) for host in self.hosts])

    def before(self, method: str) -> None:
        with self._lock:
            count = self.counts[method] = self.counts.get(method, 0) + 1
        if (loss := (method, count)) in self.losses:
            self.losses.remove(loss)
            raise PlacementLostError(f"lost in {method}")
