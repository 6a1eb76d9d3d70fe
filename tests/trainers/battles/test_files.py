"""The files of battles: what is written is read again, and a kill at any byte leaves whole battles."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from palaver.core import CheckpointError, ConfigError
from palaver.trainers.trajectories.files import Writer
from palaver.trainers.trajectories.reader import Reader
from palaver.trainers.trajectories.record import MISSING
from tests.architecture.running import started
from tests.trainers.battles.made import battle, decision, same, trajectory


def fill(folder, numbers):
    with Writer(folder) as writer:
        return [writer.add(*battle(n)) for n in numbers]


def test_what_is_written_is_read_again(tmp_path):
    assert fill(tmp_path, range(4)) == [True] * 4
    reader = Reader(tmp_path)
    wanted = [side for n in range(4) for side in battle(n)]
    assert len(reader) == 8
    assert all(same(one, other) for one, other in zip(reader, wanted, strict=True))
    assert same(reader[-1], wanted[-1])
    assert reader[0].decisions[0].numbers.dtype == np.float32
    assert reader[0].decisions[0].mask.dtype == np.bool_
    with pytest.raises(IndexError):
        reader[8]


def test_texts_are_kept_where_there_are_some(tmp_path):
    told = trajectory(0, decisions=2)
    told = trajectory(0, decisions=[decision(0, 0, text="Zeile\nzwei \ud800"), decision(0, 1)])
    with Writer(tmp_path) as writer:
        writer.add(told)
    assert [each.text for each in Reader(tmp_path)[0].decisions] == ["Zeile\nzwei \ud800", ""]


def test_many_words_need_wider_ids(tmp_path):
    rows = [decision(0, step, W=100) for step in range(800)]
    rows = [
        type(row)(row.turn, tuple(f"x{step}-{n}" for n in range(100)), *(getattr(row, k) for k in row.__slots__[2:]))
        for step, row in enumerate(rows)
    ]
    with Writer(tmp_path) as writer:
        writer.add(trajectory(0, decisions=rows))
    assert Reader(tmp_path)[0].decisions[799].words[99] == "x799-99"


def test_a_battle_is_written_once(tmp_path):
    assert fill(tmp_path, [1, 1, 2]) == [True, False, True]
    assert fill(tmp_path, [2, 3]) == [False, True]
    assert [entry.battle for entry in Reader(tmp_path).entries] == ["b1", "b1", "b2", "b2", "b3", "b3"]
    with Writer(tmp_path) as writer:
        assert "b3" in writer
        assert "b4" not in writer


def test_two_writers_have_a_shard_each(tmp_path):
    with Writer(tmp_path) as one, Writer(tmp_path) as other:
        assert (one.shard, other.shard) == (0, 1)
        one.add(*battle(0))
        other.add(*battle(1))
        other.add(*battle(0))  # it could not know: the reader takes the first
    with Writer(tmp_path) as again:
        assert again.shard == 0
        assert again.add(*battle(1)) is False
    reader = Reader(tmp_path)
    assert [entry.battle for entry in reader.entries] == ["b0", "b0", "b1", "b1"]
    assert same(reader[3], battle(1)[1])


@pytest.mark.parametrize("suffix", ["jsonl", "blocks"])
def test_a_file_cut_at_any_byte_holds_whole_battles_and_is_gone_on_with(tmp_path, suffix):
    whole = tmp_path / "whole"
    fill(whole, range(3))
    bytes_of = {name: (whole / name).read_bytes() for name in ("000.jsonl", "000.blocks")}
    ends = [entry.at + entry.size for entry in Reader(whole).entries][1::2]
    lines = np.cumsum([len(each) + 1 for each in bytes_of["000.jsonl"].split(b"\n")[:-1]])[1:]
    for cut in range(0, len(bytes_of[f"000.{suffix}"]) + 1, 7):
        folder = tmp_path / f"{cut}"
        folder.mkdir()
        for name, data in bytes_of.items():
            (folder / name).write_bytes(data[:cut] if name.endswith(suffix) else data)
        left = sum(end <= cut for end in (lines if suffix == "jsonl" else ends))
        assert len(Reader(folder)) == 2 * left
        assert fill(folder, range(5)) == [n >= left for n in range(5)]
        reader = Reader(folder)
        assert all(
            same(one, other) for one, other in zip(reader, (s for n in range(5) for s in battle(n)), strict=True)
        )


def test_killed_while_it_writes_it_leaves_what_it_said_was_written(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom palaver.trainers.trajectories.files import Writer\n"
        "from tests.trainers.battles.made import battle\nwriter = Writer(Path(sys.argv[1]))\n"
        "for n in range(10**6):\n    writer.add(*battle(n))\n    print(n, flush=True)\n"
    )
    before = -1
    for _ in range(2):
        with started([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
            said = [process.stdout.readline() for _ in range(5)]
            os.kill(process.pid, signal.SIGKILL)
            said += process.stdout.read().splitlines()
        told = int([each for each in said if each.strip()][-1])
        reader = Reader(tmp_path)
        numbers = sorted({int(entry.battle[1:]) for entry in reader.entries})
        assert numbers == list(range(len(numbers)))
        assert told <= numbers[-1] <= max(told, before) + 1  # those of the first time are not written again
        before = numbers[-1]
        assert len(reader) == 2 * len(numbers)
        assert same(reader[len(reader) - 1], battle(numbers[-1])[1])
    assert list(tmp_path.glob("*.jsonl")) == [tmp_path / "000.jsonl"]


def test_selections(tmp_path):
    fill(tmp_path, range(6))
    reader = Reader(tmp_path)
    assert len(reader.select(side="p2")) == 6
    assert {each.result for each in reader.select(result=1)} == {1.0}
    assert len(reader.select(result=(0, 0.5))) == 8
    assert len(reader.select(player=["p1-player", "nobody"], opponent="other", teamset="sample", format="gen1ou")) == 6
    assert len(reader.select(side="p1").select(result=1.0)) == 2
    assert len(reader.select(player="nobody")) == 0
    assert len(reader) == 12


def test_a_damaged_battle_is_named_and_the_others_are_read(tmp_path):
    fill(tmp_path, range(2))
    entry = Reader(tmp_path).entries[1]
    with (tmp_path / "000.blocks").open("r+b") as file:
        file.seek(entry.at + entry.size // 2)
        file.write(b"\xff" * 8)
    reader = Reader(tmp_path)
    with pytest.raises(CheckpointError, match=r"b0 cannot be read from .*000\.blocks"):
        reader[1]
    assert same(reader[2], battle(1)[0])


def test_what_is_no_folder_of_battles_is_told(tmp_path):
    with pytest.raises(CheckpointError, match="palaver arena pokemon-v1 --record"):
        Reader(tmp_path / "nothing")
    (tmp_path / "000.jsonl").write_text('{"episodes": 1}\n', encoding="utf-8")
    with pytest.raises(CheckpointError, match="line 1, is no index of battles"):
        Reader(tmp_path)
    (tmp_path / "000.jsonl").write_text('{"battles": 2}\n{"battle": "x"}\n', encoding="utf-8")
    with pytest.raises(CheckpointError, match="line 2, is no index"):
        Writer(tmp_path)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot write"):
        Writer(tmp_path / "file")


def test_only_the_sides_of_one_battle_are_added_together(tmp_path):
    with Writer(tmp_path) as writer:
        for sides in [(trajectory(0), trajectory(1, "p2")), (trajectory(0), trajectory(0)), ()]:
            with pytest.raises(ValueError, match="sides of one battle"):
                writer.add(*sides)
        with pytest.raises(ValueError, match="at least one decision"):
            writer.add(trajectory(0, decisions=0))
        assert writer.add(trajectory(0))
    assert len(Reader(tmp_path)) == 1


def test_the_index_is_plain(tmp_path):
    fill(tmp_path, [0])
    first, second = (tmp_path / "000.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(first) == {"battles": 2}
    told = json.loads(second)
    assert told["battle"] == "b0"
    assert [side["decisions"] for side in told["sides"]] == [4, 5]
    assert {"w0", "move tackle", "switch s0"} <= set(told["words"])


@pytest.mark.slow
def test_an_index_of_many_battles_is_read_quickly(tmp_path):
    fill(tmp_path, range(10_000))
    began = time.process_time()
    assert len(Reader(tmp_path)) == 20_000
    assert time.process_time() - began < 5


def test_advice_is_kept_where_there_is_some(tmp_path):
    plain, advised = trajectory(0), trajectory(1)
    row = np.zeros(14, np.float32)
    row[3], row[5] = 0.75, 0.25
    rows = [replace(each, advice=row if n == 2 else None) for n, each in enumerate(advised.decisions)]
    with Writer(tmp_path) as writer:
        writer.add(plain)
        writer.add(replace(advised, decisions=tuple(rows)))
    reader = Reader(tmp_path)
    assert reader.columns(0).advice is None
    assert [None if each.advice is None else each.advice.tolist() for each in reader[1].decisions] == [
        None, None, row.tolist(), None,
    ]  # fmt: skip


def test_the_index_tells_what_teaches_a_policy(tmp_path):
    row = np.zeros(14, np.float32)
    row[3] = 1
    unknown = [decision(0, step, slot=MISSING) for step in range(5)]
    unknown[1], unknown[2] = decision(0, 1), replace(unknown[2], advice=row)
    with Writer(tmp_path) as writer:
        writer.add(trajectory(0))
        writer.add(trajectory(1, decisions=unknown))
    plain, some = Reader(tmp_path).entries
    assert [(each.decisions, each.known, each.advised, each.taught) for each in (plain, some)] == [
        (4, 4, 0, 4), (5, 2, 1, 2),
    ]  # fmt: skip
    assert [each.taught for each in Reader(tmp_path).mute(player="nobody").entries] == [0, 1]


def test_who_is_muted_is_read_without_slots(tmp_path):
    with Writer(tmp_path) as writer:
        for n in range(3):
            writer.add(*battle(n))
    reader = Reader(tmp_path)
    muted = reader.mute(player="p1-player", result=1.0)  # p1 has won the third, of number 2
    assert [each.mute for each in muted.entries] == [True, True, True, True, False, True]
    assert len(muted) == len(reader) == 6
    assert set(muted.columns(0).slot.tolist()) == {MISSING}
    assert np.array_equal(muted.columns(4).slot, reader.columns(4).slot)
    assert np.array_equal(muted.columns(0).mask, reader.columns(0).mask)
    assert not any(each.mute for each in reader.mute().entries)
