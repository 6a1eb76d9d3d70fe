"""Which files are read, in which order, and what cannot be read."""

from __future__ import annotations

import gzip

import pytest

from palaver.benchmarks.viewer import sources
from palaver.benchmarks.viewer.sources import ViewerSource, find, spread
from palaver.core import CheckpointError
from tests.benchmarks.viewer.made import episode, lines, save


def tasks(source):
    return [found.task if (found := unread()) else None for unread in source.unread()]


@pytest.mark.parametrize(("number", "order"), [(0, []), (1, [0]), (2, [1, 0]), (3, [2, 0, 1]), (6, [5, 0, 2, 1, 3, 4])])
def test_the_ends_come_first_and_the_others_ever_closer(number, order):
    """Six: the ends, the middle 2 of [0, 5], then 1 of [0, 2] and 3 of [2, 5], then 4 of [3, 5]."""
    assert [each.step for each in spread([ViewerSource(None, "eval", n) for n in range(number)])] == order


def test_evaluations_are_read_before_training(tmp_path):
    for name in ("train-000001", "eval-000000", "train-000002", "eval-000002"):
        save(tmp_path / "episodes" / f"{name}.jsonl", episode())
    (tmp_path / "episodes" / "notes.txt").write_text("not episodes")
    found, run = find(tmp_path)
    assert [(each.kind, each.step) for each in found] == [("eval", 2), ("eval", 0), ("train", 2), ("train", 1)]
    assert [each.stem for each in found] == ["eval-2-", "eval-0-", "train-2-", "train-1-"]
    assert run is None


def test_lines_that_are_no_episode_are_told(tmp_path):
    path = tmp_path / "e.jsonl"
    bad = ["{", "[1]", "{}", '{"turns": 3}', "[" * 100_000, '{"env": 1, "task": "t", "seed": 0, "turns": []}']
    path.write_text("\n".join([lines(episode("first")), *bad, lines(episode("last"))]), encoding="utf-8")
    assert tasks(ViewerSource(path)) == ["first", *[None] * len(bad), "last"]


@pytest.mark.parametrize("field", ["env", "task", "seed", "stop", "team"])
def test_a_record_with_a_field_of_another_kind_is_no_episode(tmp_path, field):
    import json

    path = tmp_path / "e.jsonl"
    path.write_text(json.dumps(episode().to_dict() | {field: [1]}), encoding="utf-8")
    assert tasks(ViewerSource(path)) == [None]


def test_a_line_that_is_too_long_is_never_held(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "LONGEST_LINE", 1_000)
    path = tmp_path / "e.jsonl"
    path.write_text("x" * 5_500 + "\n" + lines(episode("after")), encoding="utf-8")
    assert tasks(ViewerSource(path)) == [None, "after"]


def test_compressed_files_are_read_as_far_as_they_go(tmp_path):
    path = tmp_path / "e.jsonl.gz"
    path.write_bytes(gzip.compress(lines(episode("one"), episode("two")).encode()))
    assert tasks(ViewerSource(path)) == ["one", "two"]
    path.write_bytes(path.read_bytes()[:-20])
    assert tasks(ViewerSource(path))[-1] is None
    path.write_bytes(b"not compressed")
    assert tasks(ViewerSource(path)) == [None]


def test_what_holds_no_episodes_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="neither a run folder nor a file of episodes"):
        find(tmp_path / "nope")
    with pytest.raises(CheckpointError, match=r"holds neither a run, nor episodes, nor recorded battles$"):
        find(tmp_path)
    save(tmp_path / "seed-0" / "episodes" / "eval-000000.jsonl", episode())
    with pytest.raises(CheckpointError, match=r"it holds runs, name one of them: seed-0$"):
        find(tmp_path)
