"""The environments of cooperative code with the published reward.

Their pages are the modules that name their data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar

from palaver.core import ConfigError, did_you_mean
from palaver.envs.base.arguments import whole_number
from palaver.envs.base.env import MAX_LENGTH
from palaver.envs.code import problems, reward
from palaver.envs.code.base import PairEnv
from palaver.envs.code.expert import Expert, advisor
from palaver.envs.code.prompts import Mode, read_mode
from palaver.envs.code.reward import ProgramFacts
from palaver.envs.code.sandbox import DEFAULT, Limits

MOST_TURNS = 100
MOST_TESTS = 100_000


class CodeEnv(PairEnv):
    """Two programmers write one program, with the published reward; subclasses name the data.

    Args:
        tasks: `sample`, a path, or `hf:NAME:SPLIT`; a slice may follow.
        agents: 2, or 1 for the single programmer `coder`.
        num_turns: the number of turns.
        feedback: the mode of feedback after a turn: `level`, `passed`, `level_passed`, `plain`, `expert`, `none`.
        visible_tests: the tests that feedback shows: the first n; the last n if negative; all if 0 or None.
        expert: for `feedback="expert"`, a function from request to answer, or its `module:function`.
        weights: the weight of each component; those left out keep theirs.
        scale: multiplies every component.
        shift: is added to the reward of a turn, as a component of that name.
        stop_above: a turn with a larger reward ends the episode; None never does.
        entry_format: True gives 0.5 for answers of nothing but the requested function, and stops at all others.
        limits: of the sandbox, by name; those left out keep theirs.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit; the message begins with the keyword.
        TaskError: tasks that cannot be read, or a row that is no problem.
    """

    sample: ClassVar[Path]
    split: ClassVar[str] = "test"

    def __init__(
        self,
        tasks: str | Path = "sample",
        agents: int = 2,
        num_turns: int = 2,
        feedback: Mode = "level",
        visible_tests: int | None = 1,
        expert: Expert | str | None = None,
        weights: Mapping[str, float] = reward.WEIGHTS,
        scale: float = 1.0,
        shift: float = 0.0,
        stop_above: float | None = None,
        entry_format: bool = False,
        limits: Mapping[str, float] | None = None,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        self.rubric = reward.CodeRewardConfig(weights, scale, shift, entry_format)
        self.stop_above = None if stop_above is None else reward.finite_float("stop_above", stop_above)
        mode, expert_advisor = read_mode(feedback), advisor(expert)
        if (mode == "expert") != (expert_advisor is not None):
            raise ConfigError("feedback='expert' needs expert=, and expert= needs feedback='expert'")
        turns = whole_number("num_turns", num_turns, 1, MOST_TURNS)
        num_visible = (
            None if visible_tests is None else whole_number("visible_tests", visible_tests, -MOST_TESTS, MOST_TESTS)
        )
        loaded_tasks, known = problems.load(tasks, sample=self.sample, split=self.split)
        super().__init__(
            loaded_tasks,
            known,
            agents=agents,
            num_turns=turns,
            limits=read_limits(limits),
            mode=mode,
            visible_tests=num_visible,
            advisor=expert_advisor,
            source=tasks,
            render_mode=render_mode,
            max_length=max_length,
        )
        self.max_return = max_episode_return(self.rubric.max_reward, turns, self.stop_above)

    def rewards(self, facts: ProgramFacts) -> dict[str, float]:
        """The published components."""
        return reward.score(self.rubric, facts)

    def ends(self, _reward: float) -> bool:
        """Return whether the turn's reward is above `stop_above`."""
        return self.stop_above is not None and _reward > self.stop_above


def max_episode_return(turn: float, turns: int, stop_above: float | None) -> float:
    """Upper bound of the episode return.

    Args:
        turn: the largest reward of one turn.
        turns: of an episode.
        stop_above: a turn with a larger reward is the last.

    >>> [max_episode_return(*of) for of in ((4.0, 2, None), (4.0, 2, 3.8), (0.0, 2, -0.2))]
    [8.0, 7.8, 0.0]
    """
    before = turn if stop_above is None else min(turn, stop_above)
    return turn + (turns - 1) * before if stop_above is None or before > 0 else turn


def read_limits(given: Mapping[str, float] | None) -> Limits:
    """The sandbox's limits with some replaced.

    Raises:
        ConfigError: no such limit, or a value that is no number above 0.
    """
    if given is None:
        return DEFAULT
    if not isinstance(given, Mapping):
        raise ConfigError(f"limits must map names to numbers, got {given!r:.60}")
    known = {field.name: field.type for field in fields(Limits)}
    for name, value in given.items():
        if name not in known:
            raise ConfigError(f"limits has no {name!r}.{did_you_mean(str(name), known)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
            raise ConfigError(f"limits.{name} must be a number above 0, got {value!r:.60}")
        if known[name] == "int" and value != int(value):
            raise ConfigError(f"limits.{name} must be a whole number, got {value!r:.60}")
    changes: dict[str, Any] = {name: int(v) if known[name] == "int" else float(v) for name, v in given.items()}
    return replace(DEFAULT, **changes)
