"""Games whose environment or whose process is lost: played again, elsewhere, and the arena goes on."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter

import pytest

import palaver
from palaver.benchmarks.arena.tournament import tournament
from palaver.core import EpisodeLostError, PolicyError
from palaver.envs.matrix.env import MatrixEnv
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.showdown import shared_pool
from palaver.trainers.matches import play as match
from palaver.trainers.matches import workers as pool
from palaver.trainers.matches.config import TournamentConfig, read_players
from palaver.trainers.matches.results import GAMES, read_games
from palaver.utils import workers
from palaver.utils.workers import Lost, WorkerPool

KEYWORDS = {"game": "prisoners-dilemma", "repeats": 3}


def setting(**changes):
    given = {"keywords": KEYWORDS, "battles": 8, "parallel": 5, **changes}
    return TournamentConfig("matrix-v1", read_players("legal,uniform,last", palaver.spec("matrix-v1")), **given)


def outcomes(games):
    """The parts that do not depend on the clock."""
    return sorted((played.game, played.task, played.score, played.turns, played.failed) for played in games)


@pytest.fixture(scope="module")
def undisturbed():
    given = setting()
    return outcomes(pool.run(given, given.games(), None))


def losing(method, times):
    """The method of an environment that is lost the first `times` times that it is called for a task."""
    called = Counter()

    def lost(self, *args, **kwargs):
        key = self.task.id if method.__name__ != "reset" else kwargs["options"]["task"]
        called[key] += 1
        if called[key] <= times:
            raise EpisodeLostError("the simulator did not answer within 60 seconds")
        return method(self, *args, **kwargs)

    return lost


@pytest.mark.parametrize("name", ["reset", "step"])
def test_a_game_that_is_lost_is_played_again_and_ends_as_it_would_have(undisturbed, monkeypatch, tmp_path, name):
    """A slow answer at a game's beginning, and in a step of games that are stepped together."""
    if name == "step":
        calls = []
        together = MatrixEnv.step_together

        def lost(envs, actions, *args):
            calls.append(len(envs))
            if len(calls) in (2, 9):
                raise EpisodeLostError("the simulator did not answer within 60 seconds")
            return together(envs, actions, *args)

        monkeypatch.setattr(MatrixEnv, "step_together", lost)
    else:
        monkeypatch.setattr(MatrixEnv, "reset", losing(MatrixEnv.reset, 1))
    told = []
    found, _ = tournament(setting(), tmp_path, report=told.append)
    assert outcomes(told) == outcomes(read_games(tmp_path / GAMES)) == undisturbed
    assert found.failed == 0


def test_a_player_that_loses_the_environment_loses_no_other_game(undisturbed, monkeypatch):
    """As a player that looks ahead in a copy of the battle, whose process is gone."""
    answers, asked = match._Games.answer, []

    def lost(games, batch):
        asked.append(len(batch))
        if len(asked) == 3:
            raise EpisodeLostError("gone")
        return answers(games, batch)

    monkeypatch.setattr(match._Games, "answer", lost)
    assert outcomes(pool.run(setting(), setting().games(), None)) == undisturbed


def test_a_game_that_is_always_lost_fails_by_name_and_the_others_go_on(undisturbed, monkeypatch):
    bad = match.match_seed(setting(), setting().games()[0])
    reset, tries = MatrixEnv.reset, Counter()

    def lost(self, seed=None, options=None):
        tries[seed] += 1
        if seed == bad:
            raise EpisodeLostError("the simulator did not answer within 60 seconds")
        return reset(self, seed, options)

    monkeypatch.setattr(MatrixEnv, "reset", lost)
    told = []
    pool.run(setting(), setting().games(), None, report=told.append)
    failed = [each for each in told if each.failed]
    assert {each.failed for each in failed} == {"the simulator did not answer within 60 seconds"}
    assert len(failed) == 6  # three pairings, both sides, of one match
    assert {match.match_seed(setting(), each.game) for each in failed} == {bad}
    assert tries[bad] == 6 * pool.TRIES
    sound = [each for each in told if not each.failed]
    assert outcomes(sound) == [each for each in undisturbed if match.match_seed(setting(), each[0]) != bad]


@pytest.mark.slow
@pytest.mark.usefixtures("pool")
def test_a_simulator_that_does_not_answer_ends_no_battle_of_the_arena(monkeypatch):
    """The simulator's process is stopped in the third turn of all battles, which are then played again."""
    players = {"random@1": "random@1", "typed@1": "typed@1"}
    given = TournamentConfig("pokemon-v1", players, {"turn_limit": 20}, battles=4)
    alone = outcomes(pool.run(given, given.games(), None))
    together, turns = PokemonEnv.step_together, []

    def stopped(envs, actions, *args):
        turns.append(len(envs))
        if len(turns) == 3:
            monkeypatch.setattr(shared_pool(), "_patience", 1.0)
            for worker in shared_pool()._workers:
                os.kill(worker.process.pid, signal.SIGSTOP)
        if len(turns) == 4:
            monkeypatch.setattr(shared_pool(), "_patience", 60.0)
        return together(envs, actions, *args)

    monkeypatch.setattr(PokemonEnv, "step_together", stopped)
    told = []
    pool.run(given, given.games(), None, report=told.append)
    assert turns[:4] == [4, 4, 4, 1]
    assert outcomes(told) == alone
    assert len(alone) == 4


# --- processes -----------------------------------------------------------------------------------


def disturb(monkeypatch, number):
    """Send a signal to the first worker process as soon as it plays; the workers, as they are started."""
    started, first, hear = [], [], WorkerPool._receive

    class Started(workers._Worker):
        def __init__(self, work):
            super().__init__(work)
            started.append(self)

    def hit(crew, worker):
        message = hear(crew, worker)
        if worker is started[0] and not first:
            first.append(worker)
            os.kill(worker.process.pid, number)
        return message

    monkeypatch.setattr(workers, "_Worker", Started)
    monkeypatch.setattr(WorkerPool, "_receive", hit)
    return started


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGSTOP, r"sent nothing for \d+ seconds and was killed; its games are played again"),
        pytest.param(signal.SIGKILL, "ended with -9; its games are played again", marks=pytest.mark.slow),
    ],
)
def test_the_games_of_a_process_that_stalls_or_dies_are_played_again(monkeypatch, tmp_path, number, said):
    """Stopped or killed at its first turn of 300 games: no game is lost, and none ends otherwise."""
    given = setting(patience=2.0, battles=200, parallel=4)
    monkeypatch.setattr(pool, "LOADING", 60)
    started = disturb(monkeypatch, number)
    notes, told = [], []
    found, _ = tournament(given, tmp_path, jobs=2, report=told.append, note=notes.append)
    assert [bool(re.search(said, each)) for each in notes] == [True]
    assert len(started) in (2, 3)  # the other one, if it has ended its own games, or a fresh one
    assert all(not worker.process.is_alive() for worker in started)
    assert outcomes(told) == outcomes(read_games(tmp_path / GAMES)) == outcomes(pool.run(given, given.games(), None))
    assert found.failed == 0


def test_a_game_that_loses_every_process_fails_by_name(monkeypatch):
    """Three processes are lost with it; a game beside it in the first is played alone from then on."""
    bad, other, later = setting().games()[:3]
    crew = pool._Crew(setting(), None, lambda _: None, 1)
    asked = []
    monkeypatch.setattr(crew.pool, "submit", lambda share: asked.append((share.together, share.alone)))

    def lose(playing, left):
        share = pool._Share(left)
        share.playing = playing
        return list(crew.lose(share, Lost(-9, 1.0)))

    assert lose([bad, other], [bad, other, later]) == []
    assert asked == [([later], [bad, other])]
    assert (crew.tries[bad], crew.tries[other], crew.tries[later]) == (1, 1, 0)
    assert lose([bad], [bad]) == []
    (failed,) = lose([bad], [bad])
    assert (failed.game, failed.failed) == (bad, "a process of the arena ended with -9, as did 2 others with this game")
    assert asked == [([later], [bad, other]), ([], [bad])]


def test_processes_that_are_lost_before_any_game_end_the_arena_in_one_line(monkeypatch):
    given = setting(patience=0.05)
    monkeypatch.setattr(pool, "LOADING", 1)
    began = time.monotonic()
    with pytest.raises(PolicyError, match=r"sent nothing for \d+ seconds and was killed, the last of 6 that ended no"):
        pool.run(given, given.games(), None, jobs=2)
    assert time.monotonic() - began < 60
    assert threading.active_count() < 20
