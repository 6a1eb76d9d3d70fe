"""Beliefs about the other's card against Bayes' posterior, with numbers of Kuhn's equilibrium worked out by hand."""

from __future__ import annotations

import json

import pytest

import palaver
from palaver.agents.make_policy import make_policy
from palaver.agents.simple import ScriptedPolicy
from palaver.core import ConfigError, Sampling
from palaver.envs.games import kuhn, leduc
from palaver.envs.games.kuhn import KuhnState
from palaver.envs.games.solve import GameTree, beliefs, profile_of, uniform_weights
from palaver.trainers.config.loading import load
from palaver.trainers.league.chances import Chooser
from palaver.trainers.league.guesses import belief_gap, belief_metrics
from palaver.trainers.run import checkpoint
from palaver.trainers.train import train

TREE = GameTree.of(kuhn.GAME)


def prompt(card, *acts):
    return kuhn.GAME.prompt(KuhnState(card * 2, acts), len(acts) % 2)


def test_the_posterior_of_kuhn_by_hand():
    """With alpha = 1/4: p1 bets J 1/4, Q 0, K 3/4; p2 bets J 1/3, Q 0, K 1 after a check; p2 calls Q 1/3, K 1."""
    found = beliefs(TREE, kuhn.equilibrium(0.25))
    reach, posterior = found[prompt("Q")]
    assert reach == pytest.approx(1 / 3)
    assert posterior == pytest.approx({"J": 0.5, "K": 0.5})
    reach, posterior = found[prompt("Q", "bet")]  # J and K are dealt alike, and bet with 1/4 and 3/4
    assert reach == pytest.approx(1 / 6 * (1 / 4 + 3 / 4))
    assert posterior == pytest.approx({"J": 0.25, "K": 0.75})
    reach, posterior = found[prompt("K", "check")]  # J checks with 3/4, Q always
    assert posterior == pytest.approx({"J": 3 / 7, "Q": 4 / 7})
    assert reach == pytest.approx(1 / 6 * (3 / 4 + 1))
    reach, posterior = found[prompt("Q", "check", "bet")]
    assert posterior == pytest.approx({"J": 0.25, "K": 0.75})
    assert reach == pytest.approx(1 / 6 * (1 / 3 + 1))
    assert sum(found[prompt(card)][0] for card in "JQK") == pytest.approx(1)


def test_a_set_that_the_other_never_leads_to_has_the_odds_of_the_deal():
    profile = {**kuhn.equilibrium(0.0)}
    for card in "JQK":
        profile[prompt(card)] = {"check": 1.0, "bet": 0.0}
    reach, posterior = beliefs(TREE, profile)[prompt("Q", "bet")]
    assert reach == 0
    assert posterior == pytest.approx({"J": 0.5, "K": 0.5})


def test_the_posterior_of_leduc_counts_the_deck():
    tree = GameTree.of(leduc.GAME)
    found = beliefs(tree, profile_of(tree, uniform_weights))
    opening = next(text for text in found if "You are p1" in text and "card: J" in text and "First round: none" in text)
    reach, posterior = found[opening]
    assert reach == pytest.approx(1 / 3)
    assert posterior == pytest.approx({"J": 1 / 5, "Q": 2 / 5, "K": 2 / 5})


class Knows:
    """Plays Kuhn's equilibrium, and states a posterior that is computed from a profile."""

    name = "knows"

    def __init__(self, profile, shift=0.0):
        self.beliefs, self.shift = beliefs(TREE, profile), shift

    def chances(self, prompts, actions):
        profile = kuhn.equilibrium(0.25)
        return [[profile[text][a] for a in legal] for text, legal in zip(prompts, actions, strict=True)]

    def act(self, requests):
        return [ScriptedPolicy(self.answer).act([request])[0] for request in requests]

    def answer(self, conversation, _seed):
        _, posterior = self.beliefs[conversation[-1].content.partition("\n\nGuess")[0]]
        shares = {card: (1 - self.shift) * p + self.shift / 3 for card in "JQK" for p in [posterior.get(card, 0.0)]}
        return ", ".join(f"{card} {share:.6f}" for card, share in shares.items())


def gap(policy, partner=None):
    env = palaver.make("kuhn-v0", infer="before")
    team = dict.fromkeys(("p1", "p2"), policy)
    return belief_gap(env, team, dict.fromkeys(team, partner or policy), dict.fromkeys(team, Sampling(temperature=0)))


def test_a_player_that_knows_bayes_has_no_gap_and_one_that_does_not_has():
    known = gap(Knows(kuhn.equilibrium(0.25)))
    assert (known.mean, known.maximum) == pytest.approx((0, 0), abs=2e-6)
    assert known.unreadable == 0
    mixed = gap(Knows(kuhn.equilibrium(0.25), shift=0.5))
    assert mixed.mean == pytest.approx(0.5 * known.uniform, abs=1e-5)  # the distance is linear in the mixture
    other = gap(Knows(kuhn.equilibrium(0.0)))  # the posterior of another partner's policy
    assert other.mean > 0.05


def test_the_average_of_answers_by_hand():
    """One answer is sure of one card and the next of the other: 1 - p and p from the truth, and 1/2 on average."""

    class Torn(Knows):
        count = 0

        def answer(self, conversation, seed):
            _, posterior = self.beliefs[conversation[-1].content.partition("\n\nGuess")[0]]
            self.count += 1
            return [*posterior][self.count % 2]

    env, team = palaver.make("kuhn-v0", infer="before"), dict.fromkeys(("p1", "p2"), Torn(kuhn.equilibrium(0.25)))
    found = belief_gap(env, team, team, dict.fromkeys(team, Sampling()), samples=2)
    assert found.mean == pytest.approx(0.5)
    assert found.pooled == pytest.approx((3 / 8) / (85 / 36))  # as the odds of the deal, see below


def test_a_text_that_names_no_card_is_the_largest_distance():
    class Mute(Knows):
        def answer(self, conversation, seed):
            return "pass"

    found = gap(Mute(kuhn.equilibrium(0.25)))
    assert (found.mean, found.maximum, found.pooled, found.unreadable) == (1, 1, 1, 1)


def test_the_odds_of_the_deal_by_hand():
    """Reach times distance from 1/2 in the six sets of p2, then in p1's after check and bet; p1's first three are 0.

    0.0625 + 1/24 + 1/48 + 0.0625 + 1/24 + 1/48, and 0.0625 + 1/18 + 1/144; all reach together 1 + 1 + 13/36.
    """
    found = gap(Knows(kuhn.equilibrium(0.25)))
    assert found.deal == pytest.approx((3 / 8) / (85 / 36))
    first = palaver.make("kuhn-v0", infer={"when": "before", "agents": ["p2"]})
    team = dict.fromkeys(("p1", "p2"), Knows(kuhn.equilibrium(0.25)))
    assert belief_gap(first, team, team, dict.fromkeys(team, Sampling())).deal == pytest.approx(0.25)  # p2's, reach 1


def test_another_policy_that_answers_is_the_one_that_is_asked():
    right, wrong = Knows(kuhn.equilibrium(0.25)), Knows(kuhn.equilibrium(0.25), shift=1.0)
    env, sampling = palaver.make("kuhn-v0", infer="before"), dict.fromkeys(("p1", "p2"), Sampling())
    team = {"p1": wrong, "p2": wrong, "p1_inference": right, "p2_inference": right}
    assert belief_metrics(env, team, sampling, 1, sampling)["belief/gap"] == pytest.approx(0, abs=2e-6)
    del team["p2_inference"]
    found = belief_metrics(env, team, sampling, 1, sampling)
    assert 0 < found["belief/gap"] < found["belief/gap_uniform"]


def test_the_reference_knows_its_probabilities():
    policy = make_policy("scripted:reference", scripted=palaver.spec("kuhn-v0").scripted)
    assert isinstance(policy, Chooser)
    asked = [prompt("K"), prompt("J", "check"), prompt("Q", "check", "bet"), "no prompt"]
    chances = policy.chances(asked, [("check", "bet"), ("bet", "check"), ("fold", "call"), ("fold",)])
    expected = [[1 / 2, 1 / 2], [1 / 3, 2 / 3], [1 / 2, 1 / 2], [0]]  # alpha = 1/6
    assert [pytest.approx(row) for row in expected] == chances


def test_nothing_is_measured_where_the_posterior_is_unknown_or_dear():
    class Remote:
        name = "remote"

        def act(self, requests):
            raise AssertionError("asked")

    sampling = dict.fromkeys(("p1", "p2"), Sampling())
    for policy, id, keywords in (
        (Remote(), "kuhn-v0", {"infer": "before"}),
        (Knows(kuhn.equilibrium(0.25)), "kuhn-v0", {}),
        (Knows(kuhn.equilibrium(0.25)), "matrix-v1", {"infer": "after"}),
    ):
        team = dict.fromkeys(("p1", "p2"), policy)
        assert belief_metrics(palaver.make(id, **keywords), team, sampling, 1, sampling) == {}


def test_an_evaluation_of_a_run_has_the_gap(tmp_path):
    """The partner is an equilibrium with alpha = 1/6, whose distances follow from the game alone."""
    items = ["train.steps=1", "algorithm.group_size=2", "eval.samples=2", "log.tensorboard=false"]
    folder = train(load("kuhn-infer", items), tmp_path / "run")
    records = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    before, after = (record for record in records if record["kind"] == "eval")
    for record in (before, after):
        assert record["belief/gap_uniform"] == pytest.approx(0.383721, abs=1e-6)
        assert record["belief/gap_deal"] == pytest.approx(0.127907, abs=1e-6)
        assert 0.1 < record["belief/gap"] <= record["belief/gap_max"] <= 1
        assert record["belief/unreadable"] < 0.05
    kept = checkpoint.folder_of(folder, 1) / "policies"
    assert [policy.name for policy in kept.iterdir()] == ["inference"]


def test_only_games_of_cards_have_a_posterior():
    env = palaver.make("matrix-v1", infer=True)
    with pytest.raises(ConfigError, match="no game of cards"):
        belief_gap(env, {}, {}, {})
