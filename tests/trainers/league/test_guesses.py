"""Beliefs about the other's card against Bayes' posterior, with numbers of Kuhn's equilibrium worked out by hand."""

from __future__ import annotations

import pytest

import palaver
from palaver.agents.simple import ScriptedPolicy
from palaver.core import ConfigError, Sampling
from palaver.envs.games import kuhn, leduc
from palaver.envs.games.kuhn import KuhnState
from palaver.envs.games.solve import GameTree, beliefs, profile_of, uniform_weights
from palaver.trainers.league.guesses import belief_gap

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


def test_a_text_that_names_no_card_is_the_largest_distance():
    class Mute(Knows):
        def answer(self, conversation, seed):
            return "pass"

    found = gap(Mute(kuhn.equilibrium(0.25)))
    assert (found.mean, found.maximum, found.unreadable) == (1, 1, 1)


def test_only_games_of_cards_have_a_posterior():
    env = palaver.make("matrix-v1", infer=True)
    with pytest.raises(ConfigError, match="no game of cards"):
        belief_gap(env, {}, {}, {})
