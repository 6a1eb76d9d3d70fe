"""Worker processes, and battles dealt out to them."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from palaver.core import ConfigError
from palaver.envs.pokemon.showdown import install
from palaver.envs.pokemon.showdown.battle import Battle, Setup, dice
from palaver.envs.pokemon.showdown.errors import BattleLostError, ShowdownError
from palaver.envs.pokemon.showdown.view import SIDES, Side
from palaver.envs.pokemon.showdown.worker import BattleWorker, Operation, Ticket
from palaver.utils.machine import usable_cores
from palaver.utils.workers import Closing, ProcessLocal


class BattlePool(Closing):
    """Worker processes that host any number of battles each.

    Threads may share one pool, not one battle. A process that crashed, hung or was killed takes its battles with it:
    they are `lost`, and the next battle starts in a new process.

    Args:
        workers: processes at most; None: as many as there are cores. Each starts when it is needed.
        patience: seconds that a process may take to answer before it is killed.
        plain: without our short cut for events; for tests of its effects only.

    Raises:
        ConfigError: a number of workers below 1.
        ShowdownError: no Node.js, or no simulator; the message says what to do.
    """

    def __init__(self, workers: int | None = None, *, patience: float = 60.0, plain: bool = False) -> None:
        self._max_workers = usable_cores() if workers is None else workers
        if self._max_workers < 1:
            raise ConfigError(f"a pool needs at least 1 worker, got {workers}")
        self._node, self._package = install.find_node().path, install.package()
        self._patience, self._plain = patience, plain
        self._workers: list[BattleWorker] = []
        self._placing = threading.Lock()
        self._numbers = itertools.count(1)
        self._owner = os.getpid()

    # --- battles -----------------------------------------------------------------------------------

    def start(self, setups: Sequence[Setup], texts: bool = False) -> list[Battle]:
        """A battle for each setup.

        Args:
            setups: what they start from.
            texts: whether `Battle.texts` are wanted.

        Raises:
            ShowdownError: no such format, or a team that cannot be read.
            BattleLostError: its process was lost, and the one that was tried instead too.
        """
        battles = [Battle(self, self._pick_worker(), next(self._numbers), setup) for setup in setups]
        answers = self._request([(b.worker, ["start", b.id, texts, *b.setup.arguments()]) for b in battles])
        for battle, answer in zip(battles, answers, strict=True):
            if isinstance(answer, BattleLostError):  # nothing was played yet
                battle.worker = self._pick_worker()
                battle.worker.battles += 1
                [answer] = self._request([(battle.worker, ["start", battle.id, texts, *battle.setup.arguments()])])
            battle.take(_checked(answer))
        return battles

    def choose(self, moves: Sequence[tuple[Battle, Mapping[Side, str]]]) -> None:
        """Choose in many battles at once, one line to each process.

        Nothing is raised: see `Battle.lost`.
        """
        going = [(battle, choices) for battle, choices in moves if not battle.lost]
        answers = self._request(
            [(battle.worker, ["choose", battle.id, *map(choices.get, SIDES)]) for battle, choices in going]
        )
        for (battle, _), answer in zip(going, answers, strict=True):
            if isinstance(answer, Exception):
                battle.lost = str(answer)
            else:
                battle.take(answer)

    def fork(self, wanted: Sequence[tuple[Battle, int | str | None]]) -> list[Battle]:
        """A copy of each battle, with other dice where a seed is given. See `Battle.fork`.

        Raises:
            BattleLostError: a battle is lost.
        """
        copies = []
        for battle, _ in wanted:
            _alive(battle)
            copies.append(Battle(self, battle.worker, next(self._numbers), battle.setup))
        answers = self._request(
            [
                (battle.worker, ["fork", battle.id, copy.id, None if seed is None else dice(seed)])
                for (battle, seed), copy in zip(wanted, copies, strict=True)
            ]
        )
        for (battle, _), copy, answer in zip(wanted, copies, answers, strict=True):
            _checked(answer)
            copy.resemble(battle)
        return copies

    def derive(self, wanted: Sequence[tuple[Battle, str, Sequence[Any]]]) -> list[Battle]:
        """A new battle from each of several operations, such as `imagine`.

        Each is `(battle, operation, further arguments)`; see `imagine.js`.

        Raises:
            ShowdownError: the operation failed.
            BattleLostError: a battle is lost.
        """
        battles = [Battle(self, battle.worker, next(self._numbers), battle.setup) for battle, _, _ in wanted]
        answers = self._request(
            [
                (battle.worker, [name, battle.id, copy.id, *given])
                for (battle, name, given), copy in zip(wanted, battles, strict=True)
            ]
        )
        for copy, answer in zip(battles, answers, strict=True):
            copy.take(_checked(answer))
        return battles

    def load(self, saved: str, setup: Setup, seed: int | str | None = None) -> Battle:
        """A battle that `Battle.save` wrote, with other dice where a seed is given."""
        battle = Battle(self, self._pick_worker(), next(self._numbers), setup)
        [answer] = self._request([(battle.worker, ["load", battle.id, saved, None if seed is None else dice(seed)])])
        battle.take(_checked(answer))
        return battle

    def request_battle(self, battle: Battle, name: str, *arguments: Any) -> Any:
        """Run an operation on one battle and return its result.

        Raises:
            BattleLostError: the battle is lost.
        """
        _alive(battle)
        answer = self._request([(battle.worker, [name, battle.id, *arguments])])[0]
        if isinstance(answer, BattleLostError):
            battle.lost = str(answer)
        return _checked(answer)

    def request(self, operations: Sequence[Operation]) -> list[Any]:
        """Run operations on no battle, such as the validation of a team, and return their results.

        Raises:
            ShowdownError: the operation's object does not exist, or a process was lost twice.
        """
        answers = self._request([(self._pick_worker(), operation) for operation in operations])
        if any(isinstance(answer, BattleLostError) for answer in answers):
            answers = self._request([(self._pick_worker(), operation) for operation in operations])
        return [_checked(answer) for answer in answers]

    # --- processes ---------------------------------------------------------------------------------

    def _request(self, requests: Sequence[tuple[BattleWorker, Operation]]) -> list[Any]:
        """Answers in order; an error in place of one that failed.

        All processes work at the same time.
        """
        parts: dict[BattleWorker, list[int]] = {}
        for n, (worker, _) in enumerate(requests):
            parts.setdefault(worker, []).append(n)
        tickets: list[tuple[BattleWorker, list[int], Ticket]] = [
            (worker, places, worker.send([requests[n][1] for n in places])) for worker, places in parts.items()
        ]
        answers: list[Any] = [None] * len(requests)
        for worker, places, ticket in tickets:
            try:
                got = worker.receive(ticket, self._patience)
            except BattleLostError as error:
                got = [error] * len(places)
            for n, answer in zip(places, got, strict=False):  # the last may be of battles that were dropped
                answers[n] = _error(answer) if isinstance(answer, dict) and "error" in answer else answer
        return answers

    def _pick_worker(self) -> BattleWorker:
        """An idle process, else a new one, else the one with the fewest battles."""
        with self._placing:
            if os.getpid() != self._owner:  # a forked copy: the processes are the other's
                self._owner, self._workers = os.getpid(), []
            self._workers = [worker for worker in self._workers if not worker.lost]
            least = min(self._workers, key=lambda worker: worker.battles, default=None)
            if least is None or (least.battles and len(self._workers) < self._max_workers):
                least = BattleWorker(self._node, self._package, plain=self._plain)
                self._workers.append(least)
            return least

    def close(self) -> None:
        """End the processes, and with them their battles."""
        if os.getpid() == self._owner:
            with self._placing:
                for worker in self._workers:
                    worker.close()
                self._workers = []


shared_pool = ProcessLocal(BattlePool)


def _error(answer: Mapping[str, Any]) -> ShowdownError:
    return (BattleLostError if answer.get("lost") else ShowdownError)(str(answer["error"]))


def _checked(answer: Any) -> Any:
    if isinstance(answer, ShowdownError):
        raise answer
    return answer


def _alive(battle: Battle) -> None:
    if battle.lost:
        raise BattleLostError(battle.lost)
