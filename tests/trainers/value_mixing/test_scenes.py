"""From a rollout's table to decisions: candidates, what they lead to, what was heard."""

from __future__ import annotations

import pytest
import torch

from palaver.core import Completion, Message
from palaver.episodes import Turn
from palaver.trainers.rollout.batch import make_batch
from palaver.trainers.value_decomposition.encoders import OneHotEncoder
from palaver.trainers.value_decomposition.scenes import acts, conversation_before, transitions
from tests.trainers.learning import episode


def said(*texts: str) -> dict[str, Completion]:
    return {agent: Completion(text, (1, 2), (3,), (-0.5,), (-0.5,)) for agent, text in zip("ab", texts, strict=False)}


@pytest.fixture
def two_lanes():
    """Two joint actions on one task, each with one more turn that only `a` answers in lane 0."""
    return make_batch([
        episode("0", 0, [(1.0, 3.0), (4.0, 0.0)], [said("x", "y"), said("later")]),
        episode("0", 1, [(0.0, 2.0), (6.0, 6.0)], [said("z", "y2"), said("u", "v")]),
    ])  # fmt: skip


def test_candidates_are_those_of_siblings(two_lanes):
    found = acts(two_lanes, ("a", "b"), OneHotEncoder(32))
    assert sorted(found.scenes) == ["0", "0/0", "0/1"]
    assert found.scenes["0"].allowed.tolist() == [[True, True], [True, True]]
    assert found.scenes["0/0"].allowed.tolist() == [[True], [False]]
    assert found.scenes["0/1"].allowed.tolist() == [[True], [True]]
    by_place = {found.scene_keys[step]: chosen.tolist() for step, chosen in found.chosen.items()}
    assert by_place["0/1"] == [0, 0]
    assert sorted(chosen.tolist() for step, chosen in found.chosen.items() if found.scene_keys[step] == "0") == [
        [0, 0], [1, 1],
    ]  # fmt: skip


def test_joint_steps_lead_to_the_next_scene_and_are_paid_the_mean(two_lanes):
    found = acts(two_lanes, ("a", "b"), OneHotEncoder(32))
    steps = transitions(two_lanes, found, two_lanes.reward.mean(dim=1), 0.9)
    first, second, third, last = sorted(steps, key=lambda each: (each.goes_on == 0, each.reward))
    assert (first.reward, first.goes_on, first.then) == (1.0, 0.9, found.scenes["0/1"])
    assert (second.reward, second.goes_on, second.then) == (2.0, 0.9, found.scenes["0/0"])
    assert (third.reward, third.goes_on) == (2.0, 0.0)
    assert (last.reward, last.goes_on) == (6.0, 0.0)


def test_a_turn_in_which_others_act_alone_is_part_of_the_step_before():
    """a decides at turns 0 and 2; b alone at turn 1, which pays 4: 1 + 0.5 * 4, and the rest is worth 0.25."""
    table = make_batch(
        [episode("0", 0, [(1.0, 1.0), (4.0, 4.0), (7.0, 7.0)], [said("x", "y"), {"b": said("", "w")["b"]}, said("z")])],
        ["a"],
    )
    found = acts(table, ("a",), OneHotEncoder(32))
    early, late = transitions(table, found, table.reward.mean(dim=1), 0.5)
    assert (early.reward, early.goes_on) == (3.0, 0.25)
    assert early.then is found.scenes[found.scene_keys[2]]
    assert (late.reward, late.goes_on) == (7.0, 0.0)


def test_what_an_agent_had_heard(two_lanes):
    step = next(n for n, turn in enumerate(two_lanes.steps) if turn.index == 1 and "b" in turn.completions)
    assert conversation_before(two_lanes, step, "b") == (
        Message("user", "b hears 0"), Message("assistant", "y2"), Message("user", "b hears 1"),
    )  # fmt: skip


def test_what_was_told_while_waiting_is_one_message():
    waits = [said("x"), said("y", "z")]
    table = make_batch([episode("0", 0, [(0.0, 0.0), (0.0, 0.0)], waits)])
    assert conversation_before(table, 1, "b") == (Message("user", "b hears 0\n\nb hears 1"),)


def test_a_shared_candidate_is_one_candidate():
    """Crossed joint actions: each of a's two answers meets each of b's."""
    turns = [
        Turn(
            0, f"0/{i}.{j}", "", "0", {"a": i, "b": j}, {"a": "?", "b": "?"}, said(f"a{i}", f"b{j}"),
            {"a": 1.0, "b": 1.0}, {"a": {}, "b": {}},
        )
        for i in (0, 1)
        for j in (0, 1)
    ]  # fmt: skip
    whole = episode("0", 0, [(0.0, 0.0)])
    table = make_batch([type(whole)("made", "0", 0, (turn,), "terminated") for turn in turns])
    found = acts(table, ("a", "b"), OneHotEncoder(32))
    assert found.scenes["0"].allowed.shape == (2, 2)
    assert [found.chosen[step].tolist() for step in range(4)] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert torch.equal(found.scenes["0"].state, OneHotEncoder(32).states(["s"])[0])
