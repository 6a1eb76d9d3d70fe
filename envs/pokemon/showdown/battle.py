"""One battle, as Python holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from palaver.core import stable_seed
from palaver.envs.pokemon.showdown.errors import BattleLostError
from palaver.envs.pokemon.showdown.view import SIDES, Side, SideView

if TYPE_CHECKING:
    from palaver.envs.pokemon.showdown.pool import BattlePool
    from palaver.envs.pokemon.showdown.worker import BattleWorker


def dice(*keys: object) -> str:
    """A seed of the simulator's generator: four numbers of 16 bits, from any printable keys."""
    seed = stable_seed(*keys)
    return ",".join(str(seed >> shift & 0xFFFF) for shift in (48, 32, 16, 0))


@dataclass(frozen=True)
class Setup:
    """Initial conditions of a battle: the same setup and choices give the same log.

    Attributes:
        format: id of a format of single battles, such as `gen1ou`.
        seed: any; decides the dice, and the teams where the format draws them.
        teams: packed, of p1 and p2; None where the format draws its own.
    """

    format: str
    seed: int | str = 0
    teams: tuple[str, str] | None = None

    def arguments(self) -> list[Any]:
        """Arguments of the operation `start` after the battle's number."""
        sides = [
            {"team": self.teams[n] if self.teams else None, "seed": dice(self.seed, "team", side)}
            for n, side in enumerate(SIDES)
        ]
        return [self.format, dice(self.seed, "battle"), *sides]


class Battle:
    """A running battle. Made by a pool.

    Attributes:
        setup: what it started from.
        turn: of the simulator, from 1; 0 at team preview.
        legal: side -> label -> the simulator's choice of everything it may do now, by label.
        texts: side -> what it reads now, in battles that were started with texts.
        ended: whether it is over.
        winner: `p1`, `p2`, or empty: a tie, or not over.
        refused: side -> why the simulator refused its last choice; that side chooses again, and may have learned
            something by it (that it is trapped, say). The other side's choice is kept.
        lost: reason why the battle cannot continue; empty while it can.
    """

    def __init__(self, pool: BattlePool, worker: BattleWorker, id: int, setup: Setup) -> None:
        self.setup = setup
        self.turn = 0
        self.legal: dict[Side, dict[str, str]] = {}
        self.texts: dict[Side, str] = {}
        self.ended = False
        self.winner = ""
        self.refused: dict[str, str] = {}
        self.lost = ""
        self.pool = pool
        self.worker = worker
        self.id = id
        self._views: dict[Side, SideView] | None = None
        self._open = True
        worker.battles += 1

    def take(self, answer: Mapping[str, Any]) -> None:
        """Update the battle by an answer of the simulator."""
        self.turn = answer["turn"]
        self.legal = dict(zip(SIDES, answer["legal"], strict=True))
        self.texts = dict(zip(SIDES, answer.get("texts", ()), strict=False))
        self._views = dict(zip(SIDES, answer["views"], strict=True)) if "views" in answer else None
        self.ended = answer.get("ended", False)
        self.winner = answer.get("winner", "")
        self.refused = answer.get("refused", {})

    @property
    def views(self) -> Mapping[Side, SideView]:
        """Side -> its current view.

        In a battle with texts the simulator is queried the first time, then sends them.

        Raises:
            BattleLostError: the battle is lost, and they were not sent before.
        """
        if self._views is None:
            self._views = dict(zip(SIDES, self._request("views"), strict=True))
        return self._views

    def resemble(self, other: Battle) -> None:
        """Copy the state of another battle, which the simulator has copied under this number."""
        self.turn, self.ended, self.winner, self.refused = other.turn, other.ended, other.winner, other.refused
        self.legal, self.texts, self._views = other.legal, other.texts, other._views

    def choose(self, choices: Mapping[Side, str]) -> None:
        """Choose for one or both sides, in the simulator's words (a value of `legal`, or `default`).

        Raises:
            BattleLostError: the battle is lost.
        """
        self.pool.choose([(self, choices)])
        if self.lost:
            raise BattleLostError(self.lost)

    def fork(self, seed: int | str | None = None) -> Battle:
        """An independent copy in the same state, in the same process.

        Args:
            seed: of its dice from here on; None: it throws the dice that this battle is going to throw.

        Raises:
            BattleLostError: the battle is lost.
        """
        return self.pool.fork([(self, seed)])[0]

    def __deepcopy__(self, memo: dict[int, Any]) -> Battle:
        return self.fork()

    def reseed(self, seed: int | str) -> None:
        """Throw other dice from here on."""
        self._request("reseed", dice(seed))

    def finish(self, winner: Side | None) -> None:
        """End the battle with a winner, or None."""
        self.take(self._request("finish", winner))

    def save(self) -> str:
        """Everything of this battle as one string, which `BattlePool.load` reads in any process."""
        saved: str = self._request("save")
        return saved

    def log(self, whose: Literal["p1", "p2", "all", "input"] = "all") -> list[str]:
        """The whole protocol as one side saw it, or with all secrets.

        `input` are the choices with seeds and teams. Lines of the wall clock are left out, but for those of `input`
        equal battles have equal logs.
        """
        lines: list[str] = self._request("log", whose)
        return lines

    def _request(self, name: str, *arguments: Any) -> Any:
        return self.pool.request_battle(self, name, *arguments)

    def close(self) -> None:
        """Let the simulator forget this battle."""
        if self._open:
            self._open = False
            self.worker.battles -= 1
            self.worker.dropped.append(self.id)

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.close()
