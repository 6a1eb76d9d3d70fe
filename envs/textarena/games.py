"""Games of TextArena that can be played here: each is tried at its first use in a process."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaver.core import ConfigError, Conversation, did_you_mean, need, stable_seed
from palaver.envs.base.scripted import observed
from palaver.registry import Spec

if TYPE_CHECKING:
    from palaver.envs.textarena.game import Game

PREFIX = "textarena/"
MOST_PLAYERS = 16
TURNS = 200  # of an episode; most games have a lower limit of their own
_NUMBERS = (*range(2, 9), 1)  # of players: games of one refuse two, but some of two do not refuse one
_TRIAL = 30  # moves
_BRACKETS = re.compile(r"\[[^\[\]\n]{1,40}\]")


@dataclass(frozen=True)
class TriedGame:
    """Result of a trial of a game.

    Attributes:
        id: in TextArena's registry.
        players: with which it was played; 0 where it cannot be.
        constant_sum: whether the rewards of two players cancel out.
        refusal: why it cannot be played here, in one line; "" where it can.
    """

    id: str
    players: int = 0
    constant_sum: bool = False
    refusal: str = ""


def spec(id: str) -> Spec:
    """Return the spec of `textarena/NAME`, for the registry.

    Raises:
        ConfigError: TextArena is not installed, has no such game, or the game cannot be played here.
    """
    name = id.removeprefix(PREFIX)
    tried = playable(name)
    from palaver.envs.textarena.env import TextArenaEnv

    return Spec(
        id=f"{PREFIX}{name}",
        entry_point=functools.partial(TextArenaEnv, name),
        summary=f"The game {name} of TextArena.",
        agents=agents(tried.players),
        turns=TURNS,
        scripted={
            "brackets": "palaver.envs.textarena.games:brackets",
            "lazy": "palaver.envs.base.scripted:lazy",
        },
        competitive=tried.players > 1,
    )


def playable(id: str, players: int | None = None) -> TriedGame:
    """Try a game; None is the smallest number of players, from two.

    Raises:
        ConfigError: TextArena is not installed, has no such game, or the game cannot be played here or so.
    """
    known = [name for names in games().values() for name in names]
    if id not in known:
        raise ConfigError(f"TextArena has no game {id!r}.{did_you_mean(id, known)[:200]}")
    tried = _tried(id, None)
    if not tried.refusal and players is not None:
        tried = _tried(id, players)
    if tried.refusal:
        so = "" if players is None else f" with players={players}"
        raise ConfigError(f"{PREFIX}{id} cannot be played here{so}: {tried.refusal}")
    return tried


def games() -> dict[str, tuple[str, ...]]:
    """Return the first id of each game in TextArena's registry -> all of its ids.

    Raises:
        ConfigError: TextArena is not installed.
    """
    need("textarena/NAME", "textarena", "textarena")
    from palaver.envs.textarena.game import registered

    return registered()


def survey() -> Iterator[TriedGame]:
    """Try each game of TextArena by its first id, a minute for all of them.

    Raises:
        ConfigError: TextArena is not installed.
    """
    for id in games():
        yield _tried(id, None)


def agents(players: int) -> tuple[str, ...]:
    """Names of the agents, in TextArena's order of players."""
    return tuple(f"player{number}" for number in range(players))


def brackets(conversation: Conversation, seed: int) -> str:
    """A text in brackets that the agent has read, by chance: rules give examples of moves so."""
    return _in_brackets("\n".join(observed(conversation)), seed)


def _in_brackets(text: str, seed: int) -> str:
    moves: list[str] = list(dict.fromkeys(_BRACKETS.findall(text)))
    return random.Random(stable_seed("brackets", seed, text)).choice(moves or ["[0]"])


@functools.cache
def _tried(id: str, players: int | None) -> TriedGame:
    from palaver.envs.textarena.game import Game
    from palaver.envs.textarena.guard import GameError

    refusal = ""
    for number in _NUMBERS if players is None else (players,):
        try:
            game = Game(id)
        except GameError as error:
            return TriedGame(id, refusal=str(error))
        try:
            game.reset(number, seed=0)
            return TriedGame(id, number, game.constant_sum(), _failure(game))
        except GameError as error:
            refusal = str(error)
    return TriedGame(id, refusal=refusal)


def _failure(game: Game) -> str:
    """Play some moves; return the error of the first that fails, "" if none does.

    Raises:
        GameError: the game does not name the player to move.
    """
    read = ""
    for turn in range(_TRIAL):
        read += game.observation()[1]
        move = game.play("yes" if turn % 4 == 3 else _in_brackets(read, turn))
        if move.error or move.done:
            return move.error
    return ""
