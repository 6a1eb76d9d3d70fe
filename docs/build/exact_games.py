"""The computed tables of `docs/games.md`: sizes, values and NashConv of the exact games."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palaver.envs.games import kuhn, leduc, tiny_hanabi
from palaver.envs.games.cfr import cfr_plus
from palaver.envs.games.game import ExtensiveGame
from palaver.envs.games.lines import START, connect_four, tic_tac_toe
from palaver.envs.games.reference import ALPHA, ITERATIONS
from palaver.envs.games.search import exact_value
from palaver.envs.games.solve import (
    GameTree,
    Profile,
    best_team,
    expected_value,
    nash_conv,
    profile_of,
    uniform_weights,
)
from palaver.envs.matrix import games, solve
from palaver.markdown import code, markdown_table

DIGITS = "---:"


def parts(_kept_runs: Path) -> dict[str, str]:
    """Name -> Markdown of every table."""
    return {"poker": _poker(), "matrix": _matrix(), "teams": _teams(), "boards": _boards()}


def _poker() -> str:
    trees: list[tuple[str, ExtensiveGame[Any], str]] = [
        ("kuhn-v0", kuhn.GAME, f"α = {ALPHA:.3f}"),
        ("leduc-v0", leduc.GAME, f"{ITERATIONS} iterations of CFR+"),
    ]
    head = ("game", "deals", "information sets", "uniform: NashConv", "reference", "value for `p1`", "NashConv")
    rows = []
    for id, game, name in trees:
        tree = GameTree.of(game)
        profile = _reference(game, tree)
        uniform = profile_of(tree, uniform_weights)
        sizes = (str(len(tree.roots)), str(len(tree.infosets)))
        values = (f"{expected_value(tree, profile):.4f}", f"{abs(nash_conv(tree, profile)):.4f}")
        rows.append((code(id), *sizes, f"{nash_conv(tree, uniform):.4f}", name, *values))
    return markdown_table(head, rows, ("---", DIGITS, DIGITS, DIGITS, "---", DIGITS, DIGITS))


def _reference(game: ExtensiveGame[Any], tree: GameTree) -> Profile:
    return kuhn.equilibrium(ALPHA) if game is kuhn.GAME else cfr_plus(tree, ITERATIONS)


def _matrix() -> str:
    rows = []
    for name in ("rock-paper-scissors", "matching-pennies", "prisoners-dilemma", "chicken", "stag-hunt"):
        game = games.built_in(name)
        uniform = [[1 / size] * size for size in game.sizes]
        last = [[0.0] * (size - 1) + [1.0] for size in game.sizes]
        found = [
            f"{abs(solve.nash_conv(game, dict.fromkeys(game.states, chances))):.4f}" for chances in (uniform, last)
        ]
        rows.append((code(name), *found))
    return markdown_table(
        ("`matrix-v1`, one round", "uniform: NashConv", "last action: NashConv"), rows, ("---", DIGITS, DIGITS)
    )


def _teams() -> str:
    rows = []
    for name in tiny_hanabi.PAYOFFS:
        tree = GameTree.of(tiny_hanabi.TinyHanabi(name))
        uniform = expected_value(tree, profile_of(tree, uniform_weights))
        rows.append(
            (name, str(len(tree.roots)), str(len(tree.infosets)), f"{uniform:.3f}", f"{best_team(tree)[0]:.3f}")
        )
    head = ("`tiny-hanabi-v0`", "deals", "information sets", "uniform: return", "best team")
    return markdown_table(head, rows, ("---", DIGITS, DIGITS, DIGITS, DIGITS))


def _boards() -> str:
    boards = [
        ("tictactoe-v0", "3 × 3, 3 in a line", tic_tac_toe()),
        ("connect4-v0", "4 × 4, 3 in a line", connect_four(4, 4, 3)),
        ("connect4-v0", "4 × 4, 4 in a line", connect_four(4, 4, 4)),
    ]
    names = {1.0: "`p1` wins", 0.0: "draw", -1.0: "`p2` wins"}
    rows = [(code(id), form, names[exact_value(game, game.start(START))]) for id, form, game in boards]
    return markdown_table(("game", "board", "value"), rows)
