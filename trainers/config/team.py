"""Config section of teams: weight sharing, per-agent settings, frozen agents.

    separate        one model per agent
    shared          one model for all; agents differ by their prompts
    lora            one base for all, an adapter and an optimiser per agent
    heterogeneous   a different model per agent, with its own tokenizer and sampling; they exchange text

In any of them an agent may be frozen: a stored policy that is not trained. Where agents are asked about each other
(`env.infer`), `inference` says who answers: in a run with other policies for that an agent has a second one, which the
team has under another name (`inference_role`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from palaver.core import did_you_mean, refuse
from palaver.episodes import inference_role, is_role
from palaver.utils.config import Section

Kind = Literal["separate", "shared", "lora", "heterogeneous"]

SHARING: dict[Kind, str] = {
    "separate": "one model per agent",
    "shared": "one model shared by all agents",
    "lora": "one adapter per agent on one base",
    "heterogeneous": "a different model for each agent",
}


Inference = Literal["own", "shared", "model"]
INFERENCE: dict[Inference, str] = {
    "own": "the acting model",
    "shared": "one other model for all agents",
    "model": "another model for each agent",
}
SHARED, SHARED_INFERENCE = "shared", "inference"  # names of policies of several agents


class AgentConfig(Section):
    """Settings of one agent of a heterogeneous team, in place of the policy section's."""

    model: str | None = None
    device: str | None = Field(
        None, description="device as named by PyTorch, of separate teams too; all agents on the same type of device"
    )
    chat: Literal["auto", "template", "plain"] | None = None
    engine: Literal["auto", "palaver", "transformers", "vllm"] | None = None
    temperature: float | None = Field(None, gt=0)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=0)
    max_tokens: int | None = Field(None, ge=1)
    max_prompt_tokens: int | None = Field(None, ge=1)
    stop: tuple[Annotated[str, Field(min_length=1)], ...] | None = None


class LoraConfig(Section):
    """Adapters of a `lora` team."""

    rank: int = Field(16, ge=1, description="r: columns of A and rows of B")
    alpha: float = Field(32.0, gt=0, description="the product B A is scaled by alpha / r")
    targets: str | tuple[str, ...] = Field(
        "all-linear", description="which layers: `all-linear`, or the ends of their names, as [q_proj, v_proj]"
    )


class TeamConfig(Section):
    """Weight sharing between agents, and frozen agents."""

    kind: Kind = Field("separate", description="one model per agent, one for all, adapters on one, or different ones")
    lora: LoraConfig = LoraConfig()
    agents: dict[str, AgentConfig] = Field(
        {}, description="heterogeneous: differences from the policy section, by agent; separate: their devices"
    )
    frozen: dict[str, str] = Field(
        {}, description="agents that are not trained: `scripted:NAME`, `hf:NAME`, `tiny` or `run:FOLDER`"
    )
    inference: Inference = Field(
        "own", description="who answers questions about others: the acting model, one for all, or one for each agent"
    )
    swap_every: int = Field(0, ge=0, description="updates after which every policy moves to the next agent; 0: never")

    def trained(self, agents: Sequence[str]) -> list[str]:
        """Agents that are trained, and roles."""
        return [agent for agent in self.roster(agents) if agent not in self.frozen]

    def roster(self, agents: Sequence[str]) -> list[str]:
        """Agents, and the roles in which other policies than theirs answer questions."""
        return [*agents, *(map(inference_role, agents) if self.inference != "own" else ())]

    def policy_of(self, agent: str) -> str:
        """Name of the trained policy of an agent or role."""
        if self.inference != "own" and is_role(agent):
            return SHARED_INFERENCE if self.inference == "shared" else agent
        return SHARED if self.kind == "shared" else agent

    def shift(self, agents: Sequence[str], step: int) -> int:
        """Shift of the policies in update `step` (1, 2, ...): (step - 1) // swap_every mod N."""
        return (max(step, 1) - 1) // self.swap_every % len(agents) if self.swap_every else 0

    def seating(self, agents: Sequence[str], step: int) -> dict[str, str]:
        """Agent -> the agent that its policy in update `step` was first assigned to.

        Agent i has the policy of agent (i + shift) mod N; before the first update each has its own.
        """
        shift = self.shift(agents, step)
        return {agent: agents[(index + shift) % len(agents)] for index, agent in enumerate(agents)}


def refuse_team(team: TeamConfig, agents: Sequence[str]) -> None:
    """Refuse a team that does not fit the environment.

    Raises:
        ConfigError: an unknown agent, no agent to train, or settings of another kind of team.
    """
    one = "the environment has one agent" if len(agents) == 1 else "team.kind=shared has one policy for all agents"
    refuse(
        [
            *(
                (
                    agent not in agents,
                    f"team.{key} names {agent!r}, which is no agent of this environment.{did_you_mean(agent, agents)}",
                )
                for key, named in (("agents", team.agents), ("frozen", team.frozen))
                for agent in named
            ),
            *(
                (
                    team.kind in ("shared", "lora")
                    or (team.kind == "separate" and settings.model_dump(exclude={"device"}, exclude_none=True)),
                    f"team.agents.{agent} holds differences between agents of a heterogeneous team, but "
                    f"team.kind={team.kind}: set team.kind=heterogeneous, or leave it out"
                    + (" (`device` may differ in separate teams)" if team.kind == "separate" else ""),
                )
                for agent, settings in team.agents.items()
            ),
            *(
                (
                    agent in team.frozen,
                    f"the agent {agent!r} is in team.agents and in team.frozen; leave it out of one",
                )
                for agent in team.agents
            ),
            (
                team.swap_every and (team.kind == "shared" or len(agents) == 1),
                f"team.swap_every has nothing to exchange, for {one}: set team.swap_every=0",
            ),
            (not team.trained(agents), "team.frozen leaves no agent to train; leave one out of it"),
        ]
    )
