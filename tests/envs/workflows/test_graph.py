"""Workflows as data: what is refused, what the built-in ones are, and a file of twenty lines."""

from __future__ import annotations

import json

import pytest

from palaver.core import ConfigError
from palaver.envs.workflows.builtin import BUILT_IN, workflow
from palaver.envs.workflows.graph import Shows, Workflow, WorkflowStage, declared

ASK = {"speakers": ["a"]}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_name_makes_a_workflow_with_an_answer(name):
    made = workflow(name)
    assert made.agents
    assert any(stage.kind == "answer" for stage in made.stages)
    assert Workflow.model_validate(made.model_dump()) == made


@pytest.mark.parametrize(
    ("name", "options", "speakers"),
    [
        ("parallel", {"agents": 1}, [["solver1"]]),
        ("debate", {"agents": 2, "rounds": 3}, [["solver1", "solver2"]] * 3),
        ("summary", {"agents": 3}, [["solver1", "solver2"], ["aggregator"]]),
        ("chain", {"agents": 2, "rounds": 2}, [["solver1"], ["solver2"], ["solver1"], ["solver2"]]),
        ("pioneer", {}, [["pioneer"], ["observer"]]),
        ("verify", {"rounds": 2}, [["generator"], ["verifier"], ["refiner"], ["verifier"], ["refiner"]]),
        ("solver_judge", {"agents": 4}, [["solver1", "solver2", "solver3"], ["judge"]]),
        ("discussion", {"names": ["x", "y"]}, [["x", "y"], ["x", "y"]]),
        ("review", {"rounds": 1}, [["coder"], ["reviewer"], ["coder"]]),
    ],
)
def test_who_speaks_when(name, options, speakers):
    assert [list(stage.speakers) for stage in workflow(name, options).stages] == speakers


def test_many_agents():
    assert len(workflow("debate", {"agents": 64}).agents) == 64


def test_where_prompts_are_alike():
    """Before anybody has heard or said anything: a group of answers to one prompt exists there alone."""
    assert workflow("debate", {"rounds": 3}).shared_prompt_turns() == {0}
    assert workflow("parallel").shared_prompt_turns() == {0}
    late = Workflow(
        stages=(
            WorkflowStage(speakers=("a",)),
            WorkflowStage(speakers=("b",)),
            WorkflowStage(speakers=("c",), shows=Shows()),
        )
    )
    assert late.shared_prompt_turns() == {0, 1}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "stages"),
        ({"stages": []}, "stages"),
        ({"stages": [{"speakers": []}]}, "speakers"),
        ({"stages": [{"speakers": ["a", "a"]}]}, "names a speaker twice"),
        ({"stages": [{"speakers": [""]}]}, "without a name"),
        ({"stages": [{**ASK, "kind": "verdict"}]}, "verdict with no answer before it"),
        ({"stages": [{**ASK, "kind": "talk"}]}, "no stage answers"),
        ({"stages": [ASK, {**ASK, "kind": "choice"}]}, "must show the last answer of each agent"),
        ({"stages": [{**ASK, "until": "approved"}]}, "only end by approval"),
        ({"stages": [ASK, {**ASK, "kind": "talk", "until": "consensus"}]}, "only end by consensus"),
        ({"stages": [ASK], "final": "b"}, "'b', which never speaks"),
        ({"stages": [ASK, {"speakers": ["b"], "kind": "talk"}], "final": "b"}, "who never answers"),
        ({"stages": [ASK], "roles": {"b": "x"}}, "roles names 'b'"),
        ({"stages": [{**ASK, "shows": {"whose": ["z"]}}]}, "shows.whose names 'z'"),
        ({"stages": [{**ASK, "shows": {"most": 0}}]}, "most"),
        ({"stages": [{**ASK, "colour": 1}]}, "colour"),
        ({"stages": [{"speakers": ["vote"]}]}, "cannot be called"),
        ({"stages": [ASK] * 65}, "stages"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(fields, told):
    with pytest.raises(ConfigError, match=told) as caught:
        workflow(fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "options", "told"),
    [
        ("debat", {}, "workflow must be one of parallel"),
        (7, {}, "workflow must be one of"),
        ("debate", {"shuffled": True}, "Did you mean 'shuffle'"),
        ("debate", {"agents": 1}, "agents must be a whole number from 2"),
        ("debate", {"rounds": 0}, "rounds must be"),
        ("debate", {"most": 0}, "most"),
        ("debate", {"stop": True, "agree": 2}, "agree"),
        ("debate", {"mask": "yes"}, "mask must be true or false"),
        ("chain", {"agents": 30, "rounds": 3}, "at most 64"),
        ("discussion", {"names": "ab"}, "names must be a list"),
        ("nowhere.yaml", {}, "cannot read"),
        ({"stages": [ASK]}, {"agents": 2}, "only be given for a workflow with a name"),
    ],
)
def test_names_and_options_that_do_not_exist(source, options, told):
    with pytest.raises(ConfigError, match=told) as caught:
        workflow(source, options)
    assert "\n" not in str(caught.value)


def test_files(tmp_path):
    fields = {"stages": [ASK, {"speakers": ["b"], "shows": {}}], "final": "b"}
    (tmp_path / "mine.json").write_text(json.dumps(fields))
    (tmp_path / "mine.yaml").write_text("stages: [{speakers: [a]}, {speakers: [b], shows: {}}]\nfinal: b\n")
    made = declared(tmp_path / "mine.json")
    assert made == workflow(str(tmp_path / "mine.yaml"))
    assert made.name == "mine"
    assert made.agents == ("a", "b")
    for text in ("[1, 2]", "7", "{", ""):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(ConfigError, match="workflow"):
            declared(tmp_path / "bad.yaml")
