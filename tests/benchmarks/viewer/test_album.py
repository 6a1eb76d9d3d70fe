"""Episodes as plain data: nothing is lost, long texts are cut with a mark, what repeats is held once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from palaver.benchmarks.viewer import album as module
from palaver.benchmarks.viewer.album import Album
from palaver.benchmarks.viewer.sources import ViewerSource
from palaver.core import Completion
from tests.benchmarks.viewer.made import HOSTILE, episode, save


@pytest.fixture
def collect(tmp_path):
    def make(*episodes, most=100, characters=1000, name="e.jsonl"):
        made = Album(most, characters)
        made.read(ViewerSource(save(tmp_path / name, *episodes)))
        made.finish()
        return made

    return make


def test_what_was_shown_said_and_paid(collect):
    turn = {
        "rewards": {"a": 1.25, "b": -1.0}, "components": {"a": {"won": 1.0, "short": 0.25}, "b": {"won": -1.0}},
        "metrics": {"length": 3.0}, "reason": "a was\nbetter", "executed": {"a": "move 1", "b": "four"},
        "legal": {"a": ["move 1", "move 2"], "b": []},
    }  # fmt: skip
    made = collect(episode(turns=2, **turn))
    (found,) = made.episodes
    assert {key: found[key] for key in ("id", "task", "env", "seed", "stop", "agents", "team", "total", "returns")} == {
        "id": "e0", "task": "t0", "env": "arxiv_v0", "seed": "7", "stop": "terminated", "agents": ["a", "b"],
        "team": ["tiny", "tiny"], "total": 0.25, "returns": [2.5, -2.0],  # 2 turns of (1.25 - 1) / 2
    }  # fmt: skip
    first = found["turns"][0]
    assert [(agent, made.texts[text]) for agent, text in first["shown"]] == [
        (0, "t0, turn 0, for a"), (1, "t0, turn 0, for b"),
    ]  # fmt: skip
    assert [(who, made.texts[text], *rest) for who, text, *rest in first["said"]] == [
        (0, "one two three", 3, False, "move 1"), (1, "four", 1, False, ""),
    ]  # fmt: skip
    assert first["rewards"] == [1.25, -1.0]
    assert first["reward"] == 0.125
    assert first["parts"] == [[0, [["won", 1.0], ["short", 0.25]]], [1, [["won", -1.0]]]]
    assert first["metrics"] == [["length", 3.0]]
    assert first["reason"] == "a was better"
    assert first["legal"] == [[0, ["move 1", "move 2"]], [1, []]]
    assert "tests" not in first


def test_what_all_are_paid_stands_once(collect):
    assert collect(episode()).episodes[0]["turns"][0]["parts"] == [[-1, [["style", 0.5]]]]
    alone = episode(texts={"a": "x"})
    assert collect(alone).episodes[0]["turns"][0]["parts"] == [[0, [["style", 0.5]]]]


def test_equal_texts_are_held_once(collect):
    made = collect(*[episode(turns=3) for _ in range(5)])
    assert sorted(made.texts) == sorted(
        {"one two three", "four", *(f"t0, turn {n}, for {a}" for n in range(3) for a in "ab")}
    )


def test_long_and_hostile_texts(collect):
    made = collect(episode(texts={HOSTILE: "x" * 1_000_000, "__proto__": HOSTILE}))
    (found,) = made.episodes
    assert made.texts[found["turns"][0]["said"][0][1]] == "x" * 1000 + " … [999,000 more characters]"
    assert max(map(len, found["agents"])) < 100
    shown = made.texts[found["turns"][0]["said"][1][1]]
    assert not set(shown) & set("\x00\x1b\u202e\u2028\ud800")
    assert shown.startswith("</script><script>")
    json.dumps([made.texts, made.episodes]).encode()


def test_numbers_that_are_not_finite_are_named(collect):
    turn = {"rewards": {"a": float("nan")}, "components": {"a": {"x": float("inf")}}, "metrics": {"y": float("-inf")}}
    (found,) = collect(episode(texts={"a": "1"}, **turn)).episodes
    assert found["total"] == "nan"
    assert found["turns"][0]["parts"] == [[0, [["x", "inf"]]]]
    assert found["turns"][0]["metrics"] == [["y", "-inf"]]
    json.dumps(found, allow_nan=False)


def test_tests_that_passed(collect):
    found = collect(episode(metrics={"tests_passed": 3.0, "tests_total": 4.0})).episodes
    assert found[0]["turns"][0]["tests"] == [3.0, 4.0]


def test_siblings_share_a_group_and_other_tasks_do_not(collect):
    """The keys of groups begin anew in every file, and a file may hold one key for two tasks."""
    made = collect(episode("t0"), episode("t0"), episode("t1"), episode("t0", group="1"))
    assert [each["group"] for each in made.episodes] == [0, 0, 1, 2]


def test_turns_that_leaves_of_a_tree_share(collect):
    trunk, leaf = episode(turns=2), episode(turns=2)
    leaf = replace(leaf, turns=(leaf.turns[0], replace(leaf.turns[1], node="0/0/other")))
    made = collect(trunk, leaf)
    assert [[turn["shared"] for turn in each["turns"]] for each in made.episodes] == [[2, 1], [2, 1]]


def test_a_full_album_counts_what_is_left_out(collect, monkeypatch):
    made = collect(*[episode(f"t{n}") for n in range(7)], most=3)
    assert [each["task"] for each in made.episodes] == ["t0", "t1", "t2"]
    assert made.left_out == 4
    monkeypatch.setattr(module, "MOST_CHARACTERS", 1_500)
    long = [episode(texts={"a": str(n) * 900}) for n in range(7)]
    made = collect(*long, most=100)
    assert len(made.episodes) + made.left_out == 7
    assert 1 <= len(made.episodes) <= 2


def test_steps_are_in_order_whatever_was_read_first(tmp_path):
    made = Album(100, 100)
    for kind, step in (("eval", 20), ("eval", 0), ("train", 0), ("train", 10)):
        made.read(ViewerSource(save(tmp_path / f"{kind}-{step}", episode(), episode()), kind, step))
    made.finish()
    assert [each["id"] for each in made.episodes] == [
        "eval-0-0", "eval-0-1", "train-0-0", "train-0-1", "train-10-0", "train-10-1", "eval-20-0", "eval-20-1",
    ]  # fmt: skip
    assert [each.task for each in made.records] == ["t0"] * 8


def test_an_episode_without_turns_and_an_agent_that_waits(collect):
    waits = episode(completions={"a": Completion("alone")})
    made = collect(replace(episode(), turns=()), waits)
    assert made.episodes[0]["turns"] == []
    assert [who for who, *_ in made.episodes[1]["turns"][0]["said"]] == [0]
    assert [who for who, *_ in made.episodes[1]["turns"][0]["shown"]] == [0, 1]


def test_a_file_that_is_gone(tmp_path):
    from palaver.core import CheckpointError

    with pytest.raises(CheckpointError, match="cannot read"):
        Album(1, 1).read(ViewerSource(Path(tmp_path / "gone.jsonl")))
