"""Two programmers share the problems of HumanEval.

One writes a helper, the other the requested function. The problems were made for one programmer (M. Chen et al.,
"Evaluating Large Language Models Trained on Code", arXiv:2107.03374), so not every one falls into two halves; rules and
reward are those of [coophumaneval-v0](coophumaneval-v0.md).

## Observation

As in [coophumaneval-v0](coophumaneval-v0.md): at the start the roles, then the problem, a signature with a docstring;
after a turn the feedback.

## Action

Any text; functions are parsed as described under [coophumaneval-v0](coophumaneval-v0.md#action).

## Rewards

As in [coophumaneval-v0](coophumaneval-v0.md#rewards), at most 4.0 a turn: `aux_defined` 0.4, `main_defined` 0.6,
`syntax` 0.5, `tests` up to 1.0, `calls_aux` 0.5, `no_wrapper` 1.0, `ignores_aux` -0.5, with the same metrics.

## Termination

After `num_turns` turns, or after one with a reward above `stop_above`.

## Data

`tasks="sample"` are 12 problems written for this project. The public data set is `hf:openai/openai_humaneval` (164
problems, all in the split `test`; published runs train on `test[33:163]` and evaluate on `test[:32]`), or its file
`HumanEval.jsonl.gz`. A row needs `prompt`, `entry_point` and `test` with a function `check(candidate)`; `task_id`
names a task, `canonical_solution` is not read. Helper functions that a prompt defines belong to the program.

## Version history

* v0: first version.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from palaver.envs.base.env import TextEnv
from palaver.envs.code.base import CodeEnv


class HumanEvalEnv(CodeEnv):
    """HumanEval; see the module's docstring for the reward."""

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "humaneval_v0"}
    sample: ClassVar[Path] = Path(__file__).with_name("humaneval.jsonl")
