"""Exact values of policies in small games, by enumeration of the game tree.

A *profile* is what both players do: observation -> action -> probability. An observation is the name of an information
set, see `ExtensiveGame.prompt`, so the profile of a language model is its answers to these prompts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from palaver.envs.base.exact import Chances, ExactGame
from palaver.envs.games.game import PLAYERS, CardGame, ExtensiveGame
from palaver.envs.matrix.rules import action_index

Profile = Mapping[str, Mapping[str, float]]
Weights = Callable[[Sequence[str], Sequence[tuple[str, ...]]], Sequence[Sequence[float]]]


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One state of the tree.

    Attributes:
        player: who acts, 0 or 1; None where the game is over.
        prompt: observation of that player.
        actions: legal actions.
        children: the node after each action.
        payoff: of the first player, where the game is over.
        held: what the other player holds and the player to act does not see; "" where nothing is hidden.
    """

    player: int | None
    prompt: str = ""
    actions: tuple[str, ...] = ()
    children: tuple[Node, ...] = ()
    payoff: float = 0.0
    held: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class GameTree:
    """All states of a game.

    Attributes:
        roots: first node and probability of each deal.
        infosets: observation -> the player who acts, and its legal actions.
        signs: of the game, see there.
    """

    roots: tuple[tuple[Node, float], ...]
    infosets: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    signs: tuple[int, int] = (1, -1)

    @classmethod
    def of(cls, game: ExtensiveGame[Any]) -> GameTree:
        """Enumerate a game."""
        infosets: dict[str, tuple[int, tuple[str, ...]]] = {}

        def grow(state: Any) -> Node:
            player = game.mover(state)
            if player is None:
                return Node(None, payoff=game.payoff(state))
            prompt, actions = game.prompt(state, player), game.actions(state)
            infosets[prompt] = (player, actions)
            held = game.card(state, 1 - player) if isinstance(game, CardGame) else ""
            return Node(player, prompt, actions, tuple(grow(game.after(state, act)) for act in actions), held=held)

        roots = tuple((grow(game.start(deal)), chance) for deal, chance in game.deals().items())
        return cls(roots, infosets, game.signs)


def uniform_weights(observations: Sequence[str], actions: Sequence[tuple[str, ...]]) -> list[list[float]]:
    """Equal weights of all legal actions."""
    del observations
    return [[1.0] * len(legal) for legal in actions]


def profile_of(tree: GameTree, weights: Weights) -> dict[str, dict[str, float]]:
    """The profile of a policy, its weights renormalised over the legal actions.

    Args:
        tree: of the game.
        weights: called once with all observations, and the legal actions of each; returns for each observation a weight
            of 0 or more for each action, as the probability that a language model writes it. Where all are 0 the
            actions are equally likely, as those that the environment draws.
    """
    observations, actions = list(tree.infosets), [legal for _, legal in tree.infosets.values()]
    profile = {}
    for observation, legal, given in zip(observations, actions, weights(observations, actions), strict=True):
        total = sum(given)
        shares = [weight / total for weight in given] if total > 0 else [1 / len(legal)] * len(legal)
        profile[observation] = dict(zip(legal, shares, strict=True))
    return profile


def named_profile(
    prompts: Sequence[str], actions: Sequence[Sequence[str]], chances: Chances
) -> dict[str, dict[str, float]]:
    """The profile of probabilities that are listed by information set and action."""
    rows = zip(prompts, actions, chances, strict=True)
    return {prompt: dict(zip(legal, row, strict=True)) for prompt, legal, row in rows}


def expected_value(tree: GameTree, profile: Profile) -> float:
    """Expected payoff of the first player."""

    def value(node: Node) -> float:
        if node.player is None:
            return node.payoff
        chances = profile[node.prompt]
        return sum(
            chances[a] * value(child) for a, child in zip(node.actions, node.children, strict=True) if chances[a]
        )

    return sum(chance * value(root) for root, chance in tree.roots)


def best_response(tree: GameTree, profile: Profile, player: int) -> tuple[float, dict[str, str]]:
    """Value and actions (observation -> action) of a best response to the other's profile.

    In each information set the action is best for the sum over its states, weighted by the probability that chance and
    the other player lead there. Players remember what they saw, so the sets form a tree and one pass is enough.
    """
    sign = tree.signs[player]
    states: dict[str, list[tuple[Node, float]]] = {}

    def collect(node: Node, reach: float) -> None:
        if node.player == player:
            states.setdefault(node.prompt, []).append((node, reach))
        for action, child in zip(node.actions, node.children, strict=True):
            collect(child, reach if node.player == player else reach * profile[node.prompt][action])

    best: dict[str, int] = {}

    def value(node: Node) -> float:
        if node.player is None:
            return sign * node.payoff
        if node.player == player:
            return value(node.children[choice(node.prompt)])
        chances = profile[node.prompt]
        return sum(
            chances[a] * value(child) for a, child in zip(node.actions, node.children, strict=True) if chances[a]
        )

    def choice(prompt: str) -> int:
        if prompt not in best:
            members = states[prompt]
            totals = [
                sum(reach * value(node.children[n]) for node, reach in members if reach)
                for n in range(len(members[0][0].actions))
            ]
            best[prompt] = totals.index(max(totals))
        return best[prompt]

    for root, chance in tree.roots:
        collect(root, chance)
    total = sum(chance * value(root) for root, chance in tree.roots)
    return total, {prompt: tree.infosets[prompt][1][n] for prompt, n in best.items()}


def mixture(tree: GameTree, profiles: Sequence[Profile]) -> dict[str, dict[str, float]]:
    """Profile of players who each draw one of several profiles at the start of a game.

    With perfect recall the probability of an action is the mean over the profiles weighted by the player's own
    probability of reaching the information set (H. W. Kuhn, Extensive games and the problem of information, 1953).
    Where no profile reaches it, all weigh alike.
    """
    reach: dict[str, list[float]] = {}

    def visit(node: Node, own: tuple[list[float], list[float]]) -> None:
        if node.player is None:
            return
        reach.setdefault(node.prompt, own[node.player])
        for action, child in zip(node.actions, node.children, strict=True):
            chances = [profile[node.prompt][action] for profile in profiles]
            later = [weight * chance for weight, chance in zip(own[node.player], chances, strict=True)]
            visit(child, (later, own[1]) if node.player == 0 else (own[0], later))

    for root, _ in tree.roots:
        visit(root, ([1.0] * len(profiles), [1.0] * len(profiles)))
    mixed = {}
    for prompt, weights in reach.items():
        weights = weights if sum(weights) > 0 else [1.0] * len(profiles)
        mixed[prompt] = {
            action: sum(weight * profile[prompt][action] for weight, profile in zip(weights, profiles, strict=True))
            / sum(weights)
            for action in tree.infosets[prompt][1]
        }
    return mixed


def beliefs(tree: GameTree, profile: Profile) -> dict[str, tuple[float, dict[str, float]]]:
    """Probability of each information set, and the posterior of the other's cards there.

    The posterior needs the other's policy alone: the player's own actions are the same in all states of a set. Where
    the other never leads to a set, chance alone weighs the states.

    Args:
        tree: of a game of cards.
        profile: of both players.
    """
    reach: dict[str, float] = dict.fromkeys(tree.infosets, 0.0)
    weights: dict[str, dict[str, list[float]]] = {prompt: {} for prompt in tree.infosets}

    def visit(node: Node, chance: float, own: tuple[float, float]) -> None:
        if node.player is None:
            return
        reach[node.prompt] += chance * own[0] * own[1]
        weight = weights[node.prompt].setdefault(node.held, [0.0, 0.0])
        weight[0] += chance * own[1 - node.player]
        weight[1] += chance
        for action, child in zip(node.actions, node.children, strict=True):
            p = profile[node.prompt][action]
            visit(child, chance, (own[0] * p, own[1]) if node.player == 0 else (own[0], own[1] * p))

    for root, chance in tree.roots:
        visit(root, chance, (1.0, 1.0))
    found = {}
    for prompt, by_card in weights.items():
        place = 0 if sum(weight[0] for weight in by_card.values()) > 0 else 1
        total = sum(weight[place] for weight in by_card.values())
        found[prompt] = reach[prompt], {card: weight[place] / total for card, weight in by_card.items()}
    return found


def total_variation(one: Mapping[str, float], second: Mapping[str, float]) -> float:
    """Half the sum of the differences of two distributions.

    >>> total_variation({"J": 0.5, "Q": 0.5}, {"J": 0.25, "K": 0.75})
    0.75
    """
    return sum(abs(one.get(key, 0.0) - second.get(key, 0.0)) for key in {**one, **second}) / 2


def exact_game(game: ExtensiveGame[Any]) -> ExactGame:
    """Information sets of a game, with NashConv and mixtures over its whole tree."""
    tree = GameTree.of(game)
    prompts = tuple(tree.infosets)
    actions = tuple(legal for _, legal in tree.infosets.values())

    def profile(chances: Chances) -> dict[str, dict[str, float]]:
        return named_profile(prompts, actions, chances)

    def mixed(several: Sequence[Chances]) -> Chances:
        found = mixture(tree, [profile(chances) for chances in several])
        return [[found[prompt][action] for action in legal] for prompt, legal in zip(prompts, actions, strict=True)]

    agents = tuple(PLAYERS[player] for player, _ in tree.infosets.values())
    return ExactGame(agents, prompts, actions, action_index, lambda chances: nash_conv(tree, profile(chances)), mixed)


def nash_conv(tree: GameTree, profile: Profile) -> float:
    """NashConv: the sum over players of what a best response gains; 0 in equilibrium.

    In a zero-sum game the payoffs cancel, so it is the sum of both best responses' values.
    """
    best = sum(best_response(tree, profile, player)[0] for player in (0, 1))
    return best - sum(tree.signs) * expected_value(tree, profile) if sum(tree.signs) else best


def best_team(tree: GameTree) -> tuple[float, dict[str, dict[str, float]]]:
    """Value and profile of the best team in a game whose players win the same.

    Some best team draws nothing, so the second player's best responses to all pure policies of the first are enough.
    Where that team never comes all actions are equally likely.

    Args:
        tree: of a game in which the first player has few pure policies.
    """
    prompts = [prompt for prompt, (player, _) in tree.infosets.items() if player == 0]
    uniform = profile_of(tree, uniform_weights)

    def pure(answers: Mapping[str, str]) -> dict[str, dict[str, float]]:
        return {
            prompt: {action: float(action == answers[prompt]) for action in tree.infosets[prompt][1]}
            for prompt in answers
        }

    found = []
    for actions in itertools.product(*(tree.infosets[prompt][1] for prompt in prompts)):
        first = pure(dict(zip(prompts, actions, strict=True)))
        value, answers = best_response(tree, uniform | first, 1)
        found.append((value, uniform | first | pure(answers)))
    return max(found, key=lambda pair: pair[0])
