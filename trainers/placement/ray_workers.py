"""Workers as Ray actors, in a placement group with resources of their own.

Ray's own restarts are off: a restarted actor comes back empty and answers. A worker that is lost ends the attempt
(`PlacementLostError`), and the run goes on from its latest valid checkpoint with new ones (`palaver.trainers.train`).
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import secrets
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from palaver.core import Completion, ConfigError, PalaverError, Request, need
from palaver.trainers.config.placement import PlacementConfig
from palaver.trainers.config.run import RunConfig
from palaver.trainers.placement.remote import WorkerPolicy, worker_learners
from palaver.trainers.placement.worker import Failure, PolicyFacts, PolicyWorker, worker_setups
from palaver.trainers.update.learner import Learner
from palaver.utils.machine import usable_cores

CONNECT_S = 2.0
ROOM_S = 60.0  # wait for resources that the cluster has, but others use
SHARED = ".placement"


class PlacementLostError(PalaverError):
    """A worker is gone, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class RayHost:
    """Calls of a worker that is a Ray actor.

    Attributes:
        name: name of the worker.
        actor: handle of the actor.
        timeout_s: seconds after which a call counts as lost.
    """

    name: str
    actor: Any
    timeout_s: float

    def call(self, target: str, method: str, *arguments: Any, keep: str = "") -> Any:
        """See `PolicyWorker.call`."""
        return self._result(self.actor.call.remote(target, method, *arguments, keep=keep), method)

    def read(self, target: str, *names: str) -> tuple[Any, ...]:
        """See `PolicyWorker.read`."""
        return cast(tuple[Any, ...], self._result(self.actor.read.remote(target, *names), "read"))

    def act_batched(self, queries: Sequence[tuple[WorkerPolicy, Request]]) -> list[list[Completion]]:
        """See `palaver.agents.base.policy.act_batched`."""
        named = [(policy.name, request) for policy, request in queries]
        return cast(list[list[Completion]], self._result(self.actor.act.remote(named), "act"))

    def send(self, target: str, other: RayHost) -> None:
        """See `Host.send`; the weights go through Ray's object store, and not through this process."""
        sent = self.actor.sent_weights.remote(target)
        other._result(other.actor.take_weights.remote(target, sent), "take_weights")

    def load(self) -> list[PolicyFacts]:
        """See `PolicyWorker.load`."""
        return cast(list[PolicyFacts], self._result(self.actor.load.remote(), "load"))

    def _result(self, reference: Any, method: str) -> Any:
        result = _fetched(reference, self.name, method, self.timeout_s)
        if isinstance(result, Failure):
            raise result.error()
        return result


def _fetched(reference: Any, worker: str, method: str, timeout_s: float) -> Any:
    """Result of a call.

    Raises:
        PlacementLostError: the worker is gone, or did not answer in time.
    """
    ray = importlib.import_module("ray")
    try:
        return ray.get(reference, timeout=timeout_s)
    except (ray.exceptions.RayActorError, ray.exceptions.WorkerCrashedError) as error:
        raise PlacementLostError(f"the worker {worker!r} is gone (during {method!r})") from error
    except ray.exceptions.GetTimeoutError as error:
        raise PlacementLostError(
            f"the worker {worker!r} did not end {method!r} in {timeout_s:g} s: raise placement.timeout_s if that is "
            "too short"
        ) from error


@contextlib.contextmanager
def cluster(placement: PlacementConfig) -> Iterator[None]:
    """Connect to the Ray cluster of `placement.address`, or start one for the block.

    Raises:
        ConfigError: Ray is not installed, or no cluster answers at the address.
    """
    need("placement.kind=ray", "ray")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # else what trains waits for every other process of the machine
    address = placement.address
    if address not in (None, "auto"):
        _refuse_unreachable(address)
    ray = importlib.import_module("ray")
    settings: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        settings |= {"num_cpus": usable_cores(), "include_dashboard": False}
    try:
        ray.init(address="local" if address is None else address, **settings)
    except (ConnectionError, ValueError) as error:
        raise ConfigError(
            f"placement.address={address}: no Ray cluster answers ({' '.join(str(error).split())[:160]}); start one "
            "with `ray start --head`, or leave placement.address out"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _refuse_unreachable(address: str | None) -> None:
    """Raise a ConfigError if nothing listens at HOST:PORT; Ray itself would wait for a minute."""
    host, _, port = str(address).rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(f"placement.address={address} is neither `auto` nor HOST:PORT of a Ray cluster")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"placement.address={address}: no Ray cluster answers there ({error}); start one with "
            "`ray start --head`, or leave placement.address out"
        ) from error


@contextlib.contextmanager
def ray_learners(
    config: RunConfig, agents: Sequence[str], folder: Path, start: Path | None
) -> Iterator[Sequence[Learner]]:
    """Learners in Ray actors that end with the block.

    There is one actor for each model, and one for its sampler if samplers are apart.

    Args:
        config: config of the run.
        agents: agents of its environment.
        folder: folder of the run, which all workers must share.
        start: checkpoint to start from.

    Raises:
        ConfigError: the cluster lacks the resources, or a worker does not share the folder.
        PolicyError: a model does not exist or cannot be trained.
        PlacementLostError: a worker is gone.
    """
    ray = importlib.import_module("ray")
    groups = importlib.import_module("ray.util.placement_group")
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    threads, paths = torch.get_num_threads(), tuple(sys.path)
    setups = worker_setups(config, agents, start and start.absolute(), threads, paths)
    refuse_short([setup.resources for setup in setups], ray.cluster_resources(), apart=config.placement.apart)
    group = groups.placement_group([setup.resources for setup in setups])
    hosts: list[RayHost] = []
    try:
        if not group.wait(min(ROOM_S, config.placement.timeout_s)):
            raise PlacementLostError("the cluster has the resources of this run, but others use them")
        places = [strategies.PlacementGroupSchedulingStrategy(group, index) for index in range(len(setups))]
        named = {setup.worker: place for setup, place in zip(setups, places, strict=True)}
        _refuse_unshared(named, folder, config.placement.timeout_s)
        for setup, place in zip(setups, places, strict=True):
            actor = ray.remote(PolicyWorker).options(
                num_cpus=setup.resources.get("CPU", 0),
                num_gpus=setup.resources.get("GPU", 0),
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy=place,
            )
            hosts.append(RayHost(setup.worker, actor.remote(setup), config.placement.timeout_s))
        yield worker_learners(_loaded(hosts))
    finally:
        for host in hosts:
            ray.kill(host.actor)
        groups.remove_placement_group(group)


def _loaded(hosts: Sequence[RayHost]) -> list[tuple[RayHost, list[PolicyFacts]]]:
    """Facts of the policies of every host, loaded at the same time."""
    with ThreadPoolExecutor(len(hosts)) as pool:
        return list(zip(hosts, pool.map(RayHost.load, hosts), strict=True))


def refuse_short(
    bundles: Sequence[Mapping[str, float]], available: Mapping[str, float], *, apart: bool = False
) -> None:
    """Refuse resources that the cluster does not have, for which Ray would wait for ever.

    Raises:
        ConfigError: it has too few CPUs or GPUs.

    >>> refuse_short([{"CPU": 1.0}, {"CPU": 1.0}], {"CPU": 2.0})
    """
    for name, key in (("CPU", "placement.cpus"), ("GPU", "placement.gpus")):
        wanted, has = sum(bundle.get(name, 0.0) for bundle in bundles), available.get(name, 0.0)
        if wanted > has:
            samplers = f" or {key.replace('placement', 'placement.samplers')}" if apart else ""
            together = ", placement.samplers.place=colocated" if apart else ""
            raise ConfigError(
                f"the workers of this run need {wanted:g} {name}s, and the Ray cluster has {has:g}: lower "
                f"{key}{samplers}, set team.kind=shared or lora{together}, or add nodes"
            )


def _refuse_unshared(places: Mapping[str, Any], folder: Path, timeout_s: float) -> None:
    """Raise a ConfigError if a worker's node does not see a file that this process wrote.

    The file is read before workers start, by a function that imports nothing.
    """

    def read(path: str) -> str:
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except OSError:
            return ""

    ray = importlib.import_module("ray")
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    file, token = folder.absolute() / SHARED, secrets.token_hex(8)
    file.write_text(token, encoding="utf-8")
    try:
        reads = {
            name: ray.remote(read).options(num_cpus=0, max_retries=0, scheduling_strategy=place).remote(str(file))
            for name, place in places.items()
        }
        for name, reference in reads.items():
            if _fetched(reference, name, "read", timeout_s) != token:
                raise ConfigError(
                    f"the worker {name!r} does not see the run folder {str(folder)!r}, where checkpoints are "
                    "written: put it on a file system that all nodes share (--out)"
                )
    finally:
        file.unlink(missing_ok=True)
        if made:
            with contextlib.suppress(OSError):
                folder.rmdir()
