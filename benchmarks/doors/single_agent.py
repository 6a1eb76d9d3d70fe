"""One agent of an environment as a Gymnasium environment; partners act for the others.

    gymnasium.make("palaver:palaver/arxiv-background-v0", partners="scripted:reference")

The part before the colon is the module that Gymnasium imports, so that the id is known.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

import gymnasium
from gymnasium.error import CustomSpaceError, ResetNeeded
from gymnasium.vector.utils import create_shared_memory

from palaver.agents.base.policy import Policy
from palaver.benchmarks.doors.partners import DEFAULT_PARTNERS, make_partners
from palaver.core import Completion, Sampling
from palaver.envs.base.spaces import UnicodeText
from palaver.episodes import Turn
from palaver.registry import spec
from palaver.trainers.rollout.branches import Branch, begin, first_joint, step_all
from palaver.trainers.rollout.episodes import complete, ready_env


class SingleAgentEnv(gymnasium.Env):  # type: ignore[misc]  # Any to mypy: gymnasium's imports are skipped
    """One agent of an environment, among partners.

    Turns in which the agent may not act are played by the partners, before the first observation too. An observation is
    all that the agent has not answered yet, the parts of several turns with an empty line between them; of more than
    `max_length` characters the last ones are kept. The reward is the sum over the turns since the last action.

    `info` of a step is that of the agent's last turn with `reward_components` summed likewise and `rewards`, agent ->
    its reward. The calls of tools that a model makes within a turn are not part of this view.

    Args:
        id: environment.
        agent: the agent that is played.
        partners: policies of the others: one name for all, `agent=NAME,agent=NAME`, or agent -> policy.
        sampling: sampling parameters of the partners, see `make_partners`.
        keywords: of the environment; `reward` names a judge or a reward model as in `palaver.make`.

    Raises:
        ConfigError: no such environment, agent or keyword.
        PolicyError: a partner that does not exist.
        TaskError: the tasks cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "html", "rgb_array"], "render_fps": 1}

    def __init__(
        self,
        id: str,
        agent: str,
        partners: str | Mapping[str, Policy] = DEFAULT_PARTNERS,
        *,
        sampling: Sampling | None = None,
        **keywords: Any,
    ) -> None:
        self._env = ready_env(id, keywords)
        self._partners = make_partners(self._env, spec(id), agent, partners, sampling)
        self.agent = agent
        self.metadata = {**self._env.metadata, "render_fps": 1}  # type: ignore[misc]  # an instance has fewer modes
        self.render_mode = self._env.render_mode
        self.observation_space = self._env.observation_space(agent)
        self.action_space = self._env.action_space(agent)
        self._branch: Branch | None = None

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Turns of the episode so far, of all agents."""
        return self._branch.turns if self._branch else ()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode, and play to the agent's first turn.

        Args:
            seed: of the environment and the partners; None goes on with the generators of both.
            options: `{"task": id or index}` chooses the task.

        Raises:
            TaskError: there is no such task.
        """
        super().reset(seed=seed)
        observations, infos = self._env.reset(seed=seed, options=options)
        self._branch = begin(self._env, observations, infos, int(self.np_random.integers(2**31)))
        self._scored = 0
        self._play_others()
        return self._branch.unanswered(self.agent), dict(self._branch.infos[self.agent])

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Act, and play to the agent's next turn or its end.

        Raises:
            ResetNeeded: before the first reset, or after the end.
        """
        if self._branch is None or self._scored < 0:
            raise ResetNeeded("there is no episode to act in; call reset first")
        if self.agent in self._env.agents:  # else it left before its first turn
            self._play({self.agent: [Completion(action)]})
            self._play_others()
        branch = self._branch
        turns = branch.turns[self._scored :]
        ended = self.agent not in self._env.agents
        cut = ended and (branch.stop == "unscored" or self.agent in branch.turns[-1].cut_states)
        self._scored = -1 if ended else len(branch.turns)
        reward = math.fsum(turn.rewards[self.agent] for turn in turns)
        return branch.unanswered(self.agent), reward, ended and not cut, cut, self._info(branch, turns)

    def render(self) -> Any:
        """The environment's picture in its render mode; None without one."""
        return self._env.render()

    def close(self) -> None:
        """Release what the environment holds."""
        self._env.close()

    def _play(self, own: Mapping[str, Sequence[Completion]]) -> None:
        assert self._branch is not None
        (answers,) = complete([self._branch], self._partners.requests)
        (self._branch,) = step_all([first_joint(self._branch, {**answers, **own})])

    def _play_others(self) -> None:
        assert self._branch is not None
        while self.agent in self._env.agents and not self._branch.can_act(self.agent):
            self._play({})

    def _info(self, branch: Branch, turns: Sequence[Turn]) -> dict[str, Any]:
        components: dict[str, float] = defaultdict(float)
        for turn in turns:
            for name, value in turn.components[self.agent].items():
                components[name] += value
        rewards = {each: math.fsum(turn.rewards[each] for turn in turns) for each in self._env.possible_agents}
        return {**branch.infos[self.agent], "reward_components": dict(components), "rewards": rewards}


@create_shared_memory.register(UnicodeText)  # type: ignore[untyped-decorator]
def _refuse_shared_memory(space: UnicodeText, n: int = 1, ctx: ModuleType | None = None) -> None:  # noqa: ARG001
    # Gymnasium would read the texts once, so that every later observation were the first
    raise CustomSpaceError(f"{space} has no fixed size in memory: use shared_memory=False")
