"""Reward of each side in a step, in named components.

Components, of what changed in the step, seen from one side:

* `damage`: hit points that the opponent's Pokémon lost (healed: negative), each as a part of its maximum;
* `health`: hit points that the own ones gained (lost: negative), in the same measure;
* `status`: conditions (burn, sleep, ...) that befell the opponent's less those that befell the own;
* `knockouts`: how many more of the opponent's have fainted less how many more of the own (revived ones count back);
* `victory`: 1 for a victory, -1 for a defeat, 0 for a tie or at the turn limit. A side that forfeits is defeated.

The shaped weights are those of `DefaultShapedReward` and `AggressiveShapedReward` of metamon (Grigsby et al.,
arXiv:2504.04395), here read from both teams as they are instead of from what is on the field, so that what one side
gains by damage and knock-outs the other loses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palaver.envs.pokemon.showdown.view import SIDES, Own, Side


@dataclass(frozen=True)
class Weights:
    """Weights of the components, per unit."""

    damage: float = 0.0
    health: float = 0.0
    status: float = 0.0
    knockouts: float = 0.0
    win: float = 1.0
    loss: float = 1.0

    @property
    def shaped(self) -> bool:
        """True if anything but the end counts."""
        return bool(self.damage or self.health or self.status or self.knockouts)


WEIGHTS: Mapping[str, Weights] = {
    "binary": Weights(),
    "shaped": Weights(damage=1.0, health=1.0, status=0.5, knockouts=1.0, win=100.0, loss=100.0),
    "aggressive": Weights(damage=1.0, health=1.0, knockouts=2.0, win=200.0, loss=0.0),
}

Standing = Sequence[tuple[float, bool, bool]]  # of each Pokémon: part of its hit points, has a status, has fainted


def standing(team: Sequence[Own]) -> Standing:
    """Inputs of the components; the order of a team never changes."""
    return [(mon["hp"] / mon["max"], bool(mon["status"]), mon["hp"] == 0) for mon in team]


def forfeited(now: Mapping[Side, Standing], gone: Sequence[Side]) -> Mapping[Side, Standing]:
    """Return the standings with every Pokémon of the sides in `gone` fainted.

    So a forfeit has no advantage.
    """
    return {side: [(0.0, ill, True) for _, ill, _ in mons] if side in gone else mons for side, mons in now.items()}


def score(
    weights: Weights,
    before: Mapping[Side, Standing],
    after: Mapping[Side, Standing],
    winner: str,
    gone: Sequence[Side] = (),
) -> dict[str, dict[str, float]]:
    """Side -> component -> reward.

    `winner` is empty during the battle and after a tie; `gone` forfeit it.
    """
    if not weights.shaped:
        return {side: {"victory": _victory(weights, side, winner, gone)} for side in SIDES}
    lost = {side: sum(b[0] - a[0] for b, a in zip(before[side], after[side], strict=True)) for side in SIDES}
    befell = {side: sum(a[1] and not b[1] for b, a in zip(before[side], after[side], strict=True)) for side in SIDES}
    fell = {side: sum(a[2] - b[2] for b, a in zip(before[side], after[side], strict=True)) for side in SIDES}
    rewards = {}
    for side, other in zip(SIDES, SIDES[::-1], strict=True):
        rewards[side] = {
            "damage": weights.damage * lost[other],
            "health": -weights.health * lost[side],
            "status": weights.status * (befell[other] - befell[side]),
            "knockouts": weights.knockouts * (fell[other] - fell[side]),
            "victory": _victory(weights, side, winner, gone),
        }
    return {side: {name: value + 0.0 for name, value in parts.items()} for side, parts in rewards.items()}


def _victory(weights: Weights, side: Side, winner: str, gone: Sequence[Side]) -> float:
    if not winner and side not in gone:
        return 0.0
    return weights.win if side == winner else -weights.loss + 0.0
