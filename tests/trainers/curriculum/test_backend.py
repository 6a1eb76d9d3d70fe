"""The backend that really plays and trains."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from palaver.core import ConfigError, PalaverError
from palaver.trainers.curriculum.backend import Backend, cloning_config, sized
from palaver.trainers.curriculum.config import parse
from palaver.trainers.curriculum.run import run
from palaver.trainers.curriculum.state import BATTLES, RATING
from palaver.trainers.matches.results import GAMES, read_games
from palaver.trainers.run.files import METRICS
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.trajectories.files import TrajectoryEntry
from tests.trainers.curriculum.fakes import timeless

SMALL = {"decisions": 256, "checkpoint_every": 1}
REAL = {
    "seed": 3, "device": "cpu", "jobs": 1, "ratings": {"opponents": ["random@1", "typed@1"], "battles": 2},
    "stages": [
        {"name": "first", "pairs": {"typed@1 v random@1": 1}, "teams": {"sample:train": 1}, "battles": 6,
         "learn": "winners", "epochs": 2, "options": SMALL},
        {"name": "second", "coach": "typed@1", "pairs": {"coach v student": 1, "coach v coach": 1},
         "teams": {"sample:train": 1}, "battles": 4, "learn": "coach", "mix": {"old": 0.25}, "epochs": 1,
         "options": SMALL, "guard": {"teams": "sample:held-out", "drop": 1.0}},
    ],
}  # fmt: skip


class _Reader:
    """Of trajectories of so many decisions, or (decisions, known, advised)."""

    def __init__(self, *lengths):
        counts = [each if isinstance(each, tuple) else (each, each, 0) for each in lengths]
        self.entries = [
            TrajectoryEntry(f"{n}", "gen1ou", "p1", "a", "b", "sample", "t", 1, 1.0, *each, shard=0, at=0, size=1)
            for n, each in enumerate(counts)
        ]


def _taken(reader, decisions, seed=0, taught=None):
    wanted = decisions if taught is None else taught
    found = sized(reader, wanted, decisions, seed).entries
    return [f"{entry.battle} mute" if entry.mute else int(entry.battle) for entry in found]


def test_a_source_gives_as_many_decisions_as_are_wanted():
    assert _taken(_Reader(10, 10, 10, 10), 40) == [0, 1, 2, 3]
    assert len(_taken(_Reader(10, 10, 10, 10), 20)) == 2
    assert _taken(_Reader(10, 10), 0) == []
    assert _taken(_Reader(10, 10), 4) == [], "one of 10 would be farther from 4 than none"
    assert _taken(_Reader(10, 10), 6) in ([0], [1])
    twice = _taken(_Reader(10, 10, 10), 70)
    assert len(twice) == 7
    assert {twice.count(n) for n in range(3)} == {2, 3}
    assert {tuple(_taken(_Reader(*[10] * 8), 40, seed)) for seed in range(5)} != {tuple(_taken(_Reader(*[10] * 8), 40))}


def test_what_teaches_the_value_alone_is_counted_by_itself():
    half = _Reader((10, 10, 0), (10, 0, 0), (10, 10, 0), (10, 0, 0))  # of two battles the winners' decisions teach
    assert _taken(half, 40, taught=20) == [0, 1, 2, 3], "what is wanted whole is whole"
    assert _taken(half, 20, taught=20) == [0, 2], "as much as is wanted of what teaches the policy, and nothing beside"
    assert _taken(half, 20, taught=0) == [1, 3]
    assert _taken(half, 60, taught=40) == [0, 0, 1, 2, 2, 3]
    advised = _Reader((10, 6, 6), (10, 6, 6), (10, 0, 0))
    assert _taken(advised, 30, taught=12) == [0, 1, 2]
    assert _taken(advised, 10, taught=12) == [0, 1], "it costs 20, and nothing is added"
    assert _taken(advised, 50, taught=12) == [0, 1, 2, 2, 2], "advice would teach, muted or not"
    whole = _Reader((10, 10, 0), (10, 10, 0))
    assert sorted(_taken(whole, 30, taught=10), key=str) in ([0, "0 mute", "1 mute"], ["0 mute", 1, "1 mute"])
    assert _taken(_Reader((10, 10, 10)), 30, taught=10) == [0], "there is nothing that would not teach"


def test_the_settings_of_a_training():
    def config_with(**options):
        spec = json.loads(json.dumps(REAL)) | {"size": "small"}
        spec["stages"][0] |= {"loss": "filter", "options": options}
        parsed = parse(spec)
        return cloning_config(parsed, parsed.stages[0], 2**40)

    config = config_with(lr=0.5)
    assert (config.size, config.epochs, config.loss, config.lr, config.device) == ("small", 2, "filter", 0.5, "cpu")
    with pytest.raises(ConfigError, match=r"unknown key 'stages\.first\.options\.lrr'. Did you mean 'lr'"):
        config_with(lrr=0.5)
    with pytest.raises(ConfigError, match=r"stages\.first\.options\.epochs: a stage or the curriculum has a key"):
        config_with(epochs=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("teams", {"sampel:train": 1}, "there are no teams at"),
        ("pairs", {"typde@1 v random@1": 1}, "there is no player 'typde@1'"),
        ("options", {"lrr": 1}, "unknown key 'stages.first.options.lrr'"),
        ("mix", {"synthetic": 0.5, "human": ["nowhere"]}, "there are no battles in 'nowhere'"),
    ],
)
def test_what_cannot_be_had_is_told_before_any_work(key, value, told):
    wrong = json.loads(json.dumps(REAL))
    wrong["stages"][0][key] = value
    with pytest.raises(PalaverError, match=told):
        Backend(parse(wrong)).check()


CODE = """
import sys
from pathlib import Path
from palaver.trainers.curriculum.config import load
from palaver.trainers.curriculum.run import run
from palaver.trainers.curriculum.backend import Backend
spec = load(sys.argv[1])
run(spec, Path(sys.argv[2]), Backend(spec))
"""


def _dies(recipe, folder, when):
    """Run until `when()` holds, then SIGKILL to the process and all that it has started."""
    process = subprocess.Popen([sys.executable, "-c", CODE, str(recipe), str(folder)], start_new_session=True)
    try:
        until = time.monotonic() + 250
        while not when() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        assert process.poll() is None, "it ended before it could be killed"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def _lines(pattern, folder, least):
    return lambda: any(path.read_bytes().count(b"\n") >= least for path in folder.glob(pattern))


def _untimed(path: Path):
    return [{k: v for k, v in line.items() if k != "seconds"} for line in read_metrics(path)]


def _games(path: Path):
    return sorted((played.game, played.score, played.turns) for played in read_games(path))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_anywhere_it_ends_the_same(tmp_path):
    """SIGKILL while it plays, learns and rates, in both stages: networks, ratings and metrics are as without."""
    recipe = tmp_path / "real.yaml"
    recipe.write_text(yaml.safe_dump(REAL))
    spec = parse(REAL)
    whole = run(spec, tmp_path / "whole", Backend(spec))
    folder = tmp_path / "killed"
    for when in (
        _lines(f"{BATTLES}/*/{GAMES}", folder, 2),
        _lines(f"stages/first/1/net/{METRICS}", folder, 1),
        _lines(f"{RATING}/{GAMES}", folder, 2),
        _lines(f"stages/second/1/net/{METRICS}", folder, 1),
        _lines(f"{RATING}/{GAMES}", folder, 10),
    ):
        _dies(recipe, folder, when)
    state = run(spec, folder, Backend(spec))
    assert timeless(state.verdicts) == timeless(whole.verdicts)
    assert _untimed(folder / METRICS) == _untimed(tmp_path / "whole" / METRICS)
    assert _games(folder / RATING / GAMES) == _games(tmp_path / "whole" / RATING / GAMES)
    for store in (tmp_path / "whole" / BATTLES).iterdir():
        assert _games(folder / BATTLES / store.name / GAMES) == _games(store / GAMES)
