"""The small houses: what they are, what is paid, by hand, and that nothing held out is taught."""

from __future__ import annotations

import json
from itertools import islice

import pytest

import palaver
from palaver.core import Message, TaskError
from palaver.envs.base.scripted import lazy
from palaver.envs.minecraft.mini import corpus, houses
from palaver.envs.minecraft.mini import houses as reference
from palaver.envs.minecraft.mini.houses import opening, plan_of

EVERY = houses.sample()


def boxes(lines):
    return [tuple(map(int, line.split()[1:7])) for line in lines]


def test_houses_are_eight_boxes_that_do_not_overlap():
    for lines in islice(EVERY, 60):
        assert len(lines) == 8
        cells = [
            (x, y, z)
            for a, b, c, d, e, f in boxes(lines)
            for x in range(a, d + 1)
            for y in range(b, e + 1)
            for z in range(c, f + 1)
        ]
        assert len(cells) == len(set(cells))
        assert all(0 <= v < n for cell in cells for v, n in zip(cell, houses.SIZE, strict=True))
        for line in lines:
            assert line.split()[0] == "fill"
            assert line.split()[7] in houses.BLOCKS
            assert all(len(word) == 1 for word in line.split()[1:7])


def test_every_house_has_a_door():
    env = palaver.make("build-mini-v0", tasks="sample[:40]")
    for task in env.tasks:
        env.reset(options={"task": task.id})
        front = boxes(task["lines"].splitlines())[4]
        assert (env.target[front[3] + 1, :4, front[2]] != 0).tolist() == [True, False, False, True]


@pytest.fixture
def plank(tmp_path):
    """The environment of four stones in a row, and a pane on the first."""
    path = tmp_path / "plan.jsonl"
    path.write_text(json.dumps({"task_id": "p", "lines": "fill 0 0 0 3 0 0 stone\nfill 0 1 0 0 1 0 glass"}))
    return palaver.make("build-mini-v0", tasks=str(path))


@pytest.mark.parametrize(
    ("said", "parts", "shares"),
    [
        (("", ""), (0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
        (("fill 0 0 0 3 0 0 stone", ""), (0.8, 0.0, 0.0, 0.0), (0.8, 0.0, 0.2)),
        (("fill 0 0 0 3 0 0 stone", "/fill 0 1 0 0 1 0 glass"), (1.0, 0.0, 0.0, 0.25), (1.0, 0.0, 0.0)),
        (("fill 0 0 0 3 0 0 stone", "fill 2 0 0 4 0 0 stone"), (0.8, -0.2, -0.2, 0.0), (0.4, 0.4, 0.2)),
        (("fill 0 0 0 3 0 0 glass", "fill 0 1 0 0 1 0 glass"), (0.2, -0.8, 0.0, 0.0), (0.2, 0.0, 0.8)),
        (("fill 0 0 0 3 0 0 glass", "fill 0 0 0 3 0 0 glass"), (0.0, -0.8, 0.0, 0.0), (0.0, 0.0, 1.0)),
        (("fill 0 0 0 3 0 0 stone\nfill 0 0 0 3 0 0 stone", ""), (0.8, 0.0, 0.0, 0.0), (0.8, 0.0, 0.2)),
        (("fill 0 0 0 7 5 7 glass", ""), (0.2, -1.0, 0.0, 0.0), (0.2, 0.0, 0.8)),
        (("fill 0 0 0 3 0 0 wood", "hello"), (0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
    ],
)
def test_what_is_paid(plank, said, parts, shares):
    plank.reset(seed=0)
    _, rewards, terminated, _, infos = plank.step(dict(zip(plank.possible_agents, said, strict=True)))
    info = infos["builder2"]
    assert set(terminated.values()) == {True}
    assert tuple(info["reward_components"].values()) == pytest.approx(parts)
    assert rewards["builder1"] == rewards["builder2"] == pytest.approx(sum(parts))
    found = [info["metrics"][name] for name in ("by_one", "by_several", "not_built")]
    assert found == pytest.approx(shares)


def test_nobody_may_write_everything():
    env = palaver.make("build-mini-v0", tasks="sample[:1]")
    told, _ = env.reset()
    assert told["builder1"].startswith("You are builder 1 of 2. Write at most 5 lines of the plan.\n1. fill ")
    _, rewards, _, _, infos = env.step({"builder1": "\n".join(EVERY[0])})
    assert infos["builder1"]["metrics"]["rejected"] == 3.0
    assert rewards["builder1"] < 1.0


def mean(policy, name, tasks="sample[320:]", **keywords):
    env = palaver.make("build-mini-v0", tasks=tasks, **keywords)
    total = 0.0
    for number, task in enumerate(env.tasks):
        told, _ = env.reset(options={"task": task.id})
        said = {agent: policy((Message("user", text),), 7 * number) for agent, text in told.items()}
        total += env.step(said)[4]["builder1"]["metrics"][name]
    return total / len(env.tasks)


def test_scripted_builders():
    assert mean(reference.reference, "complete") == 1.0
    assert mean(reference.reference, "complete", agents=1) == 1.0
    assert mean(reference.reference, "complete", agents=3) == 1.0
    assert 0.4 < mean(reference.strangers, "iou", "sample") < 0.6
    assert mean(reference.twins, "by_one") == 0.0
    assert mean(lazy, "iou") == 0.0
    for policy in (reference.reference, reference.strangers, reference.twins, lazy):
        assert policy((), 0) == policy((Message("user", "Hello."),), 0) == ""


def test_the_sample_is_what_the_generator_writes():
    rows = [json.loads(line) for line in corpus.SAMPLE.read_text().splitlines()]
    assert rows == corpus.tasks()
    assert len(rows) == len({row["lines"] for row in rows}) == houses.KNOWN + houses.HELD_OUT == 384


def test_demonstrations_copy_lines_and_hold_nothing_out():
    texts = corpus.demonstrations(2000, 0)
    assert corpus.demonstrations(41, 0) == texts[:41]
    assert corpus.demonstrations(40, 1) != texts[:40]
    kept = set(EVERY[houses.KNOWN :])
    counts = dict.fromkeys(range(1, 5), 0)
    for (asked,), answer in texts:
        plan = plan_of(asked.content)
        assert tuple(line.partition(". ")[2] for line in plan) not in kept
        assert asked.content in {opening(n, 2, 5, "\n".join(plan)) for n in range(2)}
        said = answer.splitlines()
        assert said == [line for line in plan if line in said]
        assert corpus.copied((asked,), answer) == 1.0
        counts[len(said)] += 1
    assert all(n / len(texts) == pytest.approx(0.25, abs=0.05) for n in counts.values())


def test_copied_counts_whole_lines():
    asked = (Message("user", opening(0, 2, 5, "fill 0 0 0 1 1 1 oak\nfill 0 0 2 1 1 2 oak")),)
    assert corpus.copied(asked, "1. fill 0 0 0 1 1 1 oak\n1. fill 0 0 0 1 1 1 clay") == 0.5
    assert corpus.copied(asked, "") == 0.0


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("fill 0 0 0 9 0 0 stone", "holds 'fill 0 0 0 9 0 0 stone': outside of the world"),
        ("fill 0 0 0 1 0 0 air", "the field 'lines' holds 'fill 0 0 0 1 0 0 air'"),
        ("build", "the command 'build' is unknown"),
        ("/", "the field 'lines' builds nothing"),
        ("", "the field 'lines' is missing or empty"),
    ],
)
def test_bad_rows(tmp_path, lines, message):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"lines": lines}))
    with pytest.raises(TaskError) as caught:
        palaver.make("build-mini-v0", tasks=str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_reference_answers_questions_by_its_division(when):
    """Odd lines are the first builder's and even ones the second's; so they play, guess, and expect guesses."""
    env = palaver.make("build-mini-v0", infer={"when": when, "order": 2, "alpha": 1.0})
    told = dict.fromkeys(env.possible_agents, ())
    observations, _ = env.reset(seed=0)
    answers, total = [], dict.fromkeys(env.possible_agents, 0.0)
    while env.agents:
        told = {agent: (*told[agent], Message("user", observations[agent])) for agent in env.agents}
        actions = {agent: houses.reference(told[agent], 0) for agent in env.agents}
        told = {agent: (*told[agent], Message("assistant", text)) for agent, text in actions.items()}
        answers.append(actions)
        observations, rewards, *_ = env.step(actions)
        total = {agent: total[agent] + reward for agent, reward in rewards.items()}
    guesses = answers[:2] if when == "before" else answers[1:]
    assert guesses == [{"builder1": "2 4 6 8", "builder2": "1 3 5 7"}, {"builder1": "1 3 5 7", "builder2": "2 4 6 8"}]
    assert total == {"builder1": 1.25 + 2, "builder2": 1.25 + 2}  # a whole house, and two guesses with F1 1
