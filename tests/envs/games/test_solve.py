"""Exact values of Kuhn and Leduc poker: known ones from the literature, others by linear programs and enumeration."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from scipy.optimize import linprog

from palaver.envs.games import kuhn, leduc
from palaver.envs.games.cfr import cfr_plus, regret_matching
from palaver.envs.games.solve import GameTree, best_response, expected_value, nash_conv, profile_of, uniform_weights

KUHN, LEDUC = GameTree.of(kuhn.GAME), GameTree.of(leduc.GAME)


def random_profile(tree, seed):
    draw = random.Random(seed)
    return profile_of(tree, lambda _, actions: [[draw.random() ** 3 for _ in legal] for legal in actions])


def walk(tree):
    """(leaf, chance, p1's sequence, p2's sequence) of every leaf; a sequence is a tuple of (prompt, action)."""

    def visit(node, chance, sequences):
        if node.player is None:
            yield node, chance, *sequences
        for action, child in zip(node.actions, node.children, strict=True):
            longer = list(sequences)
            longer[node.player] = (*sequences[node.player], (node.prompt, action))
            yield from visit(child, chance, longer)

    for root, chance in tree.roots:
        yield from visit(root, chance, [(), ()])


def sequence_form(tree):
    """Payoff matrix (n1, n2) of the sequences, and for each player the constraints E x = e."""
    leaves = list(walk(tree))
    sequences = [sorted({s[:n] for leaf in leaves for s in [leaf[2 + p]] for n in range(len(s) + 1)}) for p in (0, 1)]
    index = [{s: n for n, s in enumerate(every)} for every in sequences]
    payoffs = np.zeros((len(sequences[0]), len(sequences[1])))
    for node, chance, first, second in leaves:
        payoffs[index[0][first], index[1][second]] += chance * node.payoff
    constraints = []
    for player in (0, 1):
        sets = {}
        for s in sequences[player]:
            if s:
                sets.setdefault((s[:-1], s[-1][0]), []).append(s)
        E = np.zeros((1 + len(sets), len(sequences[player])))
        E[0, index[player][()]] = 1
        for row, ((parent, _), members) in enumerate(sets.items(), start=1):
            E[row, index[player][parent]] = -1
            for s in members:
                E[row, index[player][s]] = 1
        constraints.append((E, np.eye(len(E))[0]))
    return payoffs, constraints, sequences


def game_value(tree):
    """max_x min_y x'Ay by D. Koller, N. Megiddo and B. von Stengel (1996): maximise q0, F'q <= A'x, Ex = e, x >= 0."""
    A, ((E, e), (F, _)), _ = sequence_form(tree)
    n, m = A.shape[0], len(F)
    cost = np.zeros(n + m)
    cost[n] = -1
    found = linprog(
        cost,
        A_ub=np.hstack([-A.T, F.T]),
        b_ub=np.zeros(A.shape[1]),
        A_eq=np.hstack([E, np.zeros((len(E), m))]),
        b_eq=e,
        bounds=[(0, None)] * n + [(None, None)] * m,
    )
    return -found.fun


def response_by_program(tree, profile, player):
    """Value of a best response as a linear program over the player's own sequences."""
    A, constraints, sequences = sequence_form(tree)
    other = 1 - player
    reach = np.array([np.prod([profile[p][a] for p, a in s]) for s in sequences[other]])
    gains = A @ reach if player == 0 else -(reach @ A)
    E, e = constraints[player]
    return -linprog(-gains, A_eq=E, b_eq=e, bounds=(0, None)).fun


def test_sizes():
    assert len(KUHN.infosets) == 12
    assert len(LEDUC.infosets) == 288  # 936 where suits are told apart
    assert len(KUHN.roots) == 6
    assert sum(chance for _, chance in LEDUC.roots) == pytest.approx(1)
    assert len(LEDUC.roots) == 24


@pytest.mark.parametrize("tree", [KUHN, LEDUC], ids=["kuhn", "leduc"])
def test_players_remember_what_they_did(tree):
    """Perfect recall: all states of an information set have the same own actions behind them."""
    behind = {}
    for _, _, *sequences in walk(tree):
        for s in sequences:
            for n, (prompt, _) in enumerate(s):
                behind.setdefault(prompt, set()).add(s[:n])
    assert len(behind) == len(tree.infosets)
    assert all(len(pasts) == 1 for pasts in behind.values())


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1 / 6, 1 / 3])
def test_kuhns_family_is_in_equilibrium(alpha):
    profile = kuhn.equilibrium(alpha)
    assert profile.keys() == KUHN.infosets.keys()
    assert expected_value(KUHN, profile) == pytest.approx(-1 / 18, abs=1e-12)
    assert nash_conv(KUHN, profile) == pytest.approx(0, abs=1e-12)


def test_uniform_policies():
    """Kuhn 11/12; Leduc 4.747222, as OpenSpiel documents for its uniform policy; both by linear programs, too."""
    for tree, expected in ((KUHN, 11 / 12), (LEDUC, 4.747222222)):
        profile = profile_of(tree, uniform_weights)
        assert nash_conv(tree, profile) == pytest.approx(expected, abs=1e-8)
        by_program = sum(response_by_program(tree, profile, player) for player in (0, 1))
        assert by_program == pytest.approx(expected, abs=1e-7)
    assert expected_value(KUHN, profile_of(KUHN, uniform_weights)) == pytest.approx(1 / 8)


@pytest.mark.parametrize("seed", range(3))
def test_a_best_response_is_the_best_of_all_pure_policies(seed):
    """Kuhn: 64 pure policies of each player, all tried."""
    profile = random_profile(KUHN, seed)
    for player in (0, 1):
        sets = [(prompt, legal) for prompt, (owner, legal) in KUHN.infosets.items() if owner == player]
        values = []
        for choice in itertools.product(*(legal for _, legal in sets)):
            pure = {p: {a: float(a == c) for a in legal} for (p, legal), c in zip(sets, choice, strict=True)}
            values.append((1 - 2 * player) * expected_value(KUHN, profile | pure))
        value, actions = best_response(KUHN, profile, player)
        assert len(values) == 64
        assert value == pytest.approx(max(values))
        pure = {p: {a: float(a == actions[p]) for a in legal} for p, legal in sets}
        assert (1 - 2 * player) * expected_value(KUHN, profile | pure) == pytest.approx(value)


def test_a_best_response_in_leduc_is_that_of_a_linear_program():
    profile = random_profile(LEDUC, 0)
    for player in (0, 1):
        value = best_response(LEDUC, profile, player)[0]
        assert value == pytest.approx(response_by_program(LEDUC, profile, player), abs=1e-7)


def test_values_of_the_games_by_linear_programs():
    assert game_value(KUHN) == pytest.approx(-1 / 18, abs=1e-8)
    assert game_value(LEDUC) == pytest.approx(-0.0856064, abs=1e-6)


def test_cfr_plus():
    """An equilibrium's value lies between what best responses leave to each player."""
    profile = cfr_plus(KUHN, 500)
    assert nash_conv(KUHN, profile) < 1e-3
    assert expected_value(KUHN, profile) == pytest.approx(-1 / 18, abs=1e-3)
    profile = cfr_plus(LEDUC, 300)
    gap = nash_conv(LEDUC, profile)
    assert gap < 0.02
    assert expected_value(LEDUC, profile) == pytest.approx(-0.0856064, abs=1e-3)
    assert -best_response(LEDUC, profile, 1)[0] <= -0.0856064 <= best_response(LEDUC, profile, 0)[0]


def test_regret_matching():
    assert regret_matching([3.0, -2.0, 1.0]) == [0.75, 0.0, 0.25]
    assert regret_matching([0.0, -1.0]) == [0.5, 0.5]


def test_a_policy_becomes_a_profile():
    """Weights are renormalised over the legal actions; without any weight all are equally likely."""
    seen = []

    def weights(observations, actions):
        seen.extend(observations)
        return [[0.0, 0.0] if "J" in o.splitlines()[1] else [0.1, 0.3] for o in observations]

    profile = profile_of(KUHN, weights)
    assert seen == list(KUHN.infosets)
    for prompt, chances in profile.items():
        expected = [0.5, 0.5] if "card: J" in prompt else [0.25, 0.75]
        assert list(chances.values()) == pytest.approx(expected)
