"""A partner that is replaced in the middle of an episode: what is guessed beside what is earned."""

from __future__ import annotations

import pytest

from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.simple import ScriptedPolicy, SwitchedPolicy
from palaver.benchmarks.evaluation.evaluate import measure
from palaver.benchmarks.evaluation.interventions import Players, play
from palaver.benchmarks.scenarios.spec import Partner, load, setting
from palaver.core import Message, Request, Sampling
from palaver.trainers.rollout.episodes import ready_env


def metrics(team, name="matrix-switch-v1"):
    return measure(setting(load(name), team, ModelOptions()))[0].metrics


def test_a_switched_policy_answers_by_the_second_after_so_many_answers():
    policy = SwitchedPolicy(ScriptedPolicy(lambda *_: "old"), ScriptedPolicy(lambda *_: "new"), 2)

    def request(answers):
        past = (Message("user", "q"), Message("assistant", "a")) * answers
        return Request("a", (*past, Message("user", "q")), (0, 1))

    texts = [[c.text for c in row] for row in policy.act([request(n) for n in (3, 0, 2, 1)])]
    assert texts == [["new", "new"], ["old", "old"], ["new", "new"], ["old", "old"]]


def test_who_copies_the_partner_loses_one_round_and_one_guess():
    """Ten rounds, the partner changes after five: a copy of its last choice is wrong in the sixth alone."""
    found = metrics("scripted:tit_for_tat")
    assert {name: value for name, value in found.items() if name.startswith("switch/")} == pytest.approx(
        {
            "switch/accuracy_before": 1.0,
            "switch/accuracy_after": 0.8,
            "switch/reward_before": 1.0,
            "switch/reward_after": 0.8,
        }
    )


def test_who_does_not_adapt_loses_all_that_follows():
    found = metrics("scripted:always_first")
    assert (found["switch/accuracy_before"], found["switch/accuracy_after"]) == (1, 0)
    assert (found["switch/reward_before"], found["switch/reward_after"]) == (1, 0)


@pytest.mark.parametrize("half", [{"then": "scripted:lazy"}, {"after": 3}])
def test_a_replacement_is_named_with_its_time(half):
    with pytest.raises(ValueError, match="needs then, the new policy, and after"):
        Partner(policy="scripted:lazy", **half)


def test_other_evaluations_have_no_such_metrics():
    assert not [name for name in metrics("scripted:lazy", "build-mini-twins-v2") if "switch" in name]


def test_a_partner_is_replaced_where_observations_stand_alone():
    """Its conversation holds one observation, whichever round it is: ten rounds of the same game, all seen afresh."""
    fresh = load("matrix-switch-v1")
    fresh = fresh.model_copy(update={"keywords": {**fresh.keywords, "fresh": True}})
    found = measure(setting(fresh, "scripted:tit_for_tat", ModelOptions()))[0].metrics
    assert (found["switch/reward_before"], found["switch/reward_after"]) == (1, pytest.approx(0.8))


def test_whatever_plays_again_counts_the_answers_of_an_episode():
    """Three rounds that stand alone: the second policy has the third alone, in an analysis as in an evaluation."""
    env = ready_env("matrix-v1", {"game": "prisoners-dilemma", "repeats": 3, "feedback": True, "fresh": True})
    switched = SwitchedPolicy(ScriptedPolicy(lambda *_: "cooperate"), ScriptedPolicy(lambda *_: "defect"), 2)
    team = {"a1": switched, "a2": ScriptedPolicy(lambda *_: "cooperate")}
    (episode,) = play(Players(env, team, dict.fromkeys(team, Sampling()), ["wording-0-0"]), {}).episodes
    assert [turn.completions["a1"].text for turn in episode.turns] == ["cooperate", "cooperate", "defect"]
