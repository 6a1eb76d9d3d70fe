"""One game of TextArena, behind the few calls that the environment needs."""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from palaver.envs.textarena.guard import GameError, RandomState, ReachError, guarded

MOST_READ = 4096  # characters of a move: the cost of some games' patterns grows with its square
_SPACES = re.compile(r"(\s{16})\s+")  # and with the cube of a run of white space
_MODELS = "it asks for models over the network"
_INDENT = "\n    "  # of the further lines of a player's message, so that none can pose as another's


@dataclass(frozen=True)
class PlayedMove:
    """Result of a move.

    Attributes:
        done: whether the game is over.
        illegal: whether the game took it for an invalid move, or failed.
        error: of the game, in one line; it is then over.
    """

    done: bool
    illegal: bool
    error: str = ""


class Game:
    """A game with its random numbers. Copies by `copy.deepcopy` are independent.

    Args:
        id: in TextArena's registry, as `KuhnPoker-v0`. Of an id that ends with `-train` the texts are those of
            TextArena's short view, each of which stands alone; of others they are the new messages.

    Raises:
        GameError: it cannot be built.
        ReachError: it asks for the network.
    """

    def __init__(self, id: str) -> None:
        self.random = RandomState()
        make = library().make
        try:
            with guarded(self.random):
                self.env = make(id)
        except GameError as error:
            if "OPENROUTER_API_KEY" in str(error):
                raise ReachError(_MODELS) from error
            raise
        models = (library().envs.utils.jury.OpenRouterJury, library().Agent)
        if any(isinstance(part, models) for part in vars(_innermost(self.env)).values()):
            raise ReachError(_MODELS)
        if not id.endswith("-train"):
            self.env = _without_views(self.env)
        _silence()

    @property
    def state(self) -> Any:
        """The game's own state."""
        return self.env.state

    def reset(self, players: int, seed: int) -> None:
        """Begin a game.

        Raises:
            GameError: it cannot be begun, or not with so many players.
            ReachError: it asks for the network.
        """
        self.random = RandomState.seeded(seed)
        with guarded(self.random):
            self.env.reset(num_players=players, seed=seed)
        if self.state.num_players != players:
            raise GameError(f"its number of players is {self.state.num_players}")

    def observation(self) -> tuple[int, str]:
        """Return the player to move and the text for it.

        Raises:
            GameError: the game fails, or names no player.
            ReachError: it asks for the network.
        """
        with guarded(self.random):
            player, messages = self.env.get_observation()
            text = messages if isinstance(messages, str) else self._written(messages, player)
        if player not in range(self.state.num_players):
            raise GameError(f"the player to move is {player!r}")
        return int(player), text

    def remaining(self, player: int) -> str:
        """Return the messages that the player has not been shown."""
        return self._written(self.state.observations.get(player, ()), player)

    def play(self, text: str) -> PlayedMove:
        """Make the move of the player to move.

        Raises:
            ReachError: the game asks for the network, a program or a file to write.
        """
        state, rejected = self.state, []
        reject = state.set_invalid_move

        def counted(*args: Any, **kwargs: Any) -> Any:
            rejected.append(True)
            lost = reject(*args, **kwargs)
            if self._nobody():
                raise GameError  # TextArena would look for the next player without end
            return lost

        state.set_invalid_move = counted
        try:
            with guarded(self.random):
                done, _ = self.env.step(_SPACES.sub(r"\1", text[-MOST_READ:]))
        except ReachError:
            raise
        except GameError as error:
            return PlayedMove(True, True, "" if self._nobody() else str(error))
        finally:
            del state.set_invalid_move
        return PlayedMove(bool(done), bool(rejected))

    def _nobody(self) -> bool:
        """Return whether every player is eliminated; none of them wins then."""
        return set(range(self.state.num_players)) <= set(getattr(self.state, "elimination_order", ()))

    def rewards(self) -> list[float]:
        """Return the players' rewards; 0 where the game gives none."""
        given: Mapping[int, Any] = self.state.rewards or {}
        return [_number(given.get(player)) for player in range(self.state.num_players)]

    def information(self, player: int, name: str) -> str:
        """Return a player's `role`, or the `reason` of its reward; "" where the game gives none."""
        value = self.state.game_info.get(player, {}).get(name)
        return "" if value is None else str(value)

    def constant_sum(self) -> bool:
        """Return whether the rewards of both players cancel out, whatever happens.

        They do where TextArena's state of two players alone gives rewards: 1 and -1, or 0 to both.
        """
        functions = inspect.getmembers(type(_innermost(self.env)), inspect.isfunction)
        own = any("rewards" in function.__code__.co_names for _, function in functions)
        return type(self.state) is library().TwoPlayerState and not own

    def _written(self, messages: Any, reader: int) -> str:
        """The messages for a player, without its own."""
        names = self.state.role_mapping
        return "\n".join(
            f"[GAME] {text}"
            if sender == library().GAME_ID
            else f"[{names.get(sender, f'Player {sender}')}] {_INDENT.join(str(text).splitlines())}"
            for sender, text, _ in messages
            if sender != reader
        )


@functools.cache
def library() -> Any:
    """Return TextArena, which is imported at its first use."""
    return importlib.import_module("textarena")


def registered() -> dict[str, tuple[str, ...]]:
    """Return the first id of each game -> all of its ids, in the order of TextArena's registry."""
    by_game: dict[Any, list[str]] = {}
    for id, spec in library().envs.registration.ENV_REGISTRY.items():
        by_game.setdefault(spec.entry_point, []).append(id)
    return {ids[0]: tuple(ids) for ids in by_game.values()}


def _innermost(env: Any) -> Any:
    return _innermost(env.env) if isinstance(env, library().Wrapper) else env


def _without_views(env: Any) -> Any:
    """The same without wrappers of its observations, which repeat the whole game each time."""
    if isinstance(env, library().ObservationWrapper):
        return _without_views(env.env)
    if isinstance(env, library().Wrapper):
        env.env = _without_views(env.env)
    return env


def _silence() -> None:
    """Keep games from printing."""
    for name, module in list(sys.modules.items()):
        if name.startswith("textarena.envs."):
            vars(module).setdefault("print", _nothing)


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    pass


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0
