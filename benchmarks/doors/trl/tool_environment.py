"""`environment_factory` of TRL's `GRPOTrainer`: one agent acts by a tool among partners.

    factory = functools.partial(ToolEnvironment, "arxiv-v0", "background", "scripted:reference")
    GRPOTrainer(model, args=..., train_dataset=task_dataset("arxiv-v0"), environment_factory=factory)

Unlike a `rollout_func`, it needs a model whose chat template calls tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from palaver.agents.base.policy import Policy
from palaver.benchmarks.doors.partners import DEFAULT_PARTNERS
from palaver.benchmarks.doors.single_agent import SingleAgentEnv
from palaver.core import stable_seed
from palaver.trainers.rollout.episodes import text_env

if TYPE_CHECKING:
    from datasets import Dataset


class ToolEnvironment:
    """Episodes of one agent, for TRL: public methods but `reset` and `get_reward` are tools.

    Args:
        id: environment.
        agent: the agent that the model plays.
        partners: policies of the others, see `SingleAgentEnv`.
        keywords: of the environment.

    Raises:
        PalaverError: see `SingleAgentEnv`.
    """

    def __init__(
        self, id: str, agent: str, partners: str | Mapping[str, Policy] = DEFAULT_PARTNERS, **keywords: Any
    ) -> None:
        self._env = SingleAgentEnv(id, agent, partners, **keywords)
        self._return: float | None = 0.0
        self._over = True

    def reset(self, task: str | None = None, seed: int | None = None, **_: Any) -> str:
        """Start an episode of a row of the data set.

        Args:
            task: id of the task; None draws one.
            seed: of the environment and the partners; None goes on with their generators.

        Returns:
            The first observation, which TRL appends to the prompt.

        Raises:
            TaskError: there is no such task.
        """
        observation, _ = self._env.reset(seed=seed, options=None if task is None else {"task": task})
        self._return, self._over = 0.0, False
        return observation

    def say(self, text: str) -> str:
        """Act in the environment with a text, and read what follows.

        Args:
            text: The whole text of your action.

        Returns:
            The next observation, or a note that the episode is over.
        """
        if self._over:
            raise ValueError("the episode is over; do not call say again")
        observation = self._act(text)
        return f"{observation}\n\nThe episode is over.".strip() if self._over else observation

    def get_reward(self) -> float | None:
        """Return of the episode; None if it could not be scored.

        The agent is silent in the turns that are left.
        """
        while not self._over:
            self._act("")
        return self._return

    def _act(self, text: str) -> str:
        observation, reward, terminated, truncated, info = self._env.step(text)
        self._over = terminated or truncated
        self._return = None if info.get("unscored") or self._return is None else self._return + reward
        return observation


def task_dataset(id: str, *, instruction: str = "", seed: int = 0, **keywords: Any) -> Dataset:
    """Rows for `ToolEnvironment`, one for each task: `prompt`, `task` and `seed`.

    Args:
        id: environment.
        instruction: content of the prompt in front of the first observation; "" takes one that names the tool.
        seed: of the rows' seeds.
        keywords: of the environment.

    Raises:
        PalaverError: see `palaver.make`.
    """
    from datasets import Dataset

    prompt = [{"role": "user", "content": instruction or "Act by calling the tool `say`, once for each turn.\n\n"}]
    tasks = [task.id for task in text_env(id, keywords).tasks]
    return Dataset.from_list(
        [{"prompt": prompt, "task": task, "seed": stable_seed(seed, "row", task) % 2**31} for task in tasks]
    )
