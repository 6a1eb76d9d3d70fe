"""Deal or no deal, and negotiation of a price: rewards by hand, the exact optimum, agreements that numbers verify."""

from __future__ import annotations

import itertools
import json

import pytest

import palaver
from palaver.core import ConfigError, Message, TaskError
from palaver.envs.negotiation import deal_or_no_deal as deal
from palaver.envs.negotiation import price
from tests.envs.negotiation.playing import play

DEAL = {"counts": [2, 1, 3], "p1": [1, 5, 1], "p2": [2, 0, 2]}


@pytest.fixture
def make(tmp_path):
    def made(id, row, **kwargs):
        path = tmp_path / "tasks.jsonl"
        path.write_text(json.dumps(row) + "\n")
        return palaver.make(id, tasks=str(path), **kwargs)

    return made


def test_the_best_division_by_hand():
    """The hat to p1, 5; books and balls to p2, 4 + 6: 15 together."""
    assert deal.best_division(DEAL["counts"], DEAL) == (0, 1, 0)
    assert deal.best_total(DEAL["counts"], DEAL) == 15


def test_the_best_total_is_what_each_kind_is_worth_at_most():
    """Another way to the optimum: every item to whom it is worth more. Between 10 and 20."""
    for row in deal.generate_deals(64, 0):
        expected = sum(n * max(a, b) for n, a, b in zip(row["counts"], row["p1"], row["p2"], strict=True))
        assert deal.best_total(row["counts"], row) == expected
        assert 10 <= expected <= 20


def test_generated_deals_follow_the_rules():
    rows = deal.generate_deals(64, 0)
    assert rows[:5] == deal.generate_deals(5, 0)
    for row in rows:
        assert 5 <= sum(row["counts"]) <= 7
        for agent in ("p1", "p2"):
            assert sum(n * v for n, v in zip(row["counts"], row[agent], strict=True)) == 10
        pairs = list(zip(row["p1"], row["p2"], strict=True))
        assert all(max(pair) > 0 for pair in pairs)
        assert any(min(pair) > 0 for pair in pairs)


@pytest.mark.parametrize(
    ("first", "second", "expected", "illegal"),
    [
        ("<take> hats=1 </take>", "<take> books=2 balls=3 </take>", (5, 10), 0),
        ("<take> books=2, hats=1, balls=3 </take>", "<take></take>", (10, 0), 0),
        ("<take> hats=1 </take>", "<take> books=2 balls=2 </take>", (0, 0), 0),
        ("<take> hats=1 </take>", "<take> hats=1 books=2 balls=3 </take>", (0, 0), 0),
        ("<take> hats=2 </take>", "<take> books=2 balls=3 </take>", (0, 0), 1),
        ("hat", None, (0, 0), 2),
    ],
)
def test_deals_by_hand(make, first, second, expected, illegal):
    env = make("deal-or-no-deal-v0", DEAL, messages=0)
    assert env.max_return == 7.5
    env.reset(seed=0)
    _, rewards, *_, infos = env.step({"p1": first, "p2": second})
    assert tuple(rewards.values()) == expected
    metrics = infos["p1"]["metrics"]
    assert metrics["efficiency"] == sum(expected) / 15
    assert metrics["agreed"] == float(sum(expected) > 0)
    assert metrics["illegal"] == illegal
    assert not env.agents


def test_values_are_private(make):
    env = make("deal-or-no-deal-v0", DEAL)
    observations, infos = env.reset(seed=0)
    assert "To you a book is worth 1, a hat 5, a ball 1." in observations["p1"]
    assert "There are 2 books, 1 hat and 3 balls. To you a book is worth 2, a hat 0, a ball 2." in observations["p2"]
    assert [infos[agent]["can_act"] for agent in env.agents] == [True, False]


def test_fresh_observations_stand_alone(make):
    env = make("deal-or-no-deal-v0", DEAL, messages=2, fresh=True)
    assert env.metadata["conversation"] == "fresh"
    heads = {
        agent: f"You are {agent}. There are 2 books, 1 hat and 3 balls. To you a book is worth {worths}.\n"
        "Agree with the other on who takes what."
        for agent, worths in (("p1", "1, a hat 5, a ball 1"), ("p2", "2, a hat 0, a ball 2"))
    }
    observations, _ = env.reset(seed=0)
    assert observations["p1"] == f"{heads['p1']} {deal._asked()}"
    assert env.step({"p1": "a\nb"})[0] == {"p1": "", "p2": f"{heads['p2']}\nThe other: a b\n{deal._asked()}"}
    assert env.step({"p2": "c"})[0] == {"p1": f"{heads['p1']}\nThe other: c\n{deal._asked()}", "p2": ""}
    env.step({"p1": "d"})
    assert env.step({"p2": "e"})[0] == {
        "p1": f"{heads['p1']}\nThe other: c\nThe other: e\n{deal.REQUEST}",
        "p2": f"{heads['p2']}\nThe other: a b\nThe other: d\n{deal.REQUEST}",
    }
    env.reset(seed=0)
    assert "The other: c" not in env.step({"p1": "x"})[0]["p2"], "a new episode has no former messages"
    with pytest.raises(ConfigError, match="fresh"):
        palaver.make("deal-or-no-deal-v0", fresh=1)


@pytest.mark.parametrize("fresh", [False, True])
def test_the_reference_reaches_the_optimum_in_all_tasks(fresh):
    env = palaver.make("deal-or-no-deal-v0", fresh=fresh)
    for task in range(0, 64, 5):
        totals, metrics = play(env, (deal.deal_reference, deal.deal_reference), task)
        assert metrics["efficiency"] == metrics["agreed"] == 1
        assert sum(totals) == deal.best_total(env.task["counts"], env.task.data)
        assert play(env, (deal.take_all, deal.take_all), task)[0] == [0, 0]


@pytest.mark.parametrize("rule", [deal.deal_reference, deal.take_all, price.concede, price.stubborn_price])
@pytest.mark.parametrize(
    "text",
    [
        "", "hello", "You are p1. There are 9 books", "You are the buyer. 3 to you;",
        "You are p1. There are 9 books, 1 hat and 1 ball. To you a book is worth 1, a hat 2, a ball 3.\n"
        "The other: a book is worth",
        "You are the buyer. worth 3 to you; x. You may send 2 messages",
        "You are the buyer. worth 3 to you; x. You may send 2 messages.\n"
        "This is your message 9 of 2. Your last offer: 1. The last offer of the seller: 1.2.3.",
    ],
)  # fmt: skip
def test_scripted_agents_answer_anything(rule, text):
    assert isinstance(rule((Message("user", text),), 0), str)
    assert isinstance(rule((Message("system", text), Message("assistant", text)), 0), str)
    assert rule((), 0) == ""


def test_rows_that_cannot_be_used(make):
    for row in ({**DEAL, "p1": [1, 2]}, {**DEAL, "counts": [99, 0, 0]}, {**DEAL, "p2": [1, -1, 0]}):
        with pytest.raises(TaskError, match="must"):
            make("deal-or-no-deal-v0", row)
    with pytest.raises(TaskError, match="from 0 to 1000"):
        make("negotiation-v0", {"cost": -1, "value": 5})
    with pytest.raises(ConfigError, match="messages"):
        palaver.make("negotiation-v0", messages=0)


# --- a price ---------------------------------------------------------------------------------


def test_an_agreement_is_two_equal_numbers_in_a_row(make):
    env = make("negotiation-v0", {"cost": 30, "value": 80})
    assert env.max_return == 0.25
    env.reset(seed=0)
    assert env.step({"seller": "I want <price>70</price>"})[0]["buyer"] == "The seller: I want <price>70</price>"
    env.step({"buyer": "70? never. <price>50</price>"})
    env.step({"seller": "agreed! 50 it is"})  # no number in tags: the offer of 70 stands
    assert env.agents
    _, rewards, terminated, _, infos = env.step({"buyer": "then <price> 70 </price>"})
    assert all(terminated.values())
    assert rewards == pytest.approx({"seller": 0.4, "buyer": 0.1})
    assert infos["buyer"]["metrics"] == {
        "agreed": 1, "price": 70, "efficiency": pytest.approx(1), "outcome": 1, "illegal": 0,
    }  # fmt: skip


def test_without_an_agreement_nothing_is_gained(make):
    env = make("negotiation-v0", {"cost": 30, "value": 80}, messages=1)
    env.reset(seed=0)
    env.step({"seller": "<price>70</price>"})
    _, rewards, terminated, _, infos = env.step({"buyer": "<price>71</price>"})
    assert rewards == {"seller": 0, "buyer": 0}
    assert all(terminated.values())
    assert infos["seller"]["metrics"]["agreed"] == 0


def test_fresh_observations_show_offers_and_no_other_text(make):
    env = make("negotiation-v0", {"cost": 30, "value": 80}, messages=2, fresh=True)
    assert env.metadata["conversation"] == "fresh"
    heads = {role: price._opening(role, env.tasks[0], 2) for role in price.ROLES}
    first = "This is your message 1 of 2. Your last offer: none. The last offer of the"
    observations, _ = env.reset(seed=0)
    assert observations["seller"] == f"{heads['seller']}\n{first} buyer: none."
    observations, *_ = env.step({"seller": "my cost is 30 <price> 64.5 </price>"})
    assert observations["buyer"] == f"{heads['buyer']}\n{first} seller: 64.5."
    observations, *_ = env.step({"buyer": "no"})
    second = "This is your message 2 of 2. Your last offer: 64.5. The last offer of the buyer: none."
    assert observations["seller"] == f"{heads['seller']}\n{second}"
    env.step({"seller": price.propose(60)})
    observations, *_ = env.step({"buyer": price.propose(60)})
    assert observations == {"seller": "Your last offer: 60. The last offer of the buyer: 60.", "buyer": ""}
    assert env.reset(seed=0)[0]["seller"].endswith("buyer: none."), "a new episode has no former offers"
    with pytest.raises(ConfigError, match="fresh"):
        palaver.make("negotiation-v0", fresh=1)


@pytest.mark.parametrize("agents", [*itertools.product((price.concede, price.stubborn_price), repeat=2)])
def test_scripted_negotiators_play_alike_with_fresh_observations(agents):
    continued, fresh = (palaver.make("negotiation-v0", messages=4, fresh=fresh) for fresh in (False, True))
    for task in range(0, 64, 7):
        assert play(continued, agents, task) == play(fresh, agents, task)


def test_a_bad_price_costs(make):
    env = make("negotiation-v0", {"cost": 30, "value": 20})
    env.reset(seed=0)
    env.step({"seller": "<price>25</price>"})
    assert env.step({"buyer": "<price>25</price>"})[1] == pytest.approx({"seller": -0.05, "buyer": -0.05})


def test_scripted_negotiators():
    """Conceding agents agree where there is something to gain, and never at a loss; two stubborn ones seldom."""
    env = palaver.make("negotiation-v0")
    for task, agents in itertools.product(
        range(64), ((price.concede, price.concede), (price.concede, price.stubborn_price))
    ):
        totals, metrics = play(env, agents, task)
        surplus = env.task["value"] - env.task["cost"]
        assert min(totals) >= -1e-9
        assert metrics["agreed"] == 0 if surplus < 0 else True
        if agents[1] is price.concede and surplus > 0:
            assert metrics["agreed"] == 1
            assert metrics["efficiency"] == pytest.approx(1)
