"""Battles as `datasets`."""

from __future__ import annotations

import pytest

from palaver.core import ConfigError
from palaver.trainers.trajectories.dataset import dataset, texts
from palaver.trainers.trajectories.files import Writer
from tests.trainers.battles.made import battle, decision, trajectory


def test_a_row_for_every_trajectory(tmp_path):
    with Writer(tmp_path / "battles") as writer:
        writer.add(*battle(0))
    rows = dataset(tmp_path / "battles", tmp_path / "cache")
    wanted = battle(0)
    assert [row["side"] for row in rows] == ["p1", "p2"]
    for row, each in zip(rows, wanted, strict=True):
        assert (row["battle"], row["seed"], row["result"]) == (each.battle, each.seed, each.result)
        assert row["words"] == [list(step.words) for step in each.decisions]
        assert row["numbers"] == [step.numbers.tolist() for step in each.decisions]
        assert row["mask"] == [step.mask.tolist() for step in each.decisions]
        assert row["slot"] == [step.slot for step in each.decisions]
        assert row["legal"] == [list(step.legal) for step in each.decisions]
        assert row["reward"] == [step.reward for step in each.decisions]


def test_what_is_written_later_is_in_the_next_table(tmp_path):
    for n in range(2):
        with Writer(tmp_path / "battles") as writer:
            writer.add(*battle(n))
        assert len(dataset(tmp_path / "battles", tmp_path / "cache")) == 2 * (n + 1)


def test_a_row_for_every_text(tmp_path):
    told = trajectory(0, decisions=[decision(0, 1, text="one\ntwo"), decision(0, 3), decision(0, 5, text="three")])
    with Writer(tmp_path / "battles") as writer:
        writer.add(told)
    rows = texts(tmp_path / "battles", tmp_path / "cache")
    assert rows["text"][:] == ["one\ntwo", "three"]
    assert rows["executed"][:] == ["move m1", "move m5"]
    assert rows["legal"][0] == ["move tackle", "move m1", "switch s0"]
    assert rows["player"][1] == "p1-player"


def test_battles_without_texts_are_told(tmp_path):
    with Writer(tmp_path / "battles") as writer:
        writer.add(trajectory(0, decisions=[decision(0, 1)]))
    with pytest.raises(ConfigError, match=r"tournament\.record_text=true"):
        texts(tmp_path / "battles", tmp_path / "cache")
