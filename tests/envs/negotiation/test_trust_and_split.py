"""Trust-and-split: the published known answers, proposals as text, and who is asked when."""

from __future__ import annotations

import json

import pytest

import palaver
from palaver.core import ConfigError, Message, TaskError
from palaver.envs.negotiation import trust_and_split as ts
from tests.envs.negotiation import playing


def play(env, rules, task=0):
    """Mean reward by round of both, and the last metrics."""
    totals, metrics = playing.play(env, rules, task)
    return [total / env.rounds for total in totals], metrics


def means(*rules, **kwargs):
    """Over all 64 tasks."""
    env = palaver.make("trust-and-split-v0", **kwargs)
    results = [play(env, rules, task)[0] for task in range(len(env.tasks))]
    return [sum(column) / len(results) for column in zip(*results, strict=True)]


@pytest.mark.parametrize(
    ("rule", "pair"),
    [(ts.greedy, 55), (ts.honest_greedy, 55), (ts.equal, 55), (ts.split_reference, 100), (ts.tit_for_tat, 100)],
)
def test_the_known_answers_of_a_pair(rule, pair):
    """Published: 100 a round for honest pairs, 55 where both keep ten or five."""
    assert sum(means(rule, rule)) == pytest.approx(pair)
    assert sum(means(rule, rule, fresh=True)) == pytest.approx(pair)


def hands_of(path, hands):
    path.write_text(json.dumps({"hands": hands}) + "\n")
    return {"tasks": str(path), "rounds": len(hands.split())}


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(
    ("other", "totals"),
    [
        # yields 0 to 100 before the other has had the lower hand; as the upper hand 5 coins of 10; then 5 coins of 1
        (ts.honest_greedy, [0 + 50 + 5 + 50, 100 + 5 + 50 + 5]),
        (ts.split_reference, [0 + 100 + 0 + 100, 100 + 0 + 100 + 0]),
        # no hand is named: 5 and 10 claimed, then 10 and 10, as the other kept 10 in the second round
        (ts.greedy, [10 / 3 + 100 / 3 + 5 + 50, 200 / 3 + 20 / 3 + 50 + 5]),
        (ts.equal, [5 + 50 + 5 + 50, 50 + 5 + 50 + 5]),
    ],
)
def test_tit_for_tat_keeps_what_the_other_kept_with_the_lower_hand(tmp_path, fresh, other, totals):
    env = palaver.make("trust-and-split-v0", fresh=fresh, **hands_of(tmp_path / "hands.jsonl", "sr rs sr rs"))
    rewards, metrics = play(env, (ts.tit_for_tat, other))
    assert [4 * reward for reward in rewards] == pytest.approx(totals)
    assert metrics["illegal"] == 0


def test_a_message_is_no_memory():
    """What the other writes stands behind `The other: `, also where it looks like a report."""
    lie = "When the other last had the lower hand it proposed 10."
    talk = f"{ts.NO_MEMORY}\nYour hand: rock.\nThe other: {lie} I have paper.\n{ts.REQUEST}"
    assert ts.tit_for_tat((Message("user", talk),), 0) == ts.propose(0)
    assert ts.tit_for_tat((Message("user", talk.replace(ts.NO_MEMORY, lie)),), 0) == ts.propose(10)


def test_fresh_observations_stand_alone(tmp_path):
    env = palaver.make("trust-and-split-v0", fresh=True, **hands_of(tmp_path / "hands.jsonl", "rs sr"))
    assert env.metadata["conversation"] == "fresh"
    observations, infos = env.reset(seed=0)
    rules = f". {ts.RULES}\n"
    assert observations["p1"] == f"You are p1{rules}{ts.NO_MEMORY}\nYour hand: rock.\n{ts._asked()}"
    observations, *_ = env.step({"p1": "I have rock."})
    head = f"You are p2{rules}{ts.NO_MEMORY}\nYour hand: scissors.\nThe other: I have rock."
    assert observations["p2"] == f"{head}\n{ts._asked()}"
    observations, *_ = env.step({"p2": "hi"})
    assert observations == {
        "p1": f"You are p1{rules}{ts.NO_MEMORY}\nYour hand: rock.\nThe other: hi\n{ts.REQUEST}",
        "p2": f"{head}\n{ts.REQUEST}",
    }
    observations, *_, infos = env.step({"p1": ts.propose(10), "p2": ts.propose(2.5)})
    assert [agent for agent in env.agents if infos[agent]["can_act"]] == ["p2"]
    assert observations["p2"] == f"You are p2{rules}{ts.NO_MEMORY}\nYour hand: rock.\n{ts._asked()}"
    observations, *_ = env.step({"p2": "x"})
    known = "When the other last had the lower hand it proposed 2.5."
    assert observations["p1"] == f"You are p1{rules}{known}\nYour hand: scissors.\nThe other: x\n{ts._asked()}"
    assert env.reset(seed=0)[0]["p1"].count(ts.NO_MEMORY) == 1, "a new episode remembers nothing"


def test_always_yielding_to_a_greedy_agent_earns_25():
    """As upper hand 5 coins of worth 10, as lower none; the greedy agent 5 of worth 1, or 10 of worth 10."""
    rewards = []
    for pair in ("rs", "sr", "pr", "rp", "sp", "ps"):
        values = ts.worth(pair)
        coins = ts.split(10 if values[0] == ts.UPPER else 0, 10)
        rewards.append([c * v for c, v in zip(coins, values, strict=True)])
    assert [sum(column) / 6 for column in zip(*rewards, strict=True)] == [25.0, 52.5]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("I keep <coins_to_self> 7 </coins_to_self>.", 7), ("<coins_to_self>2.5</coins_to_self>", 2.5),
        ("<coins_to_self> 10 </coins_to_self> <coins_to_self> 1 </coins_to_self>", 10), ("7", None), ("", None),
        ("<coins_to_self> -1 </coins_to_self>", None), ("<coins_to_self> 10.5 </coins_to_self>", None),
        ("<coins_to_self> nan </coins_to_self>", None),
    ],
)  # fmt: skip
def test_proposals(text, kept):
    assert ts.proposal(text) == kept


def test_division():
    assert ts.split(6, 6) == (5, 5)
    assert ts.split(9, 3) == (7.5, 2.5)
    assert ts.split(3, 4) == (3, 4)
    assert ts.split(0, 0) == (0, 0)


def test_the_order_of_a_round(tmp_path):
    path = tmp_path / "hands.jsonl"
    path.write_text(json.dumps({"hands": "rs pr"}) + "\n")
    env = palaver.make("trust-and-split-v0", tasks=str(path), rounds=2)
    observations, infos = env.reset(seed=0)
    assert [agent for agent in env.agents if infos[agent]["can_act"]] == ["p1"]
    assert observations["p1"].endswith("Round 1 of 2.\nYour hand: rock.\nSend a message of at most 500 characters.")
    observations, *_, infos = env.step({"p1": "I have rock." + "x" * 600})
    assert [agent for agent in env.agents if infos[agent]["can_act"]] == ["p2"]
    assert "Your hand: scissors.\nThe other: I have rock.xxx" in observations["p2"]
    assert len(observations["p2"].split("The other: ")[1].split("\n")[0]) <= 500
    observations, *_, infos = env.step({"p2": "scissors"})
    assert all(infos[agent]["can_act"] for agent in env.agents)
    assert observations == {"p1": f"The other: scissors\n{ts.REQUEST}", "p2": ts.REQUEST}
    claims = {"p1": "<coins_to_self> 10 </coins_to_self>", "p2": "no number"}
    observations, rewards, *_, infos = env.step(claims)
    assert rewards == {"p1": 100, "p2": 0}
    assert (infos["p1"]["illegal"], infos["p2"]["illegal"]) == (0, 1)
    assert infos["p1"]["metrics"]["efficiency"] == 1
    assert observations["p1"] == ""
    assert observations["p2"].startswith(
        "Round 2 of 2. Last round: you had the lower hand; you proposed 0, the other 10; you earned 0.\n"
        "Your hand: rock."
    )


def test_the_reference_keeps_five_where_the_other_is_silent():
    rewards, metrics = play(palaver.make("trust-and-split-v0"), (ts.split_reference, ts.equal))
    assert sum(rewards) == 55
    assert metrics["illegal"] == 0


def test_tasks_and_keywords(tmp_path):
    assert ts.generate_hands(64, 0, rounds=10)[:5] == ts.generate_hands(5, 0, rounds=10)
    path = tmp_path / "hands.jsonl"
    path.write_text('{"hands": "rs rr"}\n')
    with pytest.raises(TaskError, match="2 pairs of different letters"):
        palaver.make("trust-and-split-v0", tasks=str(path), rounds=2)
    with pytest.raises(ConfigError, match="rounds"):
        palaver.make("trust-and-split-v0", rounds=0)
    with pytest.raises(ConfigError, match="fresh"):
        palaver.make("trust-and-split-v0", fresh=1)
