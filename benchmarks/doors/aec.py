"""An environment in PettingZoo's AEC API: agents act one after the other.

    pettingzoo.make("aec", "palaver/arxiv-v0")

Only agents that may act are selected. The joint action is played when the last of them has acted, so that none sees
what the others write in the same turn.
"""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Dict
from pettingzoo import AECEnv

from palaver.core import Completion
from palaver.envs.base.env import TextEnv
from palaver.episodes import Turn
from palaver.trainers.rollout.branches import Branch, begin, first_joint, step_all
from palaver.trainers.rollout.episodes import ready_env


class AecView(AECEnv):  # type: ignore[misc]  # pettingzoo ships no types
    """AEC view of an environment.

    An observation is `{"text": TEXT}`, all that the agent has not answered yet, the parts of several turns with an
    empty line between them; of more than `max_length` characters the last ones are kept. Turns in which no agent may
    act are played at once.

    Args:
        env: is played; it belongs to the view from here on.
    """

    agent_selection: str

    def __init__(self, env: TextEnv) -> None:
        super().__init__()
        self._env = env
        self.metadata = {**env.metadata, "is_parallelizable": True}
        self.render_mode = env.render_mode
        self.possible_agents = list(env.possible_agents)
        self.agents: list[str] = []
        self.observation_spaces = {a: Dict({"text": env.observation_space(a)}) for a in env.possible_agents}
        self.action_spaces = {agent: env.action_space(agent) for agent in env.possible_agents}

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Turns of the episode so far."""
        return self._branch.turns

    def observation_space(self, agent: str) -> Dict:
        """The same object on every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """The same object on every call."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode; see `TextEnv.reset`.

        Raises:
            TaskError: there is no such task.
        """
        self._branch: Branch = begin(self._env, *self._env.reset(seed=seed, options=options), seed=seed or 0)
        self.agents = list(self._env.agents)
        self._skip_agent_selection = None  # of PettingZoo: set while agents that have left are removed
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self._play({})

    def observe(self, agent: str) -> dict[str, str]:
        """Observation of an agent: all that it has not answered yet."""
        return {"text": self._branch.unanswered(agent)}

    def step(self, action: str | None) -> None:
        """Act as `agent_selection`; None is silence, and the only action of an agent that has left."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        self._actions[agent] = Completion("" if action is None else action)
        if self._waiting:
            self.agent_selection = self._waiting.pop(0)
        else:
            self._play(self._actions)
            self._accumulate_rewards()

    def state(self) -> str:
        """Joint transcript so far."""
        return self._env.state()

    def render(self) -> Any:
        """The environment's picture in its render mode; None without one."""
        return self._env.render()

    def close(self) -> None:
        """Release what the environment holds."""
        self._env.close()

    def _play(self, actions: dict[str, Completion]) -> None:
        """Play a joint action, and turns in which no agent may act; select the next agent."""
        before = len(self._branch.turns)
        while actions or not self._branch.stop:
            if not actions and any(map(self._branch.can_act, self._env.agents)):
                break
            (self._branch,) = step_all([first_joint(self._branch, {a: [c] for a, c in actions.items()})])
            actions = {}
        branch, live = self._branch, self._env.agents
        played = branch.turns[before:]
        self.rewards = {agent: sum(turn.rewards[agent] for turn in played) for agent in self.agents}
        cut = {a for turn in played for a in turn.cut_states} if branch.stop != "unscored" else set(self.agents)
        self.truncations = {agent: agent not in live and agent in cut for agent in self.agents}
        self.terminations = {agent: agent not in live and agent not in cut for agent in self.agents}
        self.infos = {agent: dict(branch.infos.get(agent, {})) for agent in self.agents}
        self._actions: dict[str, Completion] = {}
        self._waiting = [agent for agent in live if branch.can_act(agent)]
        self.agent_selection = self._waiting.pop(0) if self._waiting else self.agents[0]
        self._deads_step_first()


def make_aec(id: str, **keywords: Any) -> AecView:
    """Make the AEC view of an environment; `pettingzoo.make("aec", "palaver/ID")` calls it.

    Raises:
        PalaverError: see `ready_env`.
    """
    return AecView(ready_env(id, keywords))
