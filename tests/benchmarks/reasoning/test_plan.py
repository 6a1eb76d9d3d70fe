"""What a table of teams asks for, and what is refused."""

from __future__ import annotations

import pytest

from palaver.benchmarks.experiments.reasoning.plan import read, trainings
from palaver.core import ConfigError

OWN = """
env: maths-mini-v0
keywords: {tasks: "sample[:6]"}
baseline: alone
rows:
  - {name: alone, play: {workflow: parallel, agents: 1}}
  - {name: taught, recipe: maths-vote-ttrl}
  - {name: debating, recipe: maths-vote-ttrl, play: {workflow: debate}}
"""


@pytest.fixture
def own(tmp_path):
    def written(text=OWN):
        path = tmp_path / "own.yaml"
        path.write_text(text)
        return str(path)

    return written


def test_the_shipped_table():
    plan = read("maths")
    assert plan.baseline == "one agent + GRPO"
    needed = trainings(plan, (0, 1))
    assert [each.seed for each in needed] == [0] * len(plan.recipes) + [1] * len(plan.recipes)
    assert {each.config.seed for each in needed} == {0, 1}
    assert len({each.subfolder for each in needed}) == len(needed)
    held_out = {each.config.eval.tasks for each in needed}
    assert held_out == {plan.keywords["tasks"]}
    assert {plan.played(row)["difficulty"] for row in plan.rows} == {"mixed"}
    assert {each.config.policy.max_tokens for each in needed} == {plan.max_tokens}


def test_how_a_team_plays(own):
    """As it was trained but for what it was paid and the problems, or as the row says."""
    plan = read(own())
    alone, taught, debating = plan.rows
    assert plan.played(alone) == {"workflow": "parallel", "agents": 1, "tasks": "sample[:6]"}
    assert plan.played(taught) == {"difficulty": "medium", "workflow": "vote", "agents": 8, "tasks": "sample[:6]"}
    assert plan.played(debating) == {"workflow": "debate", "tasks": "sample[:6]"}


def test_overrides_hold_for_every_recipe(own):
    plan = read(own(), ["train.steps=7", "seed=5"])
    assert plan.config("maths-vote-ttrl", 3).train.steps == 7
    assert plan.config("maths-vote-ttrl", 3).seed == 3


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("baseline: alone", "baseline: nobody", "no row"),
        ("name: taught", "name: alone", "same name"),
        ("name: taught", "name: taught, after: nobody", "after names 'nobody'"),
        ("{name: alone, play: {workflow: parallel, agents: 1}}", "{name: alone}", "needs a recipe"),
        ("env: maths-mini-v0", "env: maths-mini-v0\nenw: 1", "enw"),
        (OWN, "- a list", "is a mapping"),
        (OWN, "a: [", "while parsing"),
        ("rows:", "overrides: 3\nrows:", "overrides: input should be a valid tuple"),
    ],
)
def test_mistakes_are_one_line(own, old, new, says):
    with pytest.raises(ConfigError, match=says) as raised:
        read(own(OWN.replace(old, new)))
    assert "\n" not in str(raised.value)


def test_a_table_that_is_not_there():
    with pytest.raises(ConfigError, match=r"there is no table file 'nowhere\.yaml'"):
        read("nowhere.yaml")


def test_a_recipe_of_another_environment(own):
    plan = read(own(OWN.replace("maths-vote-ttrl}", "arxiv-magrpo}")))
    with pytest.raises(ConfigError, match="arxiv-magrpo trains on arxiv-v0"):
        plan.played(plan.rows[1])
