"""Agents repeat words that depend on the others' words.

A toy for turns, trees and discounts. The players `a1`, `a2`, ... form a ring, and each is given a word of the task. In
every turn each writes a text. Then it is given the first word that its neighbour (the next player; after the last one
the first) has just written, or its own first word again if the neighbour wrote none. So a player's text decides its
neighbour's next word, and continuations of one beginning differ when the beginnings do.

## Observation

At the start the rules and a word; after each turn but the last `The word is: WORD`.

## Action

Any text. Words are runs of letters, digits and underscores, compared in lower case by their first 24 characters.
Silence is an empty text. Bytes are decoded, lone surrogates become `?`, anything that is no text counts as empty; each
of these, and a text that was cut at `max_length`, adds to the metric `illegal`.

## Rewards

In each turn a player earns

* `echo`: 1 if the word it was given is among its words;
* `brevity`: 0.5 if it is its only word.

With `shared=True` every player receives the mean reward, component by component; with `shared=False` each its own. The
maximum is 1.5 a turn.

Metrics that are no reward: `words`, the mean number of words in a text, and `illegal`.

## Termination

After `num_turns` turns.

## Data

`tasks="sample"` are lists of words written for this project. A file needs `words`, a text of at least as many words as
there are players, parted by spaces; `id` names a task.

## Version history

* v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from palaver.core import ConfigError
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task
from palaver.envs.echo import data, prompts, rules
from palaver.envs.writing.text import words

MOST = 1_000_000  # players, turns


class EchoEnv(TextEnv):
    """Repeat what you are given; see the module's docstring for the rules.

    Args:
        tasks: `sample`, or a path; a slice may follow.
        agents: the number of players.
        num_turns: the number of turns.
        shared: True gives all players the mean reward, False each its own.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit; the message begins with the keyword.
        TaskError: tasks that cannot be read, or with fewer words than players.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "echo_v0"}

    def __init__(
        self,
        tasks: str | Path = "sample",
        agents: int = 2,
        num_turns: int = 3,
        shared: bool = True,
        render_mode: str | None = None,
        max_length: int = 1024,
    ) -> None:
        for keyword, value in (("agents", agents), ("num_turns", num_turns)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
                raise ConfigError(f"{keyword} must be a whole number from 1 to {MOST:,}, got {value!r:.40}")
        if not isinstance(shared, bool):
            raise ConfigError(f"shared must be true or false, got {shared!r}")
        super().__init__(
            [f"a{n}" for n in range(1, agents + 1)],
            data.load(tasks, agents),
            render_mode=render_mode,
            max_length=max_length,
            source=tasks,
        )
        self.num_turns = num_turns
        self.max_return = 1.5 * num_turns
        self.shared = shared
        self.targets: dict[str, str] = {}

    def initial_observations(self, task: Task) -> dict[str, str]:
        """Give every player its own word."""
        self.targets = self._own_words(task)
        return {agent: prompts.opening(word, self.num_turns) for agent, word in self.targets.items()}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Reward the texts and give each player its next word."""
        earned = {agent: rules.judge(self.targets[agent], text) for agent, text in actions.items()}
        if self.shared:
            parts = next(iter(earned.values()))
            mean = {name: sum(parts_of[name] for parts_of in earned.values()) / len(earned) for name in parts}
            earned = dict.fromkeys(earned, mean)
        own_words, last = self._own_words(self.task), self.turn + 1 >= self.num_turns
        neighbours = zip(self.agents, [*self.agents[1:], self.agents[0]], strict=True)
        self.targets = {
            agent: rules.next_target(actions[neighbour], own_words[agent]) for agent, neighbour in neighbours
        }
        return StepResult(
            earned,
            observations={} if last else {agent: prompts.feedback(word) for agent, word in self.targets.items()},
            terminated=last,
            metrics={"words": sum(len(words(text)) for text in actions.values()) / len(actions)},
        )

    def _own_words(self, task: Task) -> dict[str, str]:
        return dict(zip(self.possible_agents, map(rules.first_word, task["words"].split()), strict=False))
