"""Scores of scenarios: what the agents in focus add, and that nonsense adds nothing and leads nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import palaver
from palaver.agents.llm.model.options import ModelOptions
from palaver.benchmarks.evaluation.evaluate import EvaluationConfig, measure
from palaver.benchmarks.evaluation.focal import FocalRound, answered, focal
from palaver.benchmarks.leaderboard.board import read_board
from palaver.benchmarks.leaderboard.read import read
from palaver.benchmarks.scenarios.spec import load, setting
from palaver.core import Completion, ConfigError, ScoringError
from palaver.envs.base.transcripts import HOSTILE
from palaver.episodes import Episode, Turn
from palaver.registry import spec
from palaver.trainers.rollout.evaluation import answers
from palaver.utils.config import recipes

ROWS = Path(__file__).parents[3] / "docs" / "leaderboard" / "rows"
TRAINED = {"arxiv-strangers-v2"}  # its partner is trained, which takes minutes
REFERENCE = {entry.what: entry.rows["reference"] for entry in read_board()}
NONSENSE = ("random", f"scripted:{__name__}:silence", f"scripted:{__name__}:hostile")


def silence(_conversation, _seed):
    """Nothing."""
    return ""


def hostile(_conversation, seed):
    """A hostile text."""
    texts = [text for text in HOSTILE if isinstance(text, str)]
    return texts[seed % len(texts)]


def result(name, team):
    return measure(setting(load(name), team, ModelOptions()))[0]


@pytest.mark.parametrize("name", sorted(set(recipes("scenario")) - TRAINED))
def test_nonsense_adds_nothing_and_leads_no_scenario(name, request):
    env = load(name).env
    rivals = spec(env).competitive
    if env == "pokemon-v1":
        request.getfixturevalue("pool")
    # in a zero-sum game nonsense costs; without an agreement both earn 0
    lost = -1.0 if rivals and palaver.make(env).zero_sum else 0.0
    best = result(name, REFERENCE[name])
    assert best.answers.illegal == 0
    for team in NONSENSE:
        found = result(name, team)
        # a number in a hostile text is a right sum by chance, in 1 of 128 episodes of the debates
        assert found.focal.mean <= (lost if rivals else 0.01 if "hostile" in team else 0.0)
        assert found.focal.high < best.focal.low
        if not rivals:
            assert found.focal.silent == best.focal.silent, "the same baseline for all"
    if not rivals:
        assert best.focal.mean == pytest.approx(best.mean - best.focal.silent), "all are paid alike"


def test_nonsense_leads_no_row_that_is_kept():
    boards = {}
    for each in read(ROWS).rows:
        boards.setdefault(each.what, {})[each.row.label] = each
    assert len(boards) > 10
    for what, kinds in boards.items():
        others = [each.mean for label, each in kinds.items() if label != "random"]
        assert kinds["random"].mean < max(others), what


def episode(task, own, other=0.0, illegal=(), said=("a", "b"), moves=0):
    """One turn that pays `own` to a and `other` to b."""
    turn = Turn(
        0, "0", "", "g", {}, {}, {agent: Completion("x") for agent in said}, {"a": own, "b": other}, {},
        metrics={"illegal": moves or len(illegal)}, illegal=dict.fromkeys(illegal, 1),
    )  # fmt: skip
    return Episode("e", task, 0, (turn,), "terminated")


def test_what_is_added_by_hand():
    """With a: 3 and 5 in task s, 1 in t. Silent: 1 and 1 in s, 2 in t. So s adds 4 - 1 = 3, t adds -1: 1 on average."""
    with_a = [episode("s", 3), episode("s", 5), episode("t", 1)]
    without = [episode("s", 1), episode("s", 1), episode("t", 2)]
    found = focal([with_a], [FocalRound(("a",))], [without])
    assert (found.mean, found.silent, found.by_seating) == (1.0, 1.5, {"a": 1.0})
    assert (found.low, found.high) == (-1.0, 3.0)
    own = focal([with_a], [FocalRound(("a",))])
    assert (own.mean, own.silent) == (2.5, None)
    both = focal([with_a, with_a], [FocalRound(("a",)), FocalRound(("b",))], [without, without])
    assert both.by_seating == {"a": 1.0, "b": 0.0}
    assert (both.mean, both.silent) == (0.5, 0.75)
    with pytest.raises(ScoringError, match="no task was scored both with a in focus and with it silent"):
        focal([[episode("s", 3)]], [FocalRound(("a",))], [[episode("t", 3)]])


def test_answers_by_hand():
    """Four are due, of which one is illegal; of a's two one. Who cannot act, says nothing that counts."""
    known = [episode("s", 0, illegal=("a",)), episode("t", 0)]
    assert answers(known) == (4, 1)
    assert answers(known, ["a"]) == (2, 1)
    assert answers(known, ["b"]) == (2, 0)
    assert answers([episode("s", 0, said=("b",), illegal=("a",))]) == (1, 0)
    assert answers([episode("s", 0, moves=7)]) == (2, 2), "at most as many as there are answers"
    found = answered([known, known], [["a"], ["b"]])
    assert (found.due, found.illegal, found.share) == (4, 1, 0.25)
    assert answered([known], []).share == 0.25


def test_illegal_answers_are_recorded_by_agent():
    setting = EvaluationConfig("matrix-v1", {"game": "xor", "repeats": 2}, "a1=scripted:reference,a2=random", 3)
    found, episodes = measure(setting)
    assert [dict(turn.illegal) for turn in episodes[0].turns] == [{"a2": 1}, {"a2": 1}]
    assert (found.answers.due, found.answers.illegal) == (12, 6)
    assert Episode.from_dict(json.loads(json.dumps(episodes[0].to_dict()))) == episodes[0]
    assert (
        "illegal" not in measure(EvaluationConfig("matrix-v1", {}, "scripted:reference", 1))[1][0].to_dict()["turns"][0]
    )


def test_a_scenario_of_rivals_pays_them_their_own_return(tmp_path):
    for name in recipes("scenario"):
        assert (load(name).score == "own") == spec(load(name).env).competitive, name
    path = tmp_path / "mine-v1.yaml"
    path.write_text("about: x\nenv: echo-v0\nfocal: [[a1]]\npartner: {policy: random}\nscore: other\n")
    with pytest.raises(ConfigError, match="score"):
        load(str(path))
