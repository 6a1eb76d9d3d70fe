"""Mixtures, probabilities of actions, and what is measured of a league, against numbers worked out apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from palaver.agents.make_policy import make_policy
from palaver.core import Completion, Sampling
from palaver.envs.games import kuhn
from palaver.envs.games.solve import GameTree, expected_value, mixture, nash_conv
from palaver.envs.matrix.rules import action_index
from palaver.registry import spec
from palaver.trainers.league.chances import policy_chances, team_chances, wordings
from palaver.trainers.league.evaluation import cross_play_table, evenly_spaced, intransitivity
from palaver.trainers.rollout.episodes import text_env
from tests.trainers.league.tabular import Table

TREE = GameTree.of(kuhn.GAME)


def pure(index):
    """Profile that takes the action of this index everywhere."""
    return {
        prompt: {action: float(n == index) for n, action in enumerate(legal)}
        for prompt, (_, legal) in TREE.infosets.items()
    }


def random_profile(seed):
    draw = np.random.default_rng(seed)
    return {
        prompt: dict(zip(legal, draw.dirichlet(np.ones(len(legal))).tolist(), strict=True))
        for prompt, (_, legal) in TREE.infosets.items()
    }


def both(policy):
    """The team and the sampling of a policy that acts for both players."""
    return dict.fromkeys(("p1", "p2"), policy), dict.fromkeys(("p1", "p2"), Sampling())


def test_value_of_a_mixture_is_the_mean_over_all_pairs_of_its_members():
    profiles = [random_profile(seed) for seed in range(3)]
    owner = {prompt: player for prompt, (player, _) in TREE.infosets.items()}
    values = [
        expected_value(TREE, {prompt: profiles[pair[owner[prompt]]][prompt] for prompt in owner})
        for pair in itertools.product(range(3), repeat=2)
    ]
    mixed = mixture(TREE, profiles)
    assert expected_value(TREE, mixed) == pytest.approx(sum(values) / 9)
    plain = {p: {a: sum(f[p][a] for f in profiles) / 3 for a in legal} for p, (_, legal) in TREE.infosets.items()}
    assert expected_value(TREE, plain) != pytest.approx(sum(values) / 9)  # a mean without reach is another policy


def test_mixture_by_hand():
    """`p1` with a jack checks always, or bets always: after its check and a bet only the first is left."""
    passive, active = pure(0), pure(1)
    mixed = mixture(TREE, [passive, active])
    opening = next(prompt for prompt in mixed if "p1. Each" in prompt and "card: J" in prompt and "none" in prompt)
    facing = next(prompt for prompt in mixed if "card: J" in prompt and "p1 check, p2 bet" in prompt)
    assert mixed[opening] == {"check": 0.5, "bet": 0.5}
    assert mixed[facing] == {"fold": 1.0, "call": 0.0}


def test_exact_game_of_kuhn():
    game = text_env("kuhn-v0", {}).exact_game()
    uniform = [[0.5, 0.5]] * 12
    assert game.nash_conv(uniform) == pytest.approx(11 / 12)
    equilibrium = kuhn.equilibrium(1 / 6)
    chances = [[equilibrium[p][a] for a in legal] for p, legal in zip(game.prompts, game.actions, strict=True)]
    assert game.nash_conv(chances) == pytest.approx(0, abs=1e-12)
    profile = random_profile(5)
    chances = [[profile[p][a] for a in legal] for p, legal in zip(game.prompts, game.actions, strict=True)]
    assert game.nash_conv(chances) == pytest.approx(nash_conv(TREE, profile))


def test_exact_game_of_a_matrix():
    env = text_env("matrix-v1", {"game": "rock-paper-scissors", "tasks": "sample[:2]"})
    game = env.exact_game()
    assert (len(game.prompts), game.agents) == (4, ("a1", "a2", "a1", "a2"))
    rock, paper, scissors = np.eye(3).tolist()
    assert game.nash_conv([rock] * 4) == pytest.approx(2)  # each gains 1 by paper
    assert game.nash_conv([rock, rock, [1 / 3] * 3, [1 / 3] * 3]) == pytest.approx(1)  # the mean of 2 and 0
    mixed = game.mixture([[rock] * 4, [paper] * 4, [scissors] * 4])
    assert np.allclose(mixed, 1 / 3)


@pytest.mark.parametrize("keywords", [{"game": "rock-paper-scissors", "repeats": 2}, {"game": "two-step"}])
def test_games_of_several_rounds_or_states_have_none(keywords):
    assert text_env("matrix-v1", keywords).exact_game() is None


def test_boards_are_too_large():
    assert text_env("tictactoe-v0", {}).exact_game() is None


def test_wordings_exchange_the_action():
    parse = action_index
    assert wordings(["jack: I bet!", "no idea", "jack: I bet!"], ["check", "bet"], parse) == [
        ["jack: I check!", "check"],
        ["jack: I bet!", "bet"],
    ]
    assert wordings(["bet or check"], ["check", "bet"], parse) == [["check or check", "check"], ["bet or check", "bet"]]
    assert wordings(["checked: check"], ["check", r"\1"], lambda text, legal: int("\\1" in text)) == [
        ["checked: check", "check"],
        [r"checked: \1", r"\1"],
    ]


def test_chances_of_a_scripted_policy_are_frequencies():
    game, policy = (
        text_env("kuhn-v0", {}).exact_game(),
        make_policy("scripted:reference", scripted=spec("kuhn-v0").scripted),
    )
    places = [n for n, agent in enumerate(game.agents) if agent == "p2"]
    prompts, actions = [game.prompts[n] for n in places], [game.actions[n] for n in places]
    found = policy_chances(policy, "p2", prompts, actions, Sampling(), game.parse)
    known = kuhn.equilibrium(1 / 6)
    for prompt, legal, row in zip(prompts, actions, found, strict=True):
        assert row == pytest.approx([known[prompt][action] for action in legal], abs=0.12)  # 5 of sqrt(.25 / 400)


def test_a_policy_without_legal_answers_is_uniform():
    class Mute:
        name = "mute"

        def act(self, requests):
            return [[Completion("") for _ in request.seeds] for request in requests]

    game = text_env("kuhn-v0", {}).exact_game()
    chances, mass = team_chances(game, *both(Mute()))
    assert (chances, mass) == ([[0.5, 0.5]] * 12, 0.0)


def test_chances_of_a_table_are_its_own():
    game = text_env("kuhn-v0", {}).exact_game()
    table = Table(logits={game.prompts[0]: [0.0, np.log(3.0)]})
    chances, mass = team_chances(game, *both(table))
    assert chances[0] == pytest.approx([0.25, 0.75])
    assert mass == pytest.approx(1)


def test_cross_play_by_hand():
    pairs = np.array([(0, 1), (0, 2), (1, 2)])
    points = np.array([[2.0, 1.0], [0.0, 1.0], [2.0, 2.0]])  # of 2 games in each of 2 matches
    table = cross_play_table(("a", "b", "c"), pairs, points, np.full((3, 2), 2.0))
    assert np.allclose(table.points, [[0.5, 0.75, 0.25], [0.25, 0.5, 1.0], [0.75, 0.0, 0.5]])
    assert table.intransitivity == 1.0  # a beats b, b beats c, c beats a
    assert (table.games, table.ratings[0].elo) == (4, 1000.0)


def test_intransitivity_counts_triples():
    line = [[0.5, 1, 1, 1], [0, 0.5, 1, 1], [0, 0, 0.5, 1], [0, 0, 0, 0.5]]
    assert intransitivity(line) == 0.0
    line[0][3], line[3][0] = 0, 1  # d beats a: of four triples {a, b, d} and {a, c, d} are circles
    assert intransitivity(line) == 0.5
    assert intransitivity([[0.5, 1], [0, 0.5]]) == 0.0


def test_spread_keeps_the_ends():
    assert evenly_spaced(list("abcdefghi"), 3) == ["a", "e", "i"]
    assert evenly_spaced(list("ab"), 3) == ["a", "b"]
