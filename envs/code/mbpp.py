"""Two programmers share basic problems stated in a sentence (MBPP).

One writes a helper, the other the function. Rules and reward are those of [coophumaneval-v0](coophumaneval-v0.md).

## Observation

As in [coophumaneval-v0](coophumaneval-v0.md): at the start the roles, then the problem: a sentence and the
first test, which shows how the function is called, or a signature with a docstring, as the data set has it; after a
turn the feedback.

## Action

Any text; functions are parsed as described under [coophumaneval-v0](coophumaneval-v0.md#action).

## Rewards

As in [coophumaneval-v0](coophumaneval-v0.md#rewards), at most 4.0 a turn: `aux_defined` 0.4, `main_defined` 0.6,
`syntax` 0.5, `tests` up to 1.0, `calls_aux` 0.5, `no_wrapper` 1.0, `ignores_aux` -0.5, with the same metrics.

## Termination

After `num_turns` turns, or after one with a reward above `stop_above`.

## Data

`tasks="sample"` are 12 problems written for this project. Three schemas are read:

* `hf:OpenMLRL/MBPP` (427 problems, split `test`; published runs train on `test[15:65]` and evaluate on `test[:15]`):
  `prompt`, `entry_point`, and `test` with a function `check(candidate)`;
* MBPP itself, `hf:google-research-datasets/mbpp` (J. Austin et al., "Program Synthesis with Large Language Models",
  arXiv:2108.07732): `text`, `test_list`, `test_setup_code`;
* its sanitized form: `prompt`, `test_list`, `test_imports`.

In the last two the entry point is the function that all tests call; a field `entry_point` overrides that. `task_id`
names a task. What tests need of the row's own solution (`code`), such as a module that it imports or a class, they get
from there; the program is given instances as records with the same attributes. All 974 rows of MBPP can be used.

## Version history

* v0: first version.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from palaver.envs.base.env import TextEnv
from palaver.envs.code.base import CodeEnv


class MbppEnv(CodeEnv):
    """Mbpp; see the module's docstring for the reward."""

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "mbpp_v0"}
    sample: ClassVar[Path] = Path(__file__).with_name("mbpp.jsonl")
