"""CFR+: an equilibrium of a small game by self-play on its whole tree.

O. Tammelin, Solving large imperfect information games using CFR+ (2014): regret matching with regrets cut at 0, players
updated in turns, and an average policy in which iteration t weighs t.
"""

from __future__ import annotations

from palaver.envs.games.solve import GameTree, Node


def regret_matching(regrets: list[float]) -> list[float]:
    """Probabilities in proportion to the positive regrets; equal ones where there are none.

    >>> regret_matching([3.0, 0.0, 1.0]), regret_matching([0.0, -1.0])
    ([0.75, 0.0, 0.25], [0.5, 0.5])
    """
    positive = [max(0.0, regret) for regret in regrets]
    total = sum(positive)
    return [regret / total for regret in positive] if total > 0 else [1 / len(regrets)] * len(regrets)


def cfr_plus(tree: GameTree, iterations: int) -> dict[str, dict[str, float]]:
    """Average profile after so many iterations."""
    regrets = {prompt: [0.0] * len(actions) for prompt, (_, actions) in tree.infosets.items()}
    sums = {prompt: [0.0] * len(actions) for prompt, (_, actions) in tree.infosets.items()}
    for iteration in range(1, iterations + 1):
        for player in (0, 1):
            _update(tree, player, iteration, regrets, sums)
    profile = {}
    for prompt, (_, actions) in tree.infosets.items():
        total = sum(sums[prompt])
        shares = [share / total for share in sums[prompt]] if total > 0 else [1 / len(actions)] * len(actions)
        profile[prompt] = dict(zip(actions, shares, strict=True))
    return profile


def _update(
    tree: GameTree, player: int, weight: int, regrets: dict[str, list[float]], sums: dict[str, list[float]]
) -> None:
    """One player's regrets and average against the present policy of the other."""
    sign = 1 - 2 * player
    policy = {prompt: regret_matching(values) for prompt, values in regrets.items()}
    gains = {prompt: [0.0] * len(values) for prompt, values in regrets.items()}

    def visit(node: Node, by_player: float, by_others: float) -> float:
        """Return the value of a node for the player, given the reach of both sides."""
        if node.player is None:
            return sign * node.payoff
        chances = policy[node.prompt]
        if node.player != player:
            return sum(
                chance * visit(child, by_player, by_others * chance)
                for chance, child in zip(chances, node.children, strict=True)
                if chance
            )
        values = [
            visit(child, by_player * chance, by_others) for chance, child in zip(chances, node.children, strict=True)
        ]
        mean = sum(chance * value for chance, value in zip(chances, values, strict=True))
        for n, value in enumerate(values):
            gains[node.prompt][n] += by_others * (value - mean)
        return mean

    for root, chance in tree.roots:
        visit(root, 1.0, chance)
    for prompt, (owner, _) in tree.infosets.items():
        if owner == player:
            regrets[prompt] = [max(0.0, old + gain) for old, gain in zip(regrets[prompt], gains[prompt], strict=True)]
    _average(tree, player, weight, policy, sums)


def _average(
    tree: GameTree, player: int, weight: int, policy: dict[str, list[float]], sums: dict[str, list[float]]
) -> None:
    """Add the player's policy to its average, weighted by its own reach probability."""
    seen: set[str] = set()

    def visit(node: Node, reach: float) -> None:
        if node.player is None:
            return
        chances = policy[node.prompt]
        if node.player == player and node.prompt not in seen:  # all states of a set have the same own reach
            seen.add(node.prompt)
            for n, chance in enumerate(chances):
                sums[node.prompt][n] += weight * reach * chance
        for chance, child in zip(chances, node.children, strict=True):
            visit(child, reach * chance if node.player == player else reach)

    for root, _ in tree.roots:
        visit(root, 1.0)
