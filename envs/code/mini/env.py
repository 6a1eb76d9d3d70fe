"""Two agents write one small Python program and must agree on the use of the helper.

They do not see each other's code. `f(xs)` keeps some numbers of a list, changes each, and returns them in some way.
`aux` writes a helper, `main` writes `f` and calls it. Either half is easy; they fit only if both have the same of three
conventions in mind:

| convention | `aux` | `f` |
|---|---|---|
| `map` | changes a number: `return x * x` | `[aux(x) for x in xs if x > 0]` |
| `test` | decides whether one is kept: `return x > 0` | `[x * x for x in xs if aux(x)]` |
| `list` | keeps the numbers of a list: `return [x for x in xs if x > 0]` | `[x * x for x in aux(xs)]` |

All three are equally good, so nothing but an agreement decides: a game of pure coordination, in real Python with real
tests. Two halves of different conventions never pass all tests (held by a test over all problems).

## Observation

At the start the roles, and what `f` does:

    Two strangers write one program and see nothing of each other. You write a helper aux, for f to call.
    f(xs) keeps the positive numbers of xs, squares each and returns their sum.

With `examples=1` the description leaves two filters and two maps open, and examples of an agent's own part decide
between them. Those of `f` are for a helper that changes nothing:

    Two strangers write one program and see nothing of each other. You write f, which calls a helper aux.
    f(xs) keeps the even numbers or keeps the odd numbers of xs, squares each or cubes each and returns their sum.
    aux changes one number. Your part passes:
    aux = int
    assert f([-8, 9]) == -8

With `own_tests=true` an agent can run them; see [tools](../tools.md).

After the turn nothing.

## Action

Any text; functions are parsed as described under [coophumaneval-v0](coophumaneval-v0.md#action). With
`agents=1` the one agent `coder` writes both.

## Rewards

All agents receive the same reward:

* `aux_parses` and `main_parses`: 0.2 each if the function is there and is Python;
* `uses_aux`: 0.1 if `f` calls `aux`;
* `tests`: 0.5 times the share of the four tests passed;
* `solved`: 1 if all passed.

The maximum is 2. Programs run in the [sandbox](../sandbox.md); what it could not score is unscored, as in
[coophumaneval-v0](coophumaneval-v0.md#rewards).

Metrics that are no reward: which convention each half follows, `aux_map`, `aux_test`, `aux_list`, `main_map`,
`main_test`, `main_list`, each 1 or 0; and `syntax_valid`, `tests_passed`, `tests_total`, `solved`, `aux_used`,
`wrapper`, `timeouts`, `illegal`.

## Termination

After one turn.

## Data

`tasks="sample"` are all 384 problems of the family, 8 filters by 8 maps by 6 ways to return, in a fixed shuffled
order. The last 60 are held out: the texts that the tiny model imitates have none of them, and recipes train on
`sample[:324]`. A file needs `filter`, `map` and `aggregate`, names of the family's parts; `task_id` names a task.

`scripted:reference` always takes the helper for a test, and with examples for the change of a number;
`scripted:strangers` draw a convention each time, `scripted:lazy` is silent. The tiny model imitates `strangers`.

## Version history

* v0: first version.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from palaver.core import TaskError, did_you_mean
from palaver.envs.base.arguments import whole_number
from palaver.envs.base.env import TextEnv
from palaver.envs.base.questions import InferenceQuestion
from palaver.envs.base.tasks import ParsedTasks, Task, read_tasks
from palaver.envs.code import answers
from palaver.envs.code.base import PairEnv
from palaver.envs.code.mini.family import AGGREGATES, CONVENTIONS, FILTERS, MAPS, NUMBERS, Combination, opening
from palaver.envs.code.problems import CodeProblem
from palaver.envs.code.programs import AUX, Program, join
from palaver.envs.code.prompts import MAIN
from palaver.envs.code.reward import ProgramFacts
from palaver.envs.code.sandbox import Limits, check_tests
from palaver.text import one_line

WEIGHTS = {"aux_parses": 0.2, "main_parses": 0.2, "uses_aux": 0.1, "tests": 0.5, "solved": 1.0}
LIMITS = Limits(seconds=1.0, total_seconds=3.0)
SAMPLE = Path(__file__).with_name("sample.jsonl")
ENTRY_POINT = "f"
_PARTS = {"filter": FILTERS, "map": MAPS, "aggregate": AGGREGATES}


class CodingMiniEnv(PairEnv):
    """Write a helper, or the function that calls it; see the module's docstring for the reward.

    Args:
        tasks: `sample`, or a path; a slice may follow.
        agents: 2, or 1 for the single programmer `coder`.
        own_tests: give every agent the tool `run_tests`, which runs its own tests on its own code in the sandbox.
        examples: tests in the prompt, of each function of the agent; with them the description leaves readings open.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit.
        TaskError: tasks that cannot be read, or name a part that the family does not have.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "coding_mini_v0"}

    def __init__(
        self,
        tasks: str | Path = "sample",
        agents: int = 2,
        own_tests: bool = False,
        examples: int = 0,
        render_mode: str | None = None,
        max_length: int = 4096,
    ) -> None:
        self.examples = whole_number("examples", examples, 0, len(NUMBERS))
        loaded_tasks, problems = load(tasks)
        super().__init__(
            loaded_tasks,
            problems,
            agents=agents,
            num_turns=1,
            limits=LIMITS,
            mode="none",
            visible_tests=None,
            advisor=None,
            own_tests=own_tests,
            source=tasks,
            render_mode=render_mode,
            max_length=max_length,
        )

    def prompt(self, agent: str, problem: CodeProblem) -> str:
        """The roles, what f does, and examples of the agent's part."""
        if not self.examples:
            return opening(agent, problem.prompt)
        combination = _combination(self.task)
        return opening(agent, combination.open_text, combination.examples(agent, self.examples))

    def rewards(self, facts: ProgramFacts) -> dict[str, float]:
        """Each half, the call, the tests passed, and most of all the whole."""
        earned = {
            "aux_parses": float(facts.aux_parses),
            "main_parses": float(facts.main_parses),
            "uses_aux": float(facts.calls_aux),
            "tests": facts.passed / facts.total,
            "solved": float(facts.solved),
        }
        return {name: WEIGHTS[name] * share for name, share in earned.items()}

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:
        """The convention that the other half follows."""
        others = [other for other in self.possible_agents if other != agent]
        truth = None
        if actions and others:
            aux, main = (answers.read(actions[name]) for name in (AUX, MAIN))
            program = join((), aux, main, ENTRY_POINT)
            nodes = {AUX: program.aux, MAIN: program.main}
            node = nodes[others[0]]
            found = "" if node is None else helper(node.node) if others[0] == AUX else caller(node.node)
            truth = (found,) if found else None
        return [
            InferenceQuestion(other, f"What is aux for {other}: map, test or list?", "choice", CONVENTIONS, truth)
            for other in others
        ]

    def measure(self, _program: Program) -> dict[str, float]:
        """Metrics of the convention of each half."""
        return shares(_program)


def load(source: str | Path) -> tuple[tuple[Task, ...], ParsedTasks[CodeProblem]]:
    """Tasks with the fields `filter`, `map`, `aggregate` and `task_id`, and their problems.

    Raises:
        TaskError: no task can be used; see `palaver.envs.base.tasks.load_tasks` for the others.
    """
    return read_tasks(
        source,
        lambda task: _problem(task, source),
        sample=SAMPLE,
        fields=dict.fromkeys(_PARTS, str),
        id_field="task_id",
    )


def _problem(task: Task, source: str | Path) -> CodeProblem:
    for field, pieces in _PARTS.items():
        if task[field] not in pieces:
            location = one_line(f"{source}, task {task.id!r}")
            raise TaskError(f"{location}: there is no {field} {task[field]!r:.40}.{did_you_mean(task[field], pieces)}")
    combination = _combination(task)
    tests = combination.tests()
    return CodeProblem(combination.text, ENTRY_POINT, tests, preamble=(), total=len(check_tests(tests, ENTRY_POINT)))


def _combination(task: Task) -> Combination:
    return Combination(task["filter"], task["map"], task["aggregate"])


def shares(program: Program) -> dict[str, float]:
    """`aux_NAME` and `main_NAME` for each convention.

    The value is 1 for the convention that the function follows, else 0.
    """
    conventions = {
        "aux": helper(program.aux.node) if program.aux else "",
        "main": caller(program.main.node) if program.main else "",
    }
    return {f"{agent}_{name}": float(conventions[agent] == name) for agent in conventions for name in CONVENTIONS}


def helper(node: ast.AST | None) -> str:
    """The convention of `aux`; "" where it returns nothing."""
    returned = [child.value for child in _walk(node) if isinstance(child, ast.Return) and child.value is not None]
    if not returned:
        return ""
    value = returned[-1]
    if isinstance(value, ast.ListComp | ast.List | ast.GeneratorExp):
        return "list"
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("list", "filter"):
        return "list"
    return "test" if isinstance(value, ast.Compare | ast.BoolOp) else "map"


def caller(node: ast.AST | None) -> str:
    """The convention of the function that calls `aux`; "" where it does not."""
    conventions = set[str]()
    for child in _walk(node):
        if isinstance(child, ast.comprehension):
            conventions |= {"list"} if _calls(child.iter) else set()
            conventions |= {"test"} if any(map(_calls, child.ifs)) else set()
        elif isinstance(child, ast.For) and _calls(child.iter):
            conventions.add("list")
        elif isinstance(child, ast.If) and _calls(child.test):
            conventions.add("test")
    if not conventions:
        return "map" if node is not None and _calls(node) else ""
    return "list" if "list" in conventions else "test"


def _calls(node: ast.AST) -> bool:
    return any(
        isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == AUX
        for child in _walk(node)
    )


def _walk(node: ast.AST | None) -> Iterator[ast.AST]:
    return ast.walk(node) if node is not None else iter(())
