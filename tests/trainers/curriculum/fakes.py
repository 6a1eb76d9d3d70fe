"""A fast backend that writes the files of the real one and can be killed after any step of its work."""

from __future__ import annotations

import json
import math
import os
import random
import signal
from dataclasses import replace
from pathlib import Path

from palaver.core import stable_seed
from palaver.trainers.curriculum.backend import TrainingResult
from palaver.trainers.curriculum.battles import MIRROR
from palaver.trainers.matches.results import GAMES, GameResult, Log, PlayerStats, read_games
from palaver.trainers.run.files import METRICS
from palaver.utils.run_folder import replace_text

STRENGTH = {"random@1": 0.0, "typed@1": 1.5, "veteran@1": 3.0}
STEPS = 4


class FakeBackend:
    """Every player has a strength; a network starts at its parent's (0 if fresh) and gains `gain` by a job.

    Recorded battles of the matches in `lost` fail.

    `work` gets a line for every game and step that was done, before which it cannot be killed.
    """

    def __init__(self, work: Path, die_after: int = 0, gain: float = 1.0, lost=()) -> None:
        self.work, self.die_after, self.gain, self.done = work, die_after, gain, 0
        self.lessons, self.lost = [], lost

    def _did(self, what: str) -> None:
        with self.work.open("a") as file:
            file.write(what + "\n")
        self.done += 1
        if self.done == self.die_after:
            os.kill(os.getpid(), signal.SIGKILL)

    def play(self, order, folder, recorded, tick):
        folder.mkdir(parents=True, exist_ok=True)
        known = {played.game for played in read_games(folder / GAMES)}
        for _ in known & set(order.games):
            tick("", len(order.games))
        with Log(folder) as log:
            for game in order.games:
                if game not in known and not (recorded and game.match in self.lost):
                    log.add(self._game(order, game))
                    self._did(f"{folder.name} {game}")
                    tick("", len(order.games))
        wanted = set(order.games)
        return [played for played in read_games(folder / GAMES) if played.game in wanted]

    def _game(self, order, game):
        one, two = (self._strength(order.players[label]) for label in (game.first, game.second))
        draw = random.Random(stable_seed(order.seed, *game)).random()
        score = float(draw < 1 / (1 + math.exp(two - one)))
        return GameResult(
            game, "task", score, 20, "terminated", (PlayerStats(20, 0, 1.0), PlayerStats(20, 0, 1.0)), 0.01
        )

    def _strength(self, player):
        if player.startswith("net:"):
            return float(json.loads((Path(player.removeprefix("net:")) / "net.json").read_text())["strength"])
        return STRENGTH[player.removesuffix(MIRROR)]

    def train(self, job, folder, tick):
        self.lessons.append(job)
        folder.mkdir(parents=True, exist_ok=True)
        state = folder / "net.json"
        start = self._strength(f"net:{job.start}") if job.start else 0.0
        at = json.loads(state.read_text()) if state.is_file() else {"step": 0, "strength": start, "lines": []}
        while at["step"] < STEPS:
            step = at["step"] + 1
            lines = [*at["lines"], {"kind": "train", "step": step, "loss": 2.0 / step, "seed": job.seed % 1000}]
            at = {"step": step, "strength": round(at["strength"] + self.gain / STEPS, 6), "lines": lines}
            replace_text(state, json.dumps(at))
            self._did(f"{folder} step {step}")
            tick("", STEPS)
        replace_text(folder / METRICS, "".join(json.dumps(line) + "\n" for line in at["lines"]))
        return TrainingResult(folder, f"digest of {at['strength']}", STEPS, 100 * STEPS, 0.5)


def timeless(verdicts):
    """The verdicts without seconds, which alone may differ between repetitions of a run."""
    return [replace(verdict, seconds=(0.0, 0.0, 0.0)) for verdict in verdicts]


def values(**changes):
    """A small curriculum of three stages as plain data."""
    stages = [
        {"name": "first", "pairs": {"typed@1 v random@1": 1}, "teams": {"sample:train": 1}, "battles": 8,
         "learn": "winners", "gate": {"score": {"random@1": 0.5}, "sure": False}, "repeats": 1},
        {"name": "second", "coach": "veteran@1", "pairs": {"coach v student": 2, "coach v typed@1": 1},
         "teams": {"sample:train": 3, "generated:4:train": {"weight": 0, "floor": 0.25}}, "battles": 12,
         "learn": "coach", "mix": {"old": 0.25}, "gate": {"above": {"previous": 0}, "sure": False}, "repeats": 2,
         "otherwise": "continue"},
        {"name": "third", "coach": "second", "pairs": {"coach v first": 1, "coach v coach": 1},
         "teams": {"sample:train": 1}, "battles": 8, "guard": {"teams": "sample:held-out", "drop": 1.0}},
    ]  # fmt: skip
    ratings = {"opponents": ["random@1", "typed@1", "veteran@1"], "battles": 20}
    return {"seed": 7, "ratings": ratings, "stages": stages} | changes
