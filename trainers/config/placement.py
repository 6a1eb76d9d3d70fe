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
    timeout_s: float = Field(1800.0, gt=0, description="seconds after which a call counts as lost")
    retries: int = Field(2, ge=0, description="lost workers after which the run goes on from its latest checkpoint")

    def resources(self, policy: str) -> dict[str, float]:
        """Resources of the worker of a policy, as Ray names them; none that is 0."""
        own = self.policies.get(policy, ResourcesConfig())
        wanted = {
            "CPU": self.cpus if own.cpus is None else own.cpus,
            "GPU": self.gpus if own.gpus is None else own.gpus,
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
        ConfigError: resources of an unknown worker, or devices of agents, which Ray assigns.
    """
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
