"""Two programmers write one Python program: a helper, and the function that calls it.

Tests decide (CoopHumanEval). `aux` writes a helper function `aux(...)`, `main` writes the requested function and may
call `aux`. They write at the same time and see nothing of each other; later turns give each feedback on both halves.

## Observation

At the start the roles (at most 60 words), then the problem as the data set has it: a signature with a
docstring. After a turn the number of the next one, the feedback on the last, and the request to write the function
again:

| `feedback` | observation of an agent |
|---|---|
| `level` | functions found or not, the parser's message, the visible tests; `main` also how it uses `aux` |
| `passed` | one bit: whether all visible tests passed |
| `level_passed` | functions found, syntax and visible tests, as yes or no |
| `plain` | a request to go over the code; no results |
| `expert` | what a third party, who saw both halves and the results, would write in its place |
| `none` | a request to write again |

`visible_tests=1` shows the first test, `-1` the last, 0 or None all; the reward always counts all of them.
An agent's own texts are in its conversation. After the last turn nothing.

An expert is a function from a request to an answer, given by itself or as `module:function`: a script, a local or a
remote model. It is queried up to three times for a JSON object `{"aux": CODE, "main": CODE}`; each agent is shown its
own part. Where it gives none the feedback is `plain` and the metric `expert_failed` 1. It may raise `OSError`, as the
network errors of Python's library are; its answer is shown and never run:

    def expert(request: str) -> str:
        return client.complete(request)

    palaver.make("coophumaneval-v0", feedback="expert", expert=expert)

## Action

Any text; the definitions in it are taken, and nothing else is run:

1. Text in `<think>` (or `<thinking>`, `<thought>`, `<reasoning>`) is left out: up to the closing tag, to the
   end where it is not closed, from the start where only the closing tag is there.
2. Where there are fenced blocks (three or more backticks or tildes), those marked as Python or not marked are read;
   where none of them defines a function, all blocks; where none of those does, the whole text without its fence
   lines, then what is indented in it. A fence that is not closed goes to the end.
3. What is read is parsed as a whole or, where it does not parse, piece by piece: a piece begins with a line that is
   not indented, and ends before the first such line with which it parses. Prose does not parse and drops out.
4. Imports, functions, classes and assignments to names count, over all blocks in order; of several that define one
   name the last. Calls, prints, tests and `if __name__ == ...` are left out.
5. A piece that begins with `def NAME(` and does not parse counts as a function that is there but broken, unless there
   is one of that name that parses.

The program is then: the imports of the problem and of both answers; the helper functions that the problem's prompt
defines; `aux` from the first answer and the requested function from the second, each with what it needs of its own
answer. An `aux` that `main` writes next to its function is left out: the helper is the colleague's. With `agents=1`
the one agent `coder` writes both.

The first `max_length` characters count. Silence is an empty text. Bytes are decoded, lone surrogates become `?`,
anything that is no text counts as empty; each of these, and a text that was cut, adds to the metric `illegal`.

## Rewards

All agents receive the same reward in every turn, for the program of that turn; p of n tests pass:

| component | reward |
|---|---|
| `aux_defined` | 0.4 if `aux` is defined with a `return` of a value |
| `main_defined` | 0.6 if the requested function is defined; otherwise the rest stops |
| `syntax` | 0.5 if the joined program parses; otherwise the rest stops |
| `tests` | p / n; if p = 0 the rest stops |
| `calls_aux` | 0.5 if there is an `aux` and main calls it; otherwise the rest stops |
| `no_wrapper` | 1.0 if main is no thin wrapper of `aux` |
| `ignores_aux` | -0.5 if main drops a result of `aux` |

The maximum is 4.0. What main does with `aux` is read off the syntax tree: it calls `aux` by `aux(...)`, or by handing
it to a function (`map(aux, xs)`), in code that can be reached, unless it binds that name itself; a function of main's
own that is a thin wrapper of `aux` counts as `aux`. A thin wrapper returns what `aux` returns, unchanged, whatever it
is called with, and does nothing else but give names. A result is dropped if the call is a statement of its own, or if
no name that it is given to is ever read.

Options: `scale` multiplies every component, `shift` adds one more (published runs use -4), `weights` changes them,
`stop_above` ends the episode after a turn with a larger reward. `entry_format=True` requires each answer to be nothing
but the requested function and imports, bare or in one fenced block: that gives 0.5 as `format` (the maximum is 4.5),
and anything else stops everything.

Each `assert` of the tests is one test, run in the [sandbox](../sandbox.md): the tests in a process that is trusted,
the program in one that sees neither tests nor expected values. What the sandbox itself could not score is *unscored*:
it tries again, then the episode ends, truncated, with reward 0, `infos[agent]["unscored"]` is True, and the trainers
leave the episode out of its group; it is never taken for a reward of 0.

`infos[agent]["reason"]` gives the deciding fact in one line. Metrics that are no reward: `syntax_valid`,
`tests_passed`, `tests_total`, `solved` (all tests passed), `aux_used`, `wrapper`, `timeouts`, `illegal`, and with an
expert `expert_failed`. Over the samples of a task an evaluation reports pass@1 and pass@k of the last turns.

## Termination

After `num_turns` turns, or after one with a reward above `stop_above`.

## Data

`tasks="sample"` are 16 problems written for this project. The public data set is `hf:OpenMLRL/CoopHumanEval` (82
problems; published runs train on `train[16:]` and evaluate on `train[:16]`). A file needs `prompt`, `entry_point` and
`test`, Python source with a function `check(candidate)` or with assertions that call the entry point; `task_id` names
a task. A row whose tests cannot be run (they do not parse, assert nothing, never call the entry point, import what is
not of the standard library, read a name that nothing defines, pass a function) is left out; a warning names such rows
and counts them.

`scripted:reference` knows the built-in problems of all three environments and reaches 4; `scripted:lazy` wraps a
helper that does nothing. The tiny model knows the built-in problems too, and mixes right, lazy and broken halves.

## Differences from the publication

The reward is that of S. Liu et al., "LLM Collaboration With Multi-Agent Reinforcement Learning" (arXiv:2508.04652;
OpenMLRL/LLM_Collab_Code_Generation, `rewards/code_rewards.py`). There functions are found, and the use of `aux`
judged, by regular expressions; imports and constants of the answers are lost; a main without `return` counts as
missing; tests run in the training process, one line each, and three timeouts end them. The single-agent baseline
there writes no `aux`, and can reach 2.1; here `coder` is rewarded for one as a team is. The prompts are our own.

## Version history

* v0: first version.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from palaver.envs.base.env import TextEnv
from palaver.envs.code.base import CodeEnv


class CoopHumanEvalEnv(CodeEnv):
    """CoopHumanEval; see the module's docstring for the reward."""

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "coophumaneval_v0"}
    sample: ClassVar[Path] = Path(__file__).with_name("coophumaneval.jsonl")
    split: ClassVar[str] = "train"
