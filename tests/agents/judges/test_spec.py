"""Judges by name and from files: every mistake is named before anything is asked."""

from __future__ import annotations

import pytest
import yaml

from palaver.agents.base.rewards import make_reward, split_options
from palaver.agents.judges.judge import Ensemble, Judge, ScriptedChat, make_chat, make_judge
from palaver.agents.judges.spec import EnsembleSpec, JudgeSpec, read_spec
from palaver.core import ConfigError, PolicyError
from palaver.scoring import RewardPlacement
from tests.agents.judges.scripted import TWO, case

FAIR = "scripted:tests.agents.judges.scripted:fair"


def write(path, value):
    path.write_text(yaml.safe_dump(value))
    return str(path)


def test_a_name_with_options(tmp_path):
    rubric = write(tmp_path / "r.yaml", TWO)
    spec = read_spec(f"{FAIR}?mode=listwise&seed=3&rubric={rubric}&cache=false&temperature=0.5")
    assert isinstance(spec, JudgeSpec)
    assert (spec.model, spec.mode, spec.seed, spec.cache, spec.temperature) == (FAIR, "listwise", 3, False, 0.5)
    assert [criterion.name for criterion in spec.rubric.criteria] == ["clear", "short"]


def test_a_model_keeps_its_own_options():
    remote = read_spec("openai:m@http://127.0.0.1:80/v1?dollars=0.5&mode=pairwise&price=0.15/0.6")
    assert remote.model == "openai:m@http://127.0.0.1:80/v1?dollars=0.5&price=0.15/0.6"
    assert remote.mode == "pairwise"
    assert read_spec("hf:some/model?dtype=bf16&asks=1").model == "hf:some/model?dtype=bf16"


def test_a_file_is_a_whole_judge_and_options_come_on_top(tmp_path):
    write(tmp_path / "r.yaml", TWO)
    path = write(
        tmp_path / "j.yaml",
        {"model": FAIR, "rubric": "r.yaml", "own": "gate", "gate": 0.5, "weight": 2, "when": "last", "failures": 0.1},
    )
    judge = make_judge(f"judge:{path}?weight=3")
    assert judge.placement == RewardPlacement("gate", 3.0, 0.5, "last")
    assert judge.failure_limit == 0.1
    assert [verdict.score for verdict in judge.score([case("good")])] == [1.0]


def test_criteria_may_stand_in_the_file_itself(tmp_path):
    spec = read_spec(write(tmp_path / "j.json", {"model": FAIR, "rubric": TWO}))
    assert len(spec.rubric.criteria) == 2


def test_an_ensemble_from_a_file(tmp_path):
    members = [{"model": FAIR, "rubric": TWO}, f"{FAIR}?seed=1"]
    path = write(tmp_path / "e.yml", {"members": members, "holdout": {"model": FAIR, "seed": 9}, "own": "added"})
    spec = read_spec(path)
    assert isinstance(spec, EnsembleSpec)
    assert [member.seed for member in spec.members] == [0, 1]
    made = make_reward(f"judge:{path}")
    assert isinstance(made, Ensemble)
    assert (made.name, made.placement.own, made.holdout.spec.seed) == (f"judge:{path}", "added", 9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hf:x?mod=listwise", r"no option 'mod'.*'mode'"),
        (f"{FAIR}?dtype=bf16", "no option 'dtype'"),
        ("hf:x?mode=best", "mode"),
        ("hf:x?asks=0", "asks"),
        ("hf:x?weight=-1", "weight"),
        ("hf:x?weight=nan", "weight"),
        ("hf:x?mode=listwise&mode=pairwise", "twice"),
        ("hf:x?mode", r"write options as \?key=value"),
        ("hf:x?rubric=none.yaml", r"cannot read the rubric in 'none\.yaml'"),
        ("none.yaml", r"cannot read the judge in 'none\.yaml'"),
        ("?mode=listwise", "model"),
    ],
)
def test_a_name_that_does_not_fit_is_refused(text, said):
    with pytest.raises(ConfigError, match=said):
        make_reward(f"judge:{text}")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([1], "must be a mapping"),
        ({"model": "x", "modes": "y"}, r"unknown key 'modes'.*'mode'"),
        ({"model": "x", "rubric": {"criteria": []}}, "the rubric in"),
        ({"members": []}, "members"),
        ({"members": "x"}, "must be a list"),
        ({"members": [3]}, "a mapping or a name, not int"),
        ({"members": [{"model": "x"}], "holdout": {"model": "x"}}, "is also a member"),
        ({"members": [{"model": "x"}], "mode": "listwise"}, "unknown key 'mode'"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path, value, said):
    with pytest.raises(ConfigError, match=said):
        make_judge(write(tmp_path / "j.yaml", value))


@pytest.mark.parametrize("name", ["judge", "judge:", "rm:", "jugde:x", "", "iou"])
def test_a_reward_that_is_none_is_refused(name):
    with pytest.raises(ConfigError, match="write judge:SPEC or rm:PATH"):
        make_reward(name)


def test_a_reward_model_that_is_not_there_is_named_before_it_is_needed(tmp_path):
    with pytest.raises(ConfigError, match="there is no reward model in"):
        make_reward(f"rm:{tmp_path / 'none'}")
    assert make_reward(f"rm:{tmp_path}?batch=3").component == "reward_model", "nothing is loaded yet"
    assert split_options("a?b=1&c=x%20y") == ("a", {"b": "1", "c": "x y"})


def test_chats_by_name():
    assert isinstance(make_chat(FAIR), ScriptedChat)
    for name, said in (("scripted:nowhere:x", "scripted judge"), ("scripted:math:pi", "not a function")):
        with pytest.raises(PolicyError, match=said):
            make_chat(name)


def test_members_of_one_model_share_it(tmp_path):
    path = write(tmp_path / "e.yaml", {"members": [FAIR, f"{FAIR}?seed=1"], "holdout": f"{FAIR}?seed=2"})
    made = make_judge(path)
    made.ready()
    assert len({id(judge._load().asker.chat) for judge in (*made.members, made.holdout)}) == 1


def test_the_fingerprint_changes_with_what_scores_depend_on():
    def print_of(**more):
        return Judge(JudgeSpec.model_validate({"model": "x", **more})).fingerprint

    same = print_of()
    assert print_of(cache=False) == same == print_of(calls=5)
    different = [print_of(mode="listwise"), print_of(rubric=TWO), print_of(seed=1), print_of(max_chars=100)]
    assert len({same, *different}) == 5
