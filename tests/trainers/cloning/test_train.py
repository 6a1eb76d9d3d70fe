"""The loop of cloning: it learns, filters learn from what went well, a killed run ends as if it had not been."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from palaver.agents.battle_net import files
from palaver.core import ConfigError
from palaver.trainers.behaviour_cloning import students, train
from palaver.trainers.behaviour_cloning.config import BCConfig
from palaver.trainers.behaviour_cloning.mixture import Mixture
from palaver.trainers.behaviour_cloning.students import layout
from palaver.trainers.run import checkpoint
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.trajectories.reader import Reader
from palaver.utils.config import validated
from palaver.utils.run_folder import FolderInUseError, locked
from tests.trainers.cloning import made

QUICK = BCConfig(epochs=4, decisions=60, lr=3e-3, warmup=3, threads=1, checkpoint_every=3, seed=5)
LONGER = QUICK.model_copy(update={"epochs": 16, "decisions": 30, "lr": 1e-2, "checkpoint_every": 1000})


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A net of few weights, and words that need no simulator."""
    monkeypatch.setattr(students, "vocabulary", lambda _: made.WORDS)
    tiny = files.NetSize(word=8, mon=16, width=16, layers=1, heads=2, window=8)
    monkeypatch.setattr(students, "size", lambda _: tiny)


@pytest.fixture(scope="module")
def battles(tmp_path_factory):
    return made.folder(tmp_path_factory.mktemp("battles"))


def lines(folder):
    """Metrics without what depends on the clock."""
    return [{k: v for k, v in line.items() if k != "seconds"} for line in read_metrics(folder / "metrics.jsonl")]


def means(folder, kind="epoch"):
    return [line for line in lines(folder) if line["kind"] == kind]


def test_a_run_that_another_process_holds_is_refused(battles, tmp_path):
    with locked(tmp_path), pytest.raises(FolderInUseError, match="is in use by process"):
        train.clone(QUICK, tmp_path, [(battles, 1.0)])
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_it_learns_from_those_who_won(battles, tmp_path):
    chosen = Reader(battles).select(player="surfer")
    place = train.clone(LONGER, tmp_path / "run", [(chosen, 1.0)])
    assert place == tmp_path / "run" / "net"
    found = means(tmp_path / "run")
    assert found[0]["accuracy"] < 0.6 < 0.95 < found[-1]["accuracy"]
    assert found[-1]["nll"] < 0.4
    assert files.load(place)[0].vocabulary == made.WORDS


def test_filters_tell_good_from_bad(battles, tmp_path):
    """All sides, half of which never play surf and lose: a filter comes to keep what the winners did."""
    config = LONGER
    train.clone(config, tmp_path / "all", [(battles, 1.0)])
    train.clone(config.model_copy(update={"loss": "filter"}), tmp_path / "filter", [(battles, 1.0)])
    surf = {name: _surfs(tmp_path / name) for name in ("all", "filter")}
    assert surf["filter"] > 0.9 > surf["all"]
    assert means(tmp_path / "all")[-1]["kept"] == 1
    assert 0.3 < means(tmp_path / "filter")[-1]["kept"] < 0.7


def _surfs(folder):
    """How probable it is to play surf, in battles that it has not seen."""
    plan, net = files.load(folder)
    rng = np.random.default_rng(99)
    rows = [made.decision(rng) for _ in range(40)]
    words = torch.tensor([plan.vocabulary.ids(row.words) for row in rows])[:, None]
    with torch.no_grad():
        scores, _ = net(words, torch.from_numpy(np.stack([row.numbers for row in rows]))[:, None])
    chances = scores[:, 0, :4].softmax(-1).numpy()
    return float(np.mean([row[each.slot] for row, each in zip(chances, rows, strict=True)]))


def test_returns_as_values(battles, tmp_path):
    """Every return is 1 or -1 without a discount, and who wins can be seen in no word: symexp of a mean near 0."""
    config = QUICK.model_copy(update={"value": "return", "bins": 21, "loss": "weigh"})
    place = train.clone(config, tmp_path / "run", [(battles, 1.0)])
    plan, _ = files.load(place)
    assert (plan.reply, plan.bins) == ("return", 21)
    found = means(tmp_path / "run")
    assert found[-1]["value_loss"] < found[0]["value_loss"]
    with pytest.raises(ConfigError, match="value=result"):
        train.clone(QUICK, tmp_path / "other", [(battles, 1.0)], place)


def test_a_killed_run_ends_as_if_it_had_not_been(battles, tmp_path, monkeypatch):
    config = QUICK.model_copy(update={"hide": 0.5, "held_out": 0.2})
    train.clone(config, tmp_path / "whole", [(battles, 1.0)])
    steps = max(line["step"] for line in lines(tmp_path / "whole"))
    assert steps > 9

    class Killed(BaseException):
        pass

    def kill(at):
        def report(step, _steps, _said):
            if step == at:
                raise Killed

        return report

    for at in (2, 4, 8, steps - 1):  # before the first checkpoint, beyond some, right before the end
        with pytest.raises(Killed):
            train.clone(config, tmp_path / "killed", [(battles, 1.0)], None, kill(at))
    seen = []
    train.clone(config, tmp_path / "killed", [(battles, 1.0)], None, lambda step, *_: seen.append(step))
    assert seen[0] > 1
    assert lines(tmp_path / "killed") == lines(tmp_path / "whole")
    one, two = (load_file(tmp_path / name / "net" / files.WEIGHTS_FILE) for name in ("whole", "killed"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_finished_run_is_not_trained_again(battles, tmp_path):
    place = train.clone(QUICK, tmp_path / "run", [(battles, 1.0)])
    seen = []
    assert train.clone(QUICK, tmp_path / "run", [(battles, 1.0)], None, lambda *_: seen.append(1)) == place
    assert seen == []
    with pytest.raises(ConfigError, match="another config"):
        train.clone(QUICK.model_copy(update={"lr": 1e-4}), tmp_path / "run", [(battles, 1.0)])
    with pytest.raises(ConfigError, match="another battles"):
        train.clone(QUICK, tmp_path / "run", [(battles, 1.0), (battles, 2.0)])


def test_it_goes_on_from_another_net(battles, tmp_path):
    first = train.clone(QUICK, tmp_path / "first", [(battles, 1.0)])
    train.clone(QUICK.model_copy(update={"steps": 1}), tmp_path / "second", [(battles, 1.0)], tmp_path / "first")
    before, after = (means(tmp_path / name) for name in ("first", "second"))
    assert after[0]["nll"] < before[0]["nll"]
    assert [line["step"] for line in lines(tmp_path / "second") if line["kind"] == "train"] == [1]
    assert files.identity(tmp_path / "first") == files.identity(first)


def test_a_loss_that_is_not_finite_stops_the_run(battles, tmp_path, monkeypatch):
    score = students.NetStudent.score

    def spoilt(self, batch, config, step):
        found = score(self, batch, config, step)
        if step == 5:
            found.values.data[-1] = torch.nan
        return found

    monkeypatch.setattr(students.NetStudent, "score", spoilt)
    with pytest.raises(NumericalError, match="step 5") as caught:
        train.clone(QUICK, tmp_path / "run", [(battles, 1.0)])
    assert len(caught.value.rows) == 1
    assert checkpoint.step_of(checkpoint.newest(tmp_path / "run")[0]) == 3
    assert len(means(tmp_path / "run", "train")) == 4


def test_missing_actions(tmp_path):
    """Two of each side's decisions are not known: they count for the value alone."""
    path = made.folder(tmp_path / "battles", 6, missing=2)
    train.clone(QUICK.model_copy(update={"epochs": 1}), tmp_path / "run", [(path, 1.0)])
    entries = Reader(path).entries
    assert means(tmp_path / "run")[0]["decisions"] == sum(max(0, entry.decisions - 2) for entry in entries)


def test_mixtures(tmp_path):
    """Shares of decisions are the weights', whatever the folders hold; the same in every epoch's size."""
    few, many = made.folder(tmp_path / "few", 5, 1), made.folder(tmp_path / "many", 30, 2)
    mixed = Mixture([(few, 3.0), (Reader(many).select(side="p1"), 1.0), (many, 0.0)])
    assert len(mixed) == 10 + 30
    own = np.array([entry.decisions for entry in mixed.entries])
    share = np.array(mixed.weights) * own
    assert share[:10].sum() / share.sum() == pytest.approx(0.75)
    assert mixed[12].battle == Reader(many).select(side="p1")[2].battle
    learnt, aside = mixed.divide(0.3)
    assert len(learnt) + len(aside) == 40
    assert {e.battle for e in learnt.entries}.isdisjoint(e.battle for e in aside.entries)
    assert learnt[0].decisions[0].words == mixed[list(mixed.entries).index(learnt.entries[0])].decisions[0].words
    assert mixed.facts() != Mixture([(few, 2.0), (many, 1.0)]).facts()
    for bad in ([], [(few, 0.0)], [(few, -1.0)], [(few, float("nan"))]):
        with pytest.raises(ConfigError, match="battles"):
            Mixture(bad)
    with pytest.raises(ConfigError, match="no trajectory"):
        Mixture([(Reader(few).select(player="nobody"), 1.0)])


def test_layout_of_the_observation():
    """363 numbers: 12 of each of 12 Pokémon and 4 of its moves, 4 of each of 4 moves, the rest shared."""
    made_ = layout()
    assert {len(row) for row in made_.mons} == {12}
    assert {len(row) for row in (*made_.left, *made_.attacks)} == {4}
    assert len(made_.shared) == made_.count - 12 * 16 - 16


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sizes": "nano"}, "Did you mean 'size'"), ({"epochs": 0}, "epochs"), ({"clip": [2, 1]}, "above the largest"),
        ({"model": "x", "loss": "filter"}, "no value head"), ({"size": "huge"}, "nano"), ({"lr": float("nan")}, "lr"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit(values, message):
    with pytest.raises(ConfigError, match=message):
        validated(BCConfig, values)


@pytest.mark.slow
def test_killed_by_the_system(battles, tmp_path):
    """SIGKILL in the middle, in a process of its own, with the real vocabulary's place taken by a small one."""
    code = (
        "import sys, os, signal\nfrom pathlib import Path\nfrom palaver.agents.battle_net import files\n"
        "from palaver.trainers.behaviour_cloning import students, train\nfrom tests.trainers.cloning import made\n"
        "students.vocabulary = lambda _: made.WORDS\n"
        "students.size = lambda _: files.NetSize(word=8, mon=16, width=16, layers=1, heads=2, window=8)\n"
        "from tests.trainers.cloning.test_train import QUICK\n"
        "at = int(sys.argv[3])\n"
        "kill = lambda step, *_: os.kill(os.getpid(), signal.SIGKILL) if step == at else None\n"
        "train.clone(QUICK, Path(sys.argv[2]), [(sys.argv[1], 1.0)], None, kill)\n"
    )
    for name, at in (("whole", 0), ("killed", 4), ("killed", 7), ("killed", 0)):
        command = [sys.executable, "-c", code, str(battles), str(tmp_path / name), str(at)]
        ran = subprocess.run(command, check=False, env={**os.environ, "PYTHONPATH": os.getcwd()}, timeout=120)
        assert ran.returncode == (-signal.SIGKILL if at else 0)
    assert lines(tmp_path / "killed") == lines(tmp_path / "whole")


def test_battles_of_another_observation_are_refused():
    student = students.NetStudent(SimpleNamespace(layout=SimpleNamespace(count=3), span=8), None)
    batch = SimpleNamespace(words=torch.zeros(2, 4, 5), numbers=torch.zeros(2, 4, 3))
    with pytest.raises(ConfigError, match="have 5 words and 3 numbers a decision, and the net reads 135"):
        student.score(batch, None, 0)
