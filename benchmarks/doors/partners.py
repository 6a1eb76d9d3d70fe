"""Partners: the policies of the other agents where a library plays one agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from palaver.agents.base.policy import Policy
from palaver.agents.llm.model.options import DEFAULT_OPTIONS
from palaver.agents.make_policy import parse_team_names
from palaver.benchmarks.evaluation.evaluate import as_trained, refuse_players_of_the_arena, resolved
from palaver.core import ConfigError, Request, Sampling, did_you_mean, stable_seed
from palaver.envs.base.env import TextEnv
from palaver.envs.base.tools import schema_of
from palaver.registry import Spec
from palaver.trainers.rollout.branches import Branch
from palaver.trainers.rollout.team import parse_team

DEFAULT_PARTNERS = "scripted:reference"


@dataclass(frozen=True, slots=True)
class Partners:
    """Policies of all agents but one, with their sampling parameters.

    Attributes:
        team: agent -> policy.
        sampling: agent -> sampling parameters.
    """

    team: Mapping[str, Policy]
    sampling: Mapping[str, Sampling]

    def requests(self, branch: Branch) -> Iterator[tuple[Policy, Request]]:
        """Requests of all partners that may act next; seeds depend on the branch's seed and turn."""
        for agent, policy in self.team.items():
            if branch.can_act(agent):
                seed = stable_seed(branch.seed, "partner", agent, len(branch.turns))
                tools = tuple(map(schema_of, branch.env.tools(agent)))
                legal = branch.legal_actions(agent)
                conversation, answered = branch.conversations[agent], branch.answered(agent)
                yield policy, Request(agent, conversation, (seed,), self.sampling[agent], tools, legal, answered)


def make_partners(
    env: TextEnv,
    env_spec: Spec,
    agent: str,
    partners: str | Mapping[str, Policy] = DEFAULT_PARTNERS,
    sampling: Sampling | None = None,
) -> Partners:
    """Make the policies of all agents but `agent`.

    Args:
        env: the environment.
        env_spec: its spec.
        agent: the agent that the library plays.
        partners: one policy's name for all, `agent=NAME,agent=NAME`, or agent -> policy.
        sampling: sampling parameters of all partners; None takes those that a run was trained with, else the defaults.

    Raises:
        ConfigError: no such agent, or a partner named for the agent itself.
        PolicyError: a partner that does not exist, or an agent without one.
    """
    if agent not in env.possible_agents:
        raise ConfigError(f"there is no agent {agent!r} in {env_spec.id}.{did_you_mean(agent, env.possible_agents)}")
    others = [each for each in env.possible_agents if each != agent]
    if not others:
        return Partners({}, {})
    if not isinstance(partners, str):
        if missing := [each for each in others if each not in partners]:
            raise ConfigError(f"partners has no policy for {missing[0]!r}; give one for each of {', '.join(others)}")
        return Partners({each: partners[each] for each in others}, dict.fromkeys(others, sampling or Sampling()))
    if any(part.strip().startswith(f"{agent}=") for part in partners.split(",")):
        raise ConfigError(f"{agent!r} is the agent that is played; name partners for {', '.join(others)} only")
    names = resolved(partners, lambda _: None)
    refuse_players_of_the_arena(parse_team_names(names, others).values(), env_spec)
    team = parse_team(names, env_spec, others, DEFAULT_OPTIONS, env.source)
    _, trained, by_agent = as_trained(names, env_spec.id)
    return Partners(team, {each: sampling or by_agent.get(each, trained) for each in others})
