"""Players that look ahead in copies of the battle, with other dice than the battle's.

`oracle@1` cheats: a copy holds the opponent's hidden Pokémon, moves and items, and the opponent's reply is taken from
the opponent's own view. It shows the value of full information for one turn, and is a coach, not a player to compare
with. `search@1` does not: it looks ahead in determinised worlds, the battle with all hidden information resampled.

Of a world the own side is exact. Of the opponent what the side saw is kept (Pokémon, hit points, conditions, boosts,
moves with their uses, items, abilities, field); the rest is drawn from the movesets that the simulator's package has
for the roles of the random battles, unseen Pokémon from the format's tier. Counters that no player is shown (sleep,
confusion, Wrap) are resampled, a choice that the opponent has already made is forgotten, and the dice are others. Two
battles that look the same to the side have the same worlds, to the last number: a test compares them.

It approximates: a screen is presumed as short as is still possible, a Substitute new, and no item is ruled out by what
it did not do. The work is done in the simulator's process, in `showdown/imagine.js`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from palaver.core import PolicyError, stable_seed
from palaver.envs.base.env import TextEnv
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.players.expert import comes_in, duel, gym_leader_1, veteran_1, veteran_worth
from palaver.envs.pokemon.showdown import Battle, Side, SideView, dice
from palaver.envs.pokemon.showdown.dex import Dex, active, opponent

Choose = Callable[[str, Mapping[str, Any]], str]  # (observation, info) -> action
DICE = 2  # throws for each pair of choices; the same for all own actions
ALIVE = 0.5  # worth of a Pokémon that has not fainted, in addition to its part of hit points
STATUS = 0.15  # what a condition takes from that
POSITION = 0.3  # weight of the duel on the field
REPLIES = (veteran_1, gym_leader_1)
WORLDS = 8  # that search@1 draws for a decision
CANDIDATES = 5  # actions that it tries, by what veteran@1 thinks of them
TURNS = 1  # that it looks ahead
PRIOR = 0.5  # weight of the values of veteran@1, in addition to the mean prospect
RACE = ((1, 5), (1, 3))  # worlds, and how many actions are tried in them, where the search gives advice
UNSURE = 0.1  # difference of prospects, in Pokémon, of which it makes little


def oracle_1(env: TextEnv, agent: str, seed: int) -> Choose:
    """Begin a game as the oracle.

    Every legal action is played in copies of the battle against the replies of `veteran@1` and `gym_leader@1` on the
    other side, with `DICE` throws each, and the best mean of `standing` after it is chosen.

    Raises:
        PolicyError: another environment.
    """
    return _begin("oracle@1", best_action, env, agent, seed)


def _begin(
    name: str, best: Callable[[Battle, Dex, Side, random.Random], str], env: TextEnv, agent: str, seed: int
) -> Choose:
    if not isinstance(env, PokemonEnv):
        raise PolicyError(f"{name} plays pokemon-v1 only")
    draw, side = random.Random(seed), cast("Side", agent)

    def choose(_observation: str, _info: Mapping[str, Any]) -> str:
        assert env.battle is not None
        legal = env.view(side)["legal"]
        return legal[0][0] if len(legal) == 1 else best(env.battle, env.dex, side, draw)

    return choose


def best_action(battle: Battle, dex: Dex, side: Side, draw: random.Random) -> str:
    """The action with the best mean position after it."""
    other: Side = "p2" if side == "p1" else "p1"
    actions = dict(battle.views[side]["legal"])
    replies = [reply for reply, _ in _replies(battle, dex, side, draw)]
    seeds = [stable_seed("oracle", draw.random(), n) for n in range(DICE)]
    tried = [(action, reply, seed) for action in actions for reply in replies for seed in seeds]
    copies = battle.pool.fork([(battle, seed) for _, _, seed in tried])
    battle.pool.choose(
        [
            (copy, {side: actions[action], **({} if reply is None else {other: reply})})
            for copy, (action, reply, _) in zip(copies, tried, strict=True)
        ]
    )
    worth = dict.fromkeys(actions, 0.0)
    for copy, (action, _, _) in zip(copies, tried, strict=True):
        worth[action] += standing(copy, dex, side)
        copy.close()
    best_worth = max(worth.values())
    return draw.choice([action for action in actions if worth[action] >= best_worth - 1e-9])


def standing(battle: Battle, dex: Dex, side: Side) -> float:
    """Value of a side's position; 100 if it has won.

    It depends on hit points, Pokémon alive, conditions, and the duel.
    """
    if battle.lost:
        return 0.0
    if battle.ended:
        return 100.0 if battle.winner == side else -100.0 if battle.winner else 0.0
    other: Side = "p2" if side == "p1" else "p1"
    mine = battle.views[side]
    score = _team(mine) - _team(battle.views[other])
    me, foe = active(mine["me"]), opponent(mine)
    if me and foe and me["hp"] and foe["hp"]:
        score += POSITION * duel(dex, me, foe, mine)
    return score


def _team(view: SideView) -> float:
    return sum(mon["hp"] / mon["max"] + ALIVE - STATUS * bool(mon["status"]) for mon in view["me"]["team"] if mon["hp"])


# --- search@1 ------------------------------------------------------------------------------------------


def search_1(env: TextEnv, agent: str, seed: int) -> Choose:
    """Begin a game as the search.

    It draws `WORLDS` determinised worlds. In each, the opponent answers as `veteran@1` and as
    `gym_leader@1` would there, and the `CANDIDATES` actions that `veteran@1` thinks best of are played against both,
    all with the same dice. `TURNS` turns later `stands` of `showdown/rollout.js` evaluates the side's position: Pokémon
    alive, hit points, conditions, the race on the field; a Pokémon that fainted is replaced first. An action is worth
    the mean of that, plus `PRIOR` times its value by `veteran@1`. A move for which `veteran@1` terastallizes is tried
    with that; at team preview it leads as `veteran@1`.

    Raises:
        PolicyError: another environment.
    """
    return _begin("search@1", searched, env, agent, seed)


def searched(battle: Battle, dex: Dex, side: Side, draw: random.Random) -> str:
    """The action with the best mean prospect in worlds that the side holds for possible."""
    worth = prospects(battle, dex, side, draw)
    return max(worth, key=worth.__getitem__)


def advised(battle: Battle, dex: Dex, side: Side, draw: random.Random) -> dict[str, float]:
    """Shares of the actions, which sum to 1: a softmax of the prospects over `UNSURE`.

    It costs a quarter of `searched`, for it draws two worlds and drops what promises least after the first, see `RACE`:
    many rough opinions teach more than a few thorough ones. Actions that were not tried, and those with a share below
    1 %, are missing.
    """
    worth = prospects(battle, dex, side, draw, RACE)
    best_worth = max(worth.values())
    shares = {action: math.exp((value - best_worth) / UNSURE) for action, value in worth.items()}
    shares = {action: share for action, share in shares.items() if share >= 0.01}
    total = sum(shares.values())
    return {action: share / total for action, share in shares.items()}


def prospects(
    battle: Battle, dex: Dex, side: Side, draw: random.Random, race: Sequence[tuple[int, int]] = ((WORLDS, CANDIDATES),)
) -> dict[str, float]:
    """Prospects of each action that is tried, in Pokémon; of equal ones the first is first.

    Args:
        battle: is not changed.
        dex: of its generation.
        side: that is to act.
        draw: of the worlds.
        race: rounds of so many worlds, in which so many of the actions take part that have promised most until then.
    """
    view = battle.views[side]
    if view["request"] == "team":
        return {comes_in(view, dex, draw): 0.0}
    prior, favourite = veteran_worth(view, dex), veteran_1(view, dex, draw)
    if prior and favourite not in prior:  # with a gimmick, of which the move alone has a worth
        prior[favourite] = prior.pop(" ".join(favourite.split()[:2]))
    left = [label for label, _ in view["legal"] if label in prior or not prior]
    priors = {label: PRIOR * prior.get(label, 0.0) for label in left}
    seen: dict[str, list[float]] = {label: [] for label in left}
    worth = dict(priors)
    for count, size in race:
        runners = sorted(worth, key=lambda label: -worth[label])[: size if prior else None]
        for world in worlds(battle, side, [draw.randrange(2**53) for _ in range(count)]):
            for label, prospect in _tried(world, dex, side, draw, runners).items():
                seen[label].append(prospect)
            world.close()
        worth = {label: priors[label] + sum(seen[label]) / len(seen[label]) for label in left if seen[label]}
    return worth


def _tried(world: Battle, dex: Dex, side: Side, draw: random.Random, actions: Sequence[str]) -> dict[str, float]:
    """Mean position value after each action in one world, over the replies.

    All use one seed.
    """
    words, seed = dict(world.views[side]["legal"]), draw.randrange(2**53)
    replies = _replies(world, dex, side, draw)
    tried = [(action, reply, weight) for action in actions for reply, weight in replies]
    pairs = [(words[action], reply) if side == "p1" else (reply, words[action]) for action, reply, _ in tried]
    totals = dict.fromkeys(actions, 0.0)
    values = foresee(world, side, TURNS, [(one, two, seed) for one, two in pairs])
    for (action, _, weight), prospect in zip(tried, values, strict=True):
        totals[action] += weight * prospect
    return totals


def _replies(world: Battle, dex: Dex, side: Side, draw: random.Random) -> list[tuple[str | None, float]]:
    """Replies of the opponent in a world, in the simulator's words, with their probabilities."""
    theirs = world.views["p2" if side == "p1" else "p1"]
    if not theirs["legal"]:
        return [(None, 1.0)]
    answers = [dict(theirs["legal"])[rule(theirs, dex, draw)] for rule in REPLIES]
    return [(answer, answers.count(answer) / len(answers)) for answer in sorted(set(answers))]


def worlds(battle: Battle, side: Side, seeds: Iterable[int]) -> list[Battle]:
    """A world for each seed: battles of their own, to be closed.

    Raises:
        BattleLostError: the battle is lost.
    """
    return battle.pool.derive([(battle, "imagine", (side, dice("world", seed))) for seed in seeds])


def foresee(world: Battle, side: Side, turns: int, tried: Sequence[tuple[str | None, str | None, int]]) -> list[float]:
    """Evaluate a side `turns` turns after each of several joint actions, in Pokémon.

    Each is `(words of p1, words of p2, seed)`. After the first both sides use what promises most at once, see
    `showdown/rollout.js`. `world` is not changed.

    Raises:
        BattleLostError: the battle is lost.
    """
    tries = ((dice("foresee", seed), one, two) for one, two, seed in tried)
    values: list[float] = world.pool.request_battle(world, "foresee", side, turns, *tries)
    return values
