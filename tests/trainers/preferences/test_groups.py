"""From episodes to groups and pairs: who is compared with whom, by whose word, and what a judge's failures do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from palaver.core import Completion, ScoringError
from palaver.episodes import Episode, Turn
from palaver.scoring import AnswerPair, Comparer, Preference
from palaver.trainers.config.preferences import PairsConfig
from palaver.trainers.preferences.source import JointActionGroup, by_judge, by_reward, groups


def turn(node: str, parent: str, said: dict[str, str], reward: float, heard: dict[str, str] | None = None) -> Turn:
    group = parent or node.partition("/")[0]
    return Turn(
        node.count("/") - 1, node, parent, group, dict.fromkeys(said, 0), heard or {"a": "to a", "b": "to b"},
        {agent: Completion(text) for agent, text in said.items()}, {"a": reward, "b": reward}, {},
    )  # fmt: skip


def one(task: str, node: str, reward: float, text: str = "") -> Episode:
    said = {"a": f"{text or node} by a", "b": f"{text or node} by b"}
    return Episode("toy", task, 0, (turn(node, "", said, reward),), "terminated")


def test_pairs_are_of_one_task_and_the_better_stands_first():
    episodes = [one("t0", "0/0", 1.0), one("t0", "0/1", 3.0), one("t1", "1/0", 9.0), one("t1", "1/1", 9.0)]
    (pair,) = by_reward(groups(episodes), PairsConfig(), 0)
    assert (pair.task, pair.margin, pair.source) == ("t0", 2.0, "env:toy")
    assert pair.observations == {"a": "to a", "b": "to b"}
    assert pair.chosen == {"a": "0/1 by a", "b": "0/1 by b"}
    assert pair.rejected["b"] == "0/0 by b"


def test_equal_words_are_one_joint_action_and_unscored_ones_none():
    lost = replace(one("t", "0/3", 50.0), stop="unscored")
    (group,) = groups([one("t", "0/0", 1.0, "x"), one("t", "0/1", 1.0, "x"), one("t", "0/2", 2.0), lost])
    assert group.values == [1.0, 2.0]


def test_a_turn_is_worth_what_follows_and_what_was_heard_must_be_equal():
    """Root actions pay 1 and 2; after the first, siblings pay 3 and 5 (mean 4): 5 against 2. The third turn-two action
    belongs to the other root and is compared with nobody."""
    first, second = turn("0/0", "", {"a": "p"}, 1.0), turn("0/1", "", {"a": "q"}, 2.0)
    more = {"a": "then", "b": ""}
    leaves = [
        (first, turn("0/0/0", "0/0", {"a": "u"}, 3.0, more)), (first, turn("0/0/1", "0/0", {"a": "v"}, 5.0, more)),
        (second, turn("0/1/0", "0/1", {"a": "w"}, 0.0, more)),
    ]  # fmt: skip
    found = groups([Episode("toy", "t", 0, turns, "terminated") for turns in leaves])
    assert [list(group.values) for group in found] == [[5.0, 2.0], [3.0, 5.0], [0.0]]
    assert found[1].observations == {"a": "to a\n\nthen"}
    assert [pair.chosen["a"] for pair in by_reward(found, PairsConfig(), 0)] == ["p", "v"]


class Judge:
    """Prefers the answer with more letters by `strength`; fails on those that begin with a question mark."""

    name = "judge:letters"

    def __init__(self, strength: float = 0.9) -> None:
        self.strength, self.asked = strength, list[AnswerPair]()

    def compare(self, pairs: Sequence[AnswerPair]) -> list[Preference]:
        self.asked += pairs
        return [self._one(pair) for pair in pairs]

    def _one(self, pair: AnswerPair) -> Preference:
        if "?" in pair.first + pair.second:
            return Preference(None, failure="refusal: no")
        longer = (len(pair.first) > len(pair.second)) - (len(pair.first) < len(pair.second))
        return Preference(0.5 + longer * (self.strength - 0.5))


def said(*texts: str) -> JointActionGroup:
    return JointActionGroup(
        "t", {"a": "x", "b": "y"}, [{"a": text, "b": ""} for text in texts], [0.0] * len(texts), "toy"
    )


def test_a_judge_decides_and_its_ties_are_dropped():
    judge = Judge()
    assert isinstance(judge, Comparer)
    found = by_judge([said("aaa", "b", "cc", "d")], judge, PairsConfig(), 0)
    assert [(p.chosen["a"], p.rejected["a"]) for p in found] == [
        ("aaa", "b"), ("aaa", "cc"), ("aaa", "d"), ("cc", "b"), ("cc", "d"),
    ]  # fmt: skip
    assert {(p.source, round(p.margin or 0, 9)) for p in found} == {("judge:letters", 0.8)}
    assert judge.asked[0] == AnswerPair(
        "[a reads]\nx\n\n[b reads]\ny", "[a says]\naaa\n\n[b says]\n", "[a says]\nb\n\n[b says]\n"
    )
    assert by_judge([said("aaa", "b")], Judge(0.6), PairsConfig(gap=0.5), 0) == []
    assert len(by_judge([said("1", "22", "333", "4444")], Judge(), PairsConfig(most=2), 0)) == 2


def test_a_judge_that_fails_loses_its_pairs_and_too_often_the_work():
    (pair,) = by_judge([said("aa", "b", "?")], Judge(), PairsConfig(), 0)
    assert pair.chosen["a"] == "aa"
    with pytest.raises(ScoringError, match="failed on 1 of 1 pairs: refusal"):
        by_judge([said("?", "b")], Judge(), PairsConfig(), 0)
    texts = ["?", *("x" * n for n in range(1, 7))]  # 6 of 21 pairs
    with pytest.raises(ScoringError, match="failed on 6 of 21 pairs"):
        by_judge([said(*texts)], Judge(), PairsConfig(), 0)
    assert by_judge([], Judge(), PairsConfig(), 0) == []
