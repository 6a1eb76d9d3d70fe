"""A language model learns battles through the same loop."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from palaver.agents.llm.model.load import save_pretrained
from palaver.core import ConfigError
from palaver.trainers.behaviour_cloning import train
from palaver.trainers.behaviour_cloning.config import BCConfig
from palaver.trainers.behaviour_cloning.mixture import Mixture
from palaver.trainers.behaviour_cloning.text_student import TextStudent
from palaver.trainers.trajectories.files import Writer
from palaver.trainers.trajectories.reader import Reader
from tests.models import byte_tokenizer, tiny_qwen3
from tests.trainers.cloning import made


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save_pretrained(tiny_qwen3(), byte_tokenizer(), folder)
    return folder


def test_it_learns_and_resumes(model, tmp_path):
    """Whoever wins plays surf, always the third of the legal actions; a run that was killed ends as if it had not."""
    battles = made.folder(tmp_path / "battles", 12)
    chosen = [(Reader(battles).select(player="surfer"), 1.0)]
    config = BCConfig(
        model=str(model), epochs=4, decisions=30, lr=3e-3, warmup=0, weight_decay=0.0, threads=1, checkpoint_every=2
    )
    place = train.clone(config, tmp_path / "run", chosen)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    epochs = [line for line in lines if line["kind"] == "epoch"]
    assert epochs[-1]["nll"] < 0.5 * epochs[0]["nll"]
    assert "value_loss" not in epochs[0]
    assert (place / "config.json").is_file()

    class Killed(BaseException):
        pass

    def kill(step, *_):
        if step == 5:
            raise Killed

    with pytest.raises(Killed):
        train.clone(config, tmp_path / "killed", chosen, None, kill)
    train.clone(config, tmp_path / "killed", chosen)
    again = [json.loads(line) for line in (tmp_path / "killed" / "metrics.jsonl").read_text().splitlines()]
    assert [dict(line, seconds=0) for line in again] == [dict(line, seconds=0) for line in lines]


def test_what_is_scored(model, tmp_path):
    """The executed action's place in the list of legal ones; missing ones teach nothing."""
    battles = Mixture([(made.folder(tmp_path / "battles", 2, missing=1), 1.0)])
    config = BCConfig(model=str(model), decisions=1000)
    student = TextStudent.make(config, None, torch.device("cpu"))
    [batch] = list(student.batches(battles, config, 0))
    found = student.score(batch, config, 1)
    assert found.scores.shape == (len(batch), 1, 4)
    expected = [-1 if row.slot < 0 else made.LEGAL.index(row.executed) for row, _ in batch]
    assert found.slot[:, 0].tolist() == expected
    assert expected.count(-1) == 4


def test_battles_without_texts(model, tmp_path):
    side = made.battle(0, made.np.random.default_rng(0))[0]
    bare = [replace(row, text="") for row in side.decisions]
    with Writer(tmp_path / "battles") as writer:
        writer.add(replace(side, decisions=tuple(bare)))
    with pytest.raises(ConfigError, match=r"tournament\.record_text=true"):
        train.clone(BCConfig(model=str(model)), tmp_path / "run", [(tmp_path / "battles", 1.0)])
