"""Checks of where a run computes: devices, workers and engines."""

from __future__ import annotations

import os
from collections.abc import Collection

from palaver.core import need, refuse
from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import RunConfig

Check = tuple[object, str]  # whether settings contradict each other, and what to do


def device_checks(config: RunConfig) -> list[Check]:
    """Several processes have a GPU each, which a number would make one for all."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    agents = {f"team.agents.{agent}.device": each.device for agent, each in config.team.agents.items()}
    return [
        (
            processes > 1 and ":" in (device or ""),
            f"{key}={device} is one GPU for {processes} processes: set {key}=cuda, which gives each process its own "
            "(CUDA_VISIBLE_DEVICES chooses among them)",
        )
        for key, device in {"device": config.device, **agents}.items()
    ]


def refuse_vllm(config: RunConfig, agents: Collection[str]) -> None:
    """Refuse generation by vLLM where it is not installed, or in a run of several processes.

    Raises:
        ConfigError: an agent generates by vLLM, and cannot.
    """
    asked = [agent for agent in agents if config.agent(agent).engine == "vllm"]
    if not asked:
        return
    where = "policy" if config.policy.engine == "vllm" else f"team.agents.{asked[0]}"
    need(f"{where}.engine=vllm", "vllm", "vllm")
    refuse(
        [
            (
                int(os.environ.get("WORLD_SIZE", "1")) > 1,
                f"{where}.engine=vllm is an engine in the process that trains, and this run has several: start one "
                f"process, or set {where}.engine=auto",
            )
        ]
    )


def worker_checks(config: RunConfig, algorithm: Algorithm) -> list[Check]:
    """Policies on workers."""
    where = f"placement.kind={config.placement.kind}"
    return [
        (
            algorithm.mixer != "none" and config.algorithm.mixer.actions == "legal",
            f"{where} places language models, and a run over legal actions has none: set placement.kind=local",
        ),
        (
            algorithm.pairs and config.algorithm.pairs.file,
            f"pairs of a file are scored in this process, where {where} has no models: set placement.kind=local",
        ),
    ]


def shard_checks(config: RunConfig, algorithm: Algorithm) -> list[Check]:
    """Policies whose weights are sharded over processes."""
    where = f"placement.shard={config.placement.shard}"
    kind, _ = config.kl.named
    return [
        (
            config.placement.kind != "local",
            f"{where} shards over the processes of torchrun, and placement.kind={config.placement.kind} starts workers "
            "of one process each: set placement.kind=local and start with torchrun, or placement.shard=none",
        ),
        (
            config.team.kind == "lora",
            f"{where} shards what is trained, and adapters are small: set team.kind to separate or shared, or "
            "placement.shard=none",
        ),
        (
            algorithm.estimator not in ("none", "agent"),
            f"{where} shards policies alone, and {algorithm.name} has "
            f"{'pairs' if algorithm.pairs else 'a mixer' if algorithm.mixer != 'none' else 'critics'}: set "
            "placement.shard=none, or algorithm.name to magrpo or another without them",
        ),
        (
            config.kl.coef > 0 and kind == "lag",
            f"{where} keeps no weights of earlier steps: set kl.reference to start, step:N or model:NAME",
        ),
    ]


def may_shard(config: RunConfig, algorithm: Algorithm) -> bool:
    """Return whether separate policies of these settings may be sharded over processes."""
    team = config.team.model_copy(update={"kind": "separate"})
    placement = config.placement.model_copy(update={"kind": "local", "shard": "fsdp2"})
    sharded = config.model_copy(update={"team": team, "placement": placement})
    return not any(refused for refused, _ in shard_checks(sharded, algorithm))
