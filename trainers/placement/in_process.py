"""Policies in this process, the default placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.registry import Spec
from palaver.trainers.config.run import RunConfig
from palaver.trainers.rollout.team import reference_model, trainable_team
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.policy_update import PolicyUpdater

if TYPE_CHECKING:
    from palaver.trainers.update.shards import Shards


def load_learners(
    config: RunConfig, spec: Spec, agents: Sequence[str], distributed: Distributed, start: Path | None = None
) -> list[PolicyUpdater]:
    """Load the trained policies of agents, and make one learner per distinct policy.

    References are made of these weights, and replaced by those of the run when the updater is restored.

    Args:
        config: config of the run.
        spec: spec of its environment.
        agents: agents; those that are not trained have no learner.
        distributed: device and processes.
        start: checkpoint of policies, optimisers and versions; None starts from `policy.model`.

    Raises:
        PolicyError: a model does not exist or cannot be trained.
    """
    return make_learners(config, trainable_team(config, spec, agents, distributed.device, start), distributed, start)


def load_samplers(
    config: RunConfig, spec: Spec, agents: Sequence[str], distributed: Distributed, start: Path | None = None
) -> list[PolicyUpdater]:
    """Load copies of the trained policies that sample and score.

    They have no reference, and no state of an optimiser. Their weights and versions are those that are sent to them;
    see `load_learners`.
    """
    return make_learners(
        without_penalty(config), trainable_team(config, spec, agents, distributed.device, start), distributed
    )


def without_penalty(config: RunConfig) -> RunConfig:
    """Copy of a config without a KL penalty, so that learners have no reference."""
    return config.model_copy(update={"kl": config.kl.model_copy(update={"coef": 0.0})})


def make_learners(
    config: RunConfig, trained: Mapping[str, LLMPolicy], distributed: Distributed, start: Path | None = None
) -> list[PolicyUpdater]:
    """Make one learner per distinct policy, sharded by `placement.shard`; see `load_learners`."""
    reference = reference_model(config, trained.values(), distributed.device)
    shards: dict[int, Shards] = {}  # each policy has its own, with the state of its optimiser
    if config.placement.shard == "fsdp2" and distributed.size > 1:
        from palaver.agents.llm.policies.sharded_policy import ShardedPolicy, shard
        from palaver.trainers.update import shards as operations

        sharded = {id(policy): ShardedPolicy(policy, distributed.size) for policy in dict.fromkeys(trained.values())}
        trained = {agent: sharded[id(policy)] for agent, policy in trained.items()}
        shards = {id(policy): operations.Shards(distributed) for policy in sharded.values()}
        if reference is not None:
            shard(reference, distributed.size)
    homes: dict[int, list[str]] = {}
    for agent, policy in trained.items():
        homes.setdefault(id(policy), []).append(agent)
    learners = [
        PolicyUpdater(trained[names[0]], names, config, distributed, reference, shards.get(home))
        for home, names in homes.items()
    ]
    if start:
        for learner in learners:
            learner.restore(start)
    return learners
