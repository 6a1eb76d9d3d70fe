"""Small sums and stories made from a seed, solved by a team: the maths of the tiny model.

The same workflows, rewards and reading of answers as [gsm8k-v0](gsm8k-v0.md), about problems that are made here: a
number is changed by one to three others, in a story or a bare sum. A single solver who errs now and then gains from
voting and from looking at what others answer, so a team has something to learn.

## Observation

As in [gsm8k-v0](gsm8k-v0.md#observation); the question is one of

    Cleo has 7 coins. A friend brings 5 more. Cleo loses 3. How many coins has Cleo now?
    What is 7 + 5 - 3?

## Action

Any text; its answer is parsed as described under [gsm8k-v0](gsm8k-v0.md#action). The tiny model writes the steps and
then the answer: `7 + 5 = 12, 12 - 3 = 9 coins. #### 9`.

## Rewards

As in [gsm8k-v0](gsm8k-v0.md#rewards), with the same metrics.

## Termination

As in [gsm8k-v0](gsm8k-v0.md#termination).

## Data

`tasks="sample"` are 64 problems, `tasks="generated:SEED:COUNT"` as many others. `difficulty="easy"` has one step,
`medium` two, with numbers from 0 to 12; `hard` three, one of which multiplies, with numbers from 0 to 40; of `mixed`
tasks three in four are `medium`, the others `hard`. Tasks are drawn from one in five of all problems, by a digest of
their words; the texts that the tiny model imitates have none of these. A
file needs `question` and `answer` as in [gsm8k-v0](gsm8k-v0.md#data), and `rg:NAME:SIZE:SEED` works as there.

`scripted:reference` is right as every agent. `scripted:muddler` gets one step in five wrong, takes over another's
answer every other time that it sees any, and approves and chooses by chance; the tiny model imitates it.
`scripted:lazy` is silent.

## Version history

* v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from palaver.envs.base.env import TextEnv
from palaver.envs.maths.env import MathsEnv, load_made
from palaver.envs.maths.problems import Difficulty
from palaver.envs.workflows.graph import Workflow
from palaver.envs.workflows.reward_scheme import RewardScheme


class MathsMiniEnv(MathsEnv):
    """Small problems; see the module's docstring.

    Args:
        tasks: `sample`, `generated:SEED:COUNT`, a path, or `rg:NAME:SIZE:SEED`; a slice may follow.
        difficulty: `easy`, `medium`, `hard` or `mixed`, of problems that are made here; None is `medium`.

    Raises:
        ConfigError: a value that does not fit.
        TaskError: tasks that cannot be read, or an answer that holds none.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "maths_mini_v0"}

    def __init__(
        self,
        tasks: str | Path = "sample",
        difficulty: Difficulty | None = None,
        workflow: str | Path | Mapping[str, Any] | Workflow = "debate",
        agents: int | None = None,
        rounds: int | None = None,
        options: Mapping[str, Any] | None = None,
        reward_scheme: Mapping[str, Any] | RewardScheme | None = None,
        shown: int = 400,
        calculator: bool = False,
        render_mode: str | None = None,
        max_length: int = 4096,
    ) -> None:
        super().__init__(
            load_made(tasks, difficulty),
            workflow,
            agents=agents,
            rounds=rounds,
            options=options,
            reward_scheme=reward_scheme,
            shown=shown,
            calculator=calculator,
            source=tasks,
            render_mode=render_mode,
            max_length=max_length,
        )
