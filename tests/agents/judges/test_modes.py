"""Ways of asking, against judges whose every answer is known."""

from __future__ import annotations

import json
import math

import pytest

from palaver.agents.base.chat import Answer
from palaver.core import ConfigError
from palaver.scoring import AnswerPair, Comparer, Cost, Reward, ScoringRequest
from tests.agents.judges.scripted import answers, blocks, case, fair, judge


def test_a_judge_is_a_reward_and_a_comparer():
    assert isinstance(judge(), Reward)
    assert isinstance(judge(), Comparer)
    assert judge().score([]) == judge().compare([]) == []


def test_pointwise_pays_the_weighted_mean():
    verdicts = judge().score([case("good"), case("fair"), case("poor")])
    # clear weighs 3 and short 1: (3 + 1) / 4, (1.5 + 1) / 4, 0
    assert [verdict.score for verdict in verdicts] == [1.0, 0.625, 0.0]
    assert verdicts[1].criteria == {"clear": 0.5, "short": 1.0}
    assert verdicts[1].reason == "clear: r1; short: r2"
    assert verdicts[1].cost == Cost(10, 2, 0.5, 1)


def test_the_schema_asks_for_the_reason_before_the_choice():
    asked = judge()
    asked.score([case("good")])
    schema = asked._load().asker.chat.asked[0].schema
    assert list(schema["properties"]) == ["clear", "short"]
    assert list(schema["properties"]["clear"]["properties"]) == ["reason", "choice"]
    assert schema["properties"]["clear"]["properties"]["choice"]["enum"] == ["no", "partly", "yes"]
    assert schema["required"] == ["clear", "short"]
    assert schema["additionalProperties"] is False


def test_every_agent_is_shown_by_name():
    seen = []
    joint = ScoringRequest("t", {"a": "one", "b": "two"}, {"a": "good", "b": ""}, reference="known")
    judge(lambda conversation, seed: seen.append(blocks(conversation)) or "{}", asks=1).score([joint])
    assert seen[0]["told"] == [('agent="a"', "one"), ('agent="b"', "two")]
    assert [label for label, _ in seen[0]["said"]] == ['agent="a"', 'agent="b"']
    assert seen[0]["reference"] == [("", "known")]


def numbers(conversation, seed):
    """Half of the probability on the number for what it reads, 0.3 on 1, the rest elsewhere."""
    text = answers(conversation)[""]
    number = {"good": "3", "fair": "2"}.get(text, "9")
    return Answer("x", top=({number: math.log(0.5), "1": math.log(0.3), "so": math.log(0.2)},), cost=Cost(calls=1))


def test_weighted_scores_come_from_probabilities():
    rubric = {"criteria": [{"name": "c", "text": "t", "choices": ["bad", "fair", "good"]}]}
    verdicts = judge(numbers, mode="weighted", rubric=rubric, asks=1).score([case("good"), case("fair"), case("poor")])
    # (3 x 0.5 + 1 x 0.3) / 0.8 = 2.25 and (2 x 0.5 + 0.3) / 0.8 = 1.625, as shares of the way from 1 to 3
    assert verdicts[0].score == pytest.approx(0.625)
    assert verdicts[1].score == pytest.approx(0.3125)
    assert verdicts[2].score is None
    assert verdicts[2].failure.startswith("out of menu: the scores have 0.30")


def test_weighted_asks_a_question_a_criterion_for_log_probabilities():
    asked = judge(lambda *_: "3", mode="weighted", asks=1)
    (verdict,) = asked.score([case("good")])
    questions = asked._load().asker.chat.asked
    assert [question.top_logprobs for question in questions] == [20, 20]
    assert verdict.failure == "unparseable: the model tells no log-probabilities; use mode=pointwise"
    assert verdict.cost.calls == 2


def test_listwise_matches_by_id_whatever_the_order():
    texts = ["good one", "poor", "fair", "good two", "worse"]
    asked = judge(mode="listwise")
    verdicts = asked.score([case(text, "g") for text in texts] + [case("fair", "other")])
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0, 0.5, 1.0, 0.0, 0.5]
    questions = asked._load().asker.chat.asked
    assert len(questions) == 2, "one a group"
    assert [verdict.cost.calls for verdict in verdicts] == [1, 0, 0, 0, 0, 1]


def test_listwise_shuffles_with_its_seed():
    def shown(**spec):
        asked = judge(mode="listwise", **spec)
        asked.score([case(f"text {n}", "g") for n in range(8)])
        return list(answers(asked._load().asker.chat.asked[0].conversation).values())

    orders = [shown(seed=seed) for seed in range(20)]
    assert shown(seed=3) == orders[3]
    assert len({tuple(order) for order in orders}) > 10
    assert shown(sample=1) != orders[0]
    assert all(sorted(order) == sorted(orders[0]) for order in orders)
    first = [order[0] for order in orders]
    assert max(map(first.count, first)) < 10, "no answer is always shown first"


def test_listwise_shows_equal_answers_once():
    asked = judge(mode="listwise")
    verdicts = asked.score([case("good", "g"), case("poor", "g"), case("good", "g")])
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0, 1.0]
    assert len(answers(asked._load().asker.chat.asked[0].conversation)) == 2


def test_a_group_too_large_is_refused_before_anything_is_asked():
    asked = judge(mode="listwise")
    with pytest.raises(ConfigError, match=r"8 at most, and a group has 9 .* algorithm\.group_size=8 or less"):
        asked.score([case("x", "small"), *(case(f"text {n}", "g") for n in range(9))])
    assert asked._load().asker.chat.asked == []


def test_a_failed_list_leaves_its_whole_group_unscored():
    verdicts = judge(lambda *_: '{"answers": []}', mode="listwise").score([case("a", "g"), case("b", "g")])
    assert [verdict.score for verdict in verdicts] == [None, None]
    assert verdicts[0].cost.calls == 3


def test_pairs_are_shown_in_both_orders():
    asked = judge()
    (better, worse, tie) = asked.compare(
        [AnswerPair("p", "good", "poor"), AnswerPair("p", "fair", "good"), AnswerPair("p", "x", "y")]
    )
    assert (better.first, better.orders) == (1.0, (1.0, 1.0))
    assert (worse.first, worse.orders) == (0.0, (0.0, 0.0))
    assert (tie.first, tie.orders) == (0.5, (0.5, 0.5))
    assert better.cost == Cost(20, 4, 1.0, 2)
    assert len(asked._load().asker.chat.asked) == 6


@pytest.mark.parametrize("slot", ["first", "second"])
def test_a_judge_that_heeds_the_slot_alone_comes_out_at_a_half(slot):
    (preference,) = judge(lambda *_: json.dumps({"reason": "", "better": slot})).compare(
        [AnswerPair("p", "good", "poor")]
    )
    assert preference.first == 0.5
    assert preference.orders == ((1.0, 0.0) if slot == "first" else (0.0, 1.0))


def test_one_failed_order_fails_the_preference():
    def half(conversation, seed):
        return fair(conversation, seed) if answers(conversation)["first"] == "good" else "no idea"

    (preference,) = judge(half, asks=2).compare([AnswerPair("p", "good", "poor")])
    assert (preference.first, preference.orders) == (None, (1.0, None))
    assert preference.failure == "unparseable: no JSON object"
    assert preference.cost.calls == 3


def test_pairwise_pays_the_mean_over_the_others():
    verdicts = judge(mode="pairwise").score([case("good", "g"), case("poor", "g"), case("fair", "g"), case("alone")])
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0, 0.5, None]
    assert verdicts[3].failure.startswith("alone: ")
    assert sum(verdict.cost.calls for verdict in verdicts) == 6, "three pairs in two orders"


def test_those_told_different_things_are_shown_what_each_was_told():
    asked = judge(mode="listwise")
    asked.score([case("good", "g", told="one"), case("poor", "g", told="two")])
    told = blocks(asked._load().asker.chat.asked[0].conversation)["told"]
    assert sorted(told) == [('agent="a of A"', "one"), ('agent="a of B"', "two")] or sorted(told) == [
        ('agent="a of A"', "two"), ('agent="a of B"', "one"),
    ]  # fmt: skip
