"""The small family: what it pays, that only agreement solves it, and that nothing held out is taught."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest

import palaver
from palaver.core import Message, TaskError
from palaver.envs.base.scripted import lazy
from palaver.envs.code import answers
from palaver.envs.code.mini import corpus
from palaver.envs.code.mini import env as conventions
from palaver.envs.code.mini import family as reference
from palaver.envs.code.mini.family import (
    AGGREGATES,
    CONVENTIONS,
    FILTERS,
    HELD_OUT,
    MAPS,
    PASSES,
    TESTS,
    combinations,
    opening,
    seat_of,
)
from palaver.envs.code.programs import join

EVERY = combinations()


def run(problem, aux, main):
    """How many of the tests the halves of two conventions pass."""
    return passes(f"{problem.aux(aux)}\n{problem.main(main)}", problem)


def passes(program, problem):
    """How many of the tests a program passes; it is our own text, so it may run here."""
    space, passed = {}, 0
    exec(program, space)
    for line in problem.tests().splitlines()[1:]:
        try:
            exec(line.strip(), {"candidate": space["f"]})
            passed += 1
        except (AssertionError, TypeError, IndexError):
            pass
    return passed


def test_the_family():
    assert len(EVERY) == len(set(EVERY)) == 8 * 8 * 6
    assert len({each.text for each in EVERY}) == len(EVERY)
    for piece in (*FILTERS.values(), *MAPS.values()):  # the code of a piece is what its function does
        assert [eval(piece.code, {"x": x}) for x in range(-20, 20)] == [piece.run(x) for x in range(-20, 20)]
    for piece in AGGREGATES.values():
        assert eval(piece.code, {"ys": [3, 1, 2]}) == piece.run([3, 1, 2])


@pytest.mark.parametrize("filter", FILTERS)
def test_equal_conventions_solve_every_problem_and_different_ones_none(filter):
    for problem in (each for each in EVERY if each.filter == filter):
        for aux, main in itertools.product(CONVENTIONS, CONVENTIONS):
            passed = run(problem, aux, main)
            assert passed == TESTS if aux == main else passed < TESTS, (problem, aux, main)


@pytest.mark.parametrize(("aux", "main"), list(itertools.product(CONVENTIONS, CONVENTIONS)))
def test_conventions_are_told_from_the_code(aux, main):
    for problem in EVERY[::17]:
        program = join((), answers.read(problem.aux(aux)), answers.read(problem.main(main)), "f")
        found = conventions.shares(program)
        assert {name for name, share in found.items() if share} == {f"aux_{aux}", f"main_{main}"}


@pytest.mark.parametrize(
    ("aux", "main", "found"),
    [
        ("def aux(xs):\n    return list(filter(bool, xs))\n", "def f(xs):\n    return sum(aux(xs))\n", ("list", "map")),
        ("def aux(x):\n    return x > 0 and x < 5\n", "def f(xs):\n    return xs\n", ("test", "")),
        ("def aux(x):\n    print(x)\n", "def f(xs):\n    for x in aux(xs):\n        print(x)\n", ("", "list")),
        ("", "def f(xs):\n    for x in xs:\n        if aux(x):\n            return x\n", ("", "test")),
        ("def aux(x):\n    return (x\n", "", ("", "")),
    ],
)  # fmt: skip
def test_conventions_of_code_that_is_written_otherwise(aux, main, found):
    program = join((), answers.read(aux), answers.read(main), "f")
    expected = {f"{seat}_{name}" for seat, name in zip(("aux", "main"), found, strict=True) if name}
    assert {name for name, share in conventions.shares(program).items() if share} == expected


def play(aux, main):
    env = palaver.make("coding-mini-v0")
    env.reset(options={"task": "even-square-sum"})
    _, rewards, terminated, _, infos = env.step({"aux": aux, "main": main})
    assert set(terminated.values()) == {True}
    return rewards["aux"], infos["main"]["reward_components"], infos["main"]["metrics"]


TASK = next(each for each in EVERY if (each.filter, each.map, each.aggregate) == ("even", "square", "sum"))


@pytest.mark.parametrize(
    ("aux", "main", "paid"),
    [
        (TASK.aux("test"), TASK.main("test"), 2.0),
        (TASK.aux("map"), TASK.main("list"), 0.5),  # both halves and the call, no test
        (TASK.aux("test"), "def f(xs):\n    return sum([x * x for x in xs if x % 2 == 0])", 1.9),
        ("", "def f(xs):\n    return sum([x * x for x in xs if x % 2 == 0])", 1.7),
        (TASK.aux("test"), "def f(xs):\n    ys = [x for x in xs if aux(x)", 0.2),
        ("def aux(x):\n    return (x", TASK.main("test"), 0.2),
        ("", "", 0.0),
    ],
)
def test_what_is_paid(aux, main, paid):
    reward, parts, _ = play(aux, main)
    assert reward == pytest.approx(paid)
    assert set(parts) == {"aux_parses", "main_parses", "uses_aux", "tests", "solved"}


def test_metrics_tell_the_conventions():
    *_, metrics = play(TASK.aux("list"), TASK.main("map"))
    shown = {name: value for name, value in metrics.items() if name.startswith(("aux_", "main_")) and value}
    assert shown == {"aux_used": 1.0, "aux_list": 1.0, "main_map": 1.0}
    assert metrics["solved"] == 0.0


def mean(policy, tasks, **kwargs):
    env = palaver.make("coding-mini-v0", tasks=tasks, **kwargs)
    solved = 0
    for number, task in enumerate(env.tasks):
        told, _ = env.reset(options={"task": task.id})
        said = {a: policy((Message("user", text),), number * 7 + len(a)) for a, text in told.items()}
        solved += env.step(said)[4][env.possible_agents[0]]["metrics"]["solved"]
    return solved / len(env.tasks)


def test_scripted_policies():
    assert mean(reference.reference, "sample[324:]") == 1.0
    assert mean(reference.reference, "sample[:20]", agents=1) == 1.0
    assert 0.15 < mean(reference.strangers, "sample[:120]") < 0.5  # one in three
    assert mean(lazy, "sample[:3]") == 0.0
    assert reference.reference((Message("user", "Hello."),), 0) == ""
    assert reference.reference((), 0) == ""
    assert seat_of(opening("main", "f(xs) keeps.")) == "main"


@pytest.mark.parametrize("agent", ["aux", "main"])
def test_every_example_passes_the_meant_half_and_fails_the_other(agent):
    for problem in EVERY:
        meant = getattr(problem, agent)("map")
        halves = [getattr(reading, agent)("map") for reading in problem.readings]
        assert halves.count(meant) == 1
        for line in problem.examples(agent, 4).removeprefix("aux = int\n").split("\n"):
            for half in halves:
                space = {"aux": int}
                exec(half, space)
                assert eval(line.removeprefix("assert "), space) == (half == meant), (problem, line, half)


@pytest.mark.parametrize(("agents", "examples"), [(2, 1), (2, 4), (1, 1)])
def test_examples_alone_say_which_reading_is_meant(agents, examples):
    assert mean(reference.reference, "sample[:30]", agents=agents, examples=examples) == 1.0
    env = palaver.make("coding-mini-v0", agents=agents, examples=examples)
    prompts = [env.reset(options={"task": task.id})[0][env.possible_agents[-1]] for task in env.tasks]
    assert len({prompt.partition(PASSES)[0] for prompt in prompts}) == len(EVERY) / 4
    assert all(prompt.count("assert f(") == examples for prompt in prompts)


def test_a_program_with_a_half_of_the_other_reading_solves_nothing():
    for problem in EVERY:
        for reading in problem.readings:
            program, passed = f"{reading.aux('map')}\n{problem.main('map')}", problem.map == reading.map
            assert (passes(program, problem) == TESTS) == passed, (problem, program)
            program, passed = f"{problem.aux('map')}\n{reading.main('map')}", problem.filter == reading.filter
            assert (passes(program, problem) == TESTS) == passed, (problem, program)


def test_the_sample_is_what_the_family_writes():
    rows = [json.loads(line) for line in corpus.SAMPLE.read_text().splitlines()]
    assert rows == corpus.tasks()
    assert len(palaver.make("coding-mini-v0", tasks="sample[324:]").tasks) == HELD_OUT == 60


def test_demonstrations_are_right_halves_that_do_not_agree_and_hold_nothing_out():
    texts = corpus.demonstrations(6000, 0)
    assert corpus.demonstrations(40, 0) == texts[:40]
    assert corpus.demonstrations(40, 1) != texts[:40]
    by_text = {each.text: each for each in EVERY[:-HELD_OUT]}
    counts = Counter()
    for (asked,), answer in texts:
        problem, seat = by_text[asked.content.rpartition("\n")[2]], seat_of(asked.content)
        write = problem.aux if seat == "aux" else problem.main
        (convention,) = [name for name in CONVENTIONS if write(name) == answer]
        counts[seat, convention] += 1
    assert set(counts) == set(itertools.product(("aux", "main"), CONVENTIONS))
    for count in counts.values():
        assert count / len(texts) == pytest.approx(1 / 6, abs=0.02)


def test_every_piece_held_out_is_taught_in_other_problems():
    known, kept = EVERY[:-HELD_OUT], EVERY[-HELD_OUT:]
    for name in ("filter", "map", "aggregate"):
        assert {getattr(each, name) for each in kept} <= {getattr(each, name) for each in known}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"filter": "evens", "map": "up", "aggregate": "sum"}, "there is no filter 'evens'. Did you mean 'even'?"),
        ({"filter": "even", "map": "up"}, "the field 'aggregate' is missing"),
        ({"filter": 2, "map": "up", "aggregate": "sum"}, "the field 'filter' is int, expected str"),
    ],
)
def test_bad_rows(tmp_path, row, message):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"task_id": "r1", **row}))
    with pytest.raises(TaskError) as caught:
        palaver.make("coding-mini-v0", tasks=str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
