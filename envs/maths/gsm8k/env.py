"""Word problems, and other questions with one right answer, solved by a team.

Workflows are debate, vote, summary and others. `workflow` sets the stages and the texts they see: `parallel`, `debate`,
`vote`, `summary` (also called `aggregate`), `chain`, `pioneer`, `verify`, `solver_judge`, or one of your own;
[workflows](../workflows.md) shows each of them, their options and how to declare another in 20 lines. By default two
solvers debate for two rounds.

## Observation

New text for an agent, when its turn comes. If it has not spoken yet, the question and how the answer is to be marked;
then what the workflow shows of the others' texts, and its instruction. Others' texts are shown under the name of their
author, each line behind `> `, so that none can pose as the prompt; one longer than `shown` characters is cut, and a
line without `> ` gives the number of characters left out. An agent that does not speak in a turn observes nothing.

    A garden has 5 rows of 12 bulbs. How many bulbs are there?
    End with #### and the answer.

    solver2 said:
    > 5 * 12 = 60
    > #### 60

    Answer the question again.

## Action

Any text. Its answer is found so:

1. Text before `</think>` is left out; after a `<think>` that is not closed nothing counts.
2. The last `####` (to the end of its line) or `\\boxed{...}` marks the answer. Of it counts what follows its last
   `=`, and of that the first number; where it has none the words, without case and punctuation.
3. Without a mark it is the first number after the last "answer is", "answer:" or "answer =", in the same line.
4. Otherwise it is the last number of the text.

Numbers are read exactly: `1,234.50`, `-3`, `.5`, `3/4`, `1 1/2`, `2½`, `1.5e3`, `3 × 10^5`, `\\frac{3}{4}`. Signs of
money and percentage are units like any others and change no value; numbers inside words, exponents, indices and
ordinals (`H2O`, `m^2`, `a_1`, `3rd`) are none. A verdict is the last of the words APPROVE and REJECT; a choice is the
whole number after the last `####`, else the last whole number.

The first `max_length` characters count. Silence is an empty text. Bytes are decoded, lone surrogates become `?`,
anything that is no text counts as empty; each of these, and a text that was cut, adds to the metric `illegal`.

## Rewards

An answer scores 1 if it equals the right one and 0 otherwise: numbers as exact fractions, words as words. A verdict
scores 1 if it is right about the current answer, a choice the score of the chosen answer.

`reward_scheme` sets how scores become rewards, see [rewards](../workflows.md#rewards). By default every turn gives each
agent the mean score of the answers of the turn (component `score`).

Metrics that are no reward: `correct`, the score of the team's current answer; `stopped`, 1 if the episode ended
before its last stage; where the turn answers `mean_score`, `best_score`, `answered`, `agreement` (the share of the
majority), `tied`; where it judges `approved`, `verdict_right`; and `illegal`.

`infos[agent]["reason"]` gives the right answer and the given one; agents do not see it.

## Termination

After the last stage of the workflow, or earlier by consensus (`options={"stop": true}` in a debate),
or by approval.

## Data

`tasks="sample"` are 20 word problems written for this project. The public data set is `hf:openai/gsm8k@main` (K. Cobbe
et al., "Training Verifiers to Solve Math Word Problems", arXiv:2110.14168). Any file with `question` and `answer` will
do, where the answer ends with `#### ` and the right one, or is nothing but the right one, a number or words; `id` names
a task.

`tasks="rg:NAME:SIZE:SEED"` are questions of [reasoning-gym](https://github.com/open-thought/reasoning-gym), of more
than 100 families that are made from a seed: `rg:chain_sum:100:7` (`pip install 'palaver[reasoning-gym]'`). Most
families make question n of a seed the first of seed + n, so seeds of training and evaluation should be SIZE apart.
Answers are scored by reasoning-gym, from 0 to 1: many families give a part for an answer that is partly right, or is
not in the form asked for. The answer is what follows the last `####`, to the end of the text, since it may have
several lines; else the last `\\boxed{...}`; else the last `<answer>...</answer>`; else the whole text without
thoughts. A verdict takes an answer for right above 0.5; votes count equal answers, without case and spacing, numbers
as numbers. Questions are made and answers scored in another process, in which an answer is evaluated as arithmetic or
as a literal at most. An answer that makes the scoring fail, or take a minute, scores 0; `scoring_failed` is the share
of these.

`scripted:reference` knows the sample and is right, also as verifier and judge; `scripted:muddler` solves the problems
of [maths-mini-v0](maths-mini-v0.md) and errs; `scripted:lazy` is silent. The tiny model cannot read these problems: it
has [maths-mini-v0](maths-mini-v0.md).

## Version history

* v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from palaver.envs.base.env import MAX_LENGTH, TextEnv
from palaver.envs.maths.env import SAMPLE, MathsEnv, load
from palaver.envs.workflows.graph import Workflow
from palaver.envs.workflows.reward_scheme import RewardScheme


class Gsm8kEnv(MathsEnv):
    """Word problems; see the module's docstring.

    Args:
        tasks: `sample`, a path, `hf:NAME@CONFIG:SPLIT`, or `rg:NAME:SIZE:SEED`; a slice may follow.

    Raises:
        ConfigError: a value that does not fit.
        TaskError: tasks that cannot be read, or an answer that holds none.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "gsm8k_v0"}

    def __init__(
        self,
        tasks: str | Path = "sample",
        workflow: str | Path | Mapping[str, Any] | Workflow = "debate",
        agents: int | None = None,
        rounds: int | None = None,
        options: Mapping[str, Any] | None = None,
        reward_scheme: Mapping[str, Any] | RewardScheme | None = None,
        shown: int = 2000,
        calculator: bool = False,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        super().__init__(
            load(tasks, SAMPLE),
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
