"""Checks of where a run computes: devices, workers and engines."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from palaver.core import did_you_mean, need, refuse
from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import RunConfig

Check = tuple[object, str]  # whether settings contradict each other, and what to do


def refuse_devices(config: RunConfig, algorithm: Algorithm, agents: Sequence[str]) -> None:
    """Refuse devices that contradict the team or the placement.

    They are of agents, critics, encoders and mixers. Settings that the algorithm ignores are not checked.

    Raises:
        ConfigError: one GPU for several processes, a critic that the run has not, or a device for what has none of
            its own.
    """
    named = {"device": config.device}
    named |= {f"team.agents.{agent}.device": each.device for agent, each in config.team.agents.items() if each.device}
    mixer, devices = config.algorithm.mixer, config.critic.devices if algorithm.critic in ("own", "joint") else {}
    apart = {f"critic.devices.{name}": device for name, device in devices.items()}  # copies of a policy's weights
    if algorithm.mixer != "none":
        named["algorithm.mixer.device"] = mixer.device
        if mixer.encoder_device:
            (apart if mixer.reads == "policy" else named)["algorithm.mixer.encoder_device"] = mixer.encoder_device
    processes, in_workers = int(os.environ.get("WORLD_SIZE", "1")), config.placement.kind != "local"
    policies = list(dict.fromkeys(map(config.team.policy_of, config.team.trained(agents))))
    critics = ["joint"] if algorithm.critic == "joint" else policies
    refuse(
        [
            *(
                (
                    processes > 1 and ":" in device,
                    f"{key}={device} is one GPU for {processes} processes: set {key}=cuda, which gives each process "
                    "its own (CUDA_VISIBLE_DEVICES chooses among them)",
                )
                for key, device in (named | apart).items()
            ),
            *(
                (
                    name not in critics,
                    f"critic.devices names {name!r}; the critics of this run are {', '.join(critics)}."
                    f"{did_you_mean(name, critics)}",
                )
                for name in devices
            ),
            *(
                (reason, f"{key}={device}: {reason}; leave {key} out, or set {change}")
                for key, device in apart.items()
                for reason, change in (
                    (config.team.kind == "lora" and "adapters compute where their base is", "team.kind=separate"),
                    (
                        key.startswith("critic") and config.critic.model == "shared" and "it is a policy's trunk",
                        "critic.model=separate",
                    ),
                    (in_workers and "each worker computes on a device of its own", "placement.kind=local"),
                )
            ),
            (
                algorithm.mixer != "none" and mixer.encoder_device and mixer.reads in ("table", "words"),
                f"algorithm.mixer.encoder_device={mixer.encoder_device}: algorithm.mixer.encoder={mixer.reads} has no "
                "model; leave algorithm.mixer.encoder_device out, or set algorithm.mixer.encoder to policy or hf:NAME",
            ),
        ]
    )


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
