"""Config section of the placement of policies: this process, or Ray actors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from palaver.core import did_you_mean, refuse
from palaver.trainers.config.team import TeamConfig
from palaver.utils.config import Section


class ResourcesConfig(Section):
    """Resources of one policy's worker, in place of the placement's."""

    cpus: float | None = Field(None, gt=0)
    gpus: float | None = Field(None, ge=0)


class SamplersConfig(ResourcesConfig):
    """Workers that sample with copies of the weights; null: as much as the policy's worker."""

    place: Literal["colocated", "apart"] = Field(
        "colocated",
        description="colocated: the worker that trains a policy samples; apart: another one, which gets the weights "
        "after every update",
    )


class PlacementConfig(Section):
    """Processes that hold the trained policies."""

    kind: Literal["local", "ray"] = Field("local", description="this process, or a Ray actor for each model")
    shard: Literal["none", "fsdp2"] = Field(
        "none", description="weights whole on each process of torchrun, or sharded over them (torch's fully_shard)"
    )
    address: str | None = Field(
        None, description="Ray cluster: HOST:PORT, or auto for the one of this machine; null starts one for the run"
    )
    cpus: float = Field(1.0, gt=0, description="CPUs of each worker")
    gpus: float = Field(0.0, ge=0, description="GPUs of each worker")
    policies: dict[str, ResourcesConfig] = Field({}, description="resources of single policies, by agent")
    samplers: SamplersConfig = SamplersConfig()
    timeout_s: float = Field(1800.0, gt=0, description="seconds after which a call counts as lost")
    retries: int = Field(2, ge=0, description="lost workers after which the run goes on from its latest checkpoint")

    @property
    def apart(self) -> bool:
        """True if policies are sampled and trained by different workers."""
        return self.samplers.place == "apart"

    def resources(self, policy: str, *, sampler: bool = False) -> dict[str, float]:
        """Resources of the worker of a policy, or of its sampler, as Ray names them; none that is 0."""
        own, samplers = self.policies.get(policy, ResourcesConfig()), self.samplers if sampler else ResourcesConfig()
        wanted = {
            "CPU": next(cpus for cpus in (samplers.cpus, own.cpus, self.cpus) if cpus is not None),
            "GPU": next(gpus for gpus in (samplers.gpus, own.gpus, self.gpus) if gpus is not None),
        }
        return {name: amount for name, amount in wanted.items() if amount}


def workers(team: TeamConfig, agents: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Worker -> agents whose policies are on it: one for each model.

    >>> workers(TeamConfig(kind="lora"), ["a", "b"]), workers(TeamConfig(), ["a", "b"])
    ({'lora': ('a', 'b')}, {'a': ('a',), 'b': ('b',)})
    """
    trained = team.trained(agents)
    if team.kind in ("shared", "lora"):
        return {team.kind: tuple(trained)}
    return {agent: (agent,) for agent in trained}


def refuse_placement(placement: PlacementConfig, team: TeamConfig, agents: Sequence[str]) -> None:
    """Refuse a placement that does not fit the team.

    Raises:
        ConfigError: samplers without workers, resources of an unknown worker, or devices of agents, which Ray assigns.
    """
    asked = [name for name in ("cpus", "gpus") if getattr(placement.samplers, name) is not None]
    refuse(
        [
            (
                placement.apart and placement.kind == "local",
                "placement.samplers.place=apart gives samplers Ray actors of their own, and placement.kind=local has "
                "none: set placement.kind=ray, or placement.samplers.place=colocated",
            ),
            (
                asked and not placement.apart,
                f"placement.samplers.{''.join(asked[:1])} is of samplers apart, and those of this run are their "
                "learners: set placement.samplers.place=apart",
            ),
        ]
    )
    if placement.kind == "local":
        return
    known = list(workers(team, agents))
    devices = [agent for agent, settings in team.agents.items() if settings.device]
    refuse(
        [
            *(
                (
                    name not in known,
                    f"placement.policies names {name!r}; the workers of this team are {', '.join(known)}."
                    f"{did_you_mean(name, known)}",
                )
                for name in placement.policies
            ),
            (
                devices,
                "team.agents.*.device names devices of this process, and with placement.kind=ray each worker has its "
                "own: set placement.policies.AGENT.gpus instead",
            ),
        ]
    )
