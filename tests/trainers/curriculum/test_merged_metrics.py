"""Metrics of all stages in one file, and told to Weights & Biases once."""

from __future__ import annotations

import importlib

from palaver.trainers.curriculum import run as curve
from palaver.trainers.curriculum.config import parse
from palaver.trainers.curriculum.run import run
from palaver.trainers.run import boards
from palaver.trainers.run.files import METRICS
from palaver.trainers.run.logging import read_metrics
from tests.trainers.curriculum.fakes import FakeBackend, values


class Board:
    """Weights & Biases as far as it is used."""

    def __init__(self):
        self.logged, self.ids, self.defined, self.finished = [], [], [], 0

    def init(self, **settings):
        self.ids.append(settings["id"])
        assert settings["resume"] == "allow"
        assert settings["config"]["seed"] == 7
        return self

    def define_metric(self, *names, **how):
        self.defined.append((names, how))

    def log(self, line):
        self.logged.append(line)

    def finish(self):
        self.finished += 1


def test_lines_are_told_once_and_in_one_run(tmp_path, monkeypatch):
    board, load = Board(), importlib.import_module
    monkeypatch.setattr(boards.importlib, "import_module", lambda name: board if name == "wandb" else load(name))
    first = values(wandb="offline")
    rest, first["stages"] = first["stages"], first["stages"][:1]
    run(parse(first), tmp_path / "run", FakeBackend(tmp_path / "work"))
    told = len(board.logged)
    assert told == len(read_metrics(tmp_path / "run" / METRICS))
    run(parse(values(wandb="offline", stages=rest)), tmp_path / "run", FakeBackend(tmp_path / "work"))
    lines = read_metrics(tmp_path / "run" / METRICS)
    assert len(board.logged) == len(lines) > told
    assert [line["step"] for line in board.logged] == [line["step"] for line in lines]
    assert len(set(board.ids)) == 1
    assert board.finished == 2
    rating = next(line for line in board.logged if "first/elo/sample:train/first" in line)
    assert rating["step"] == 4


def test_a_running_attempt_is_counted_on_from_those_before(tmp_path):
    state = run(parse(values()), tmp_path / "run", FakeBackend(tmp_path / "work"))
    whole = curve.lines(state.folder, state.verdicts)
    last = state.verdicts[-1]
    running = curve.lines(state.folder, state.verdicts[:-1], (last.stage, last.attempt))
    assert running == whole[:-1], "but for the ratings of the last"
