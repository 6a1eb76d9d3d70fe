"""Rows of others: submitted, verified by a replay, ranked; tampered ones are refused."""

from __future__ import annotations

import gzip
import hashlib
import json

import pytest

from palaver.benchmarks.evaluation.evaluate import EvaluationConfig, measure, to_row
from palaver.benchmarks.evaluation.results import load
from palaver.benchmarks.leaderboard import submissions
from palaver.benchmarks.leaderboard.page import board_page, markdown
from palaver.benchmarks.leaderboard.read import ranks, read
from palaver.core import ConfigError
from tests.benchmarks.leaderboard.boards import COMMIT, change

SUBMITTED = {"submitter": "Ann <b>Lee</b>", "model": "tiny", "size": "413k"}


@pytest.fixture
def row(tmp_path):
    """The row of a team in echo-v0, as `palaver evaluate --row` writes it."""
    result, episodes = measure(EvaluationConfig("echo-v0", team="random", n=4))
    path = tmp_path / "mine" / f"{to_row(result, episodes, 'theirs', tmp_path / 'mine').name}.json"
    change(path, commit=COMMIT)
    return path


def tamper(path, edit):
    """Change the stored episodes, and all that the row says of them."""
    stored = path.with_name(load(path).episodes.file)
    records = [json.loads(line) for line in gzip.decompress(stored.read_bytes()).splitlines()]
    for record in records:
        edit(record)
    text = "".join(json.dumps(record) + "\n" for record in records).encode()
    stored.write_bytes(gzip.compress(text, mtime=0))
    change(path, episodes=load(path).episodes.model_dump() | {"sha256": hashlib.sha256(text).hexdigest()})


def test_a_submission_is_verified_and_ranked(row, tmp_path):
    path = submissions.submit(row, tmp_path / "board", **SUBMITTED)
    assert path.name == row.name
    verified, replayed = submissions.verify(path)
    assert replayed == "4 episodes replayed, with the rewards that it states"
    assert verified.row.submission.submitter == SUBMITTED["submitter"]
    reference, episodes = measure(EvaluationConfig("echo-v0", team="scripted:reference", n=4))
    to_row(reference, episodes, "reference", tmp_path / "board")
    change(tmp_path / "board" / "echo-v0--reference.json", commit=COMMIT)
    board = read(tmp_path / "board")
    assert board.refused == ()
    assert ranks(board.rows) == {"echo-v0--reference": (1, 1), "echo-v0--theirs": (2, 2)}
    page, table = board_page(board, tmp_path), markdown(board, (), "x.html", tmp_path)
    assert "Ann &lt;b&gt;Lee&lt;/b&gt; (tiny, 413k, 2" in page
    assert "Ann <b>" not in page + table
    assert "Ann \\<b>Lee" in table


def test_ranks_are_those_that_intervals_leave_open(row, tmp_path):
    """Rows with the intervals [3, 5], [2, 4] and [0, 1] have the ranks 1-2, 1-2 and 3; other seeds are another list."""
    (path,) = [submissions.submit(row, tmp_path / "board", **SUBMITTED)]
    verified, _ = submissions.verify(path)
    bounds = {"a": (3.0, 5.0, 0), "b": (2.0, 4.0, 0), "c": (0.0, 1.0, 0), "d": (0.0, 1.0, 1)}
    rows = [
        type(verified)(
            verified.row.model_copy(update={"label": label, "low": low, "high": high, "seed": seed}), path, (), ()
        )
        for label, (low, high, seed) in bounds.items()
    ]
    assert list(ranks(rows).values()) == [(1, 2), (1, 2), (3, 3), (1, 1)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mean": 4.0}, "where its episodes give .*: mean"),
        ({"low": 4.0}, "where its episodes give .*: lower end"),
        ({"high": 4.5}, "where its episodes give .*: upper end"),
        ({"commit": ""}, "neither a commit nor a wheel"),
        ({"commit": "", "wheel": "0.1.0-abc+"}, "its code differed from 0.1.0-abc"),
        ({"answers": {"due": 24, "illegal": 0}}, "illegal of"),
        ({"env": "nowhere:Env"}, "No module named 'nowhere'"),
        ({"env": "crossing-v0"}, "there is no environment 'crossing-v0'"),
    ],
)
def test_a_tampered_row_is_refused(row, tmp_path, fields, message):
    change(row, **fields)
    with pytest.raises(ConfigError, match=message):
        submissions.submit(row, tmp_path / "board", **SUBMITTED)
    with pytest.raises(ConfigError, match=message):
        submissions.verify(row)


def test_tampered_rewards_are_refused(row):
    """Although hash, mean, interval and returns by task are those of the tampered episodes."""

    def raised(record):
        for turn in record["turns"]:
            turn["rewards"] = dict.fromkeys(turn["rewards"], 1.5)
            turn["components"] = {agent: {"echo": 1.0, "brevity": 0.5} for agent in turn["rewards"]}

    tamper(row, raised)
    returns = dict.fromkeys(load(row).by_task, 4.5)
    change(row, mean=4.5, low=4.5, high=4.5, by_task=returns)
    with pytest.raises(ConfigError, match=r"a replay of its 4 episodes differs .* other rewards in 4"):
        submissions.verify(row)


def test_tampered_answers_are_refused(row):
    def answered(record):
        for completion in record["turns"][0]["completions"].values():
            completion["text"] = "fox"

    tamper(row, answered)
    with pytest.raises(ConfigError, match="a replay of its 4 episodes differs"):
        submissions.verify(row)


def test_a_row_of_an_installed_wheel(row):
    change(row, commit="", wheel="0.1.0-0123456789ab")
    verified, _ = submissions.verify(row)
    assert verified.row.wheel == "0.1.0-0123456789ab"


@pytest.mark.parametrize("submitter", ["", " ", "x" * 121])
def test_a_submitter_has_a_name(row, tmp_path, submitter):
    with pytest.raises(ConfigError, match="submitter"):
        submissions.submit(row, tmp_path / "board", submitter=submitter, model="", size="")
