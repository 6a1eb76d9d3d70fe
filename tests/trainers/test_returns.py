"""The expected return: numbers by hand, and one definition whatever the algorithm."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from palaver.episodes import Episode
from palaver.trainers.algorithms.base import ALGORITHMS, algorithm
from palaver.trainers.config.loading import parse
from palaver.trainers.rollout.batch import make_batch
from palaver.trainers.rollout.metrics import describe, expected_returns
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import train
from tests.trainers.learning import episode
from tests.trainers.toys import register_toy, save_model


def test_by_hand():
    """Lane 0 pays a and b 1 and 3, then 4 and 0; lane 1 pays them 0, then 2 and 0. gamma 1/2.

    Team rewards 2, 2 and 0, 1: sums 4 and 1, discounted 3 and 1/2. What a says at the second turn of lane 0 pays 1,
    what b says at the first of lane 1 pays 2; half of it falls on the team: 4 - 1/2 and 1 - 1, 3 - 1/4 and 1/2 - 1.
    """
    lanes = [episode("0", 0, [(1.0, 3.0), (4.0, 0.0)]), episode("0", 1, [(0.0, 0.0), (2.0, 0.0)])]
    table = make_batch(lanes)
    keys = zip(table.agent.tolist(), table.turn.tolist(), table.episode.tolist(), strict=True)
    at = {key: row for row, key in enumerate(keys)}
    pull = torch.zeros(len(table), dtype=torch.float64)
    pull[at[0, 1, 0]], pull[at[1, 0, 1]] = 1.0, 2.0
    found = expected_returns(lanes, table, 0.5, pull)
    assert found == {
        "return/raw": 2.5, "return/raw_discounted": 1.75,
        "return/shaped": 1.75, "return/shaped_discounted": 1.125,
    }  # fmt: skip
    without = expected_returns(lanes, table, 0.5)
    assert (without["return/shaped"], without["return/shaped_discounted"]) == (2.5, 1.75)
    dropped = expected_returns([lanes[0], replace(lanes[1], stop="pruned")], table, 0.5, pull)
    assert list(dropped.values()) == [4.0, 3.0, 3.5, 2.75]


def test_each_side_s_return():
    """a: 1 + 4 and 0 + 2, mean 3.5; b: 3 and 0, mean 1.5. Nothing where all earn alike; `pruned` does not count."""
    lanes = [episode("0", 0, [(1.0, 3.0), (4.0, 0.0)]), episode("0", 1, [(0.0, 0.0), (2.0, 0.0)])]
    shown = describe([*lanes, replace(lanes[0], stop="pruned")])
    assert (shown["a/return"], shown["b/return"], shown["reward/mean"]) == (3.5, 1.5, 2.5)
    lost = describe([episode("0", 0, [(1.0, -1.0)]), episode("0", 1, [(1.0, -1.0)]), episode("0", 2, [(-1.0, 1.0)])])
    assert (lost["a/return"], lost["b/return"]) == pytest.approx((1 / 3, -1 / 3))
    assert "a/return" not in describe([episode("0", 0, [(1.0, 1.0), (2.0, 2.0)])])


def test_two_processes_count_as_one():
    lanes = [episode("0", 0, [(1.0, 3.0)]), episode("1", 0, [(5.0, 7.0)]), episode("1", 1, [(0.0, 0.0)])]
    parts = [(lanes[:1], make_batch(lanes[:1])), (lanes[1:], make_batch(lanes[1:]))]
    heard = []
    for some, table in parts:
        expected_returns(some, table, 0.5, total=lambda *numbers: heard.append(numbers) or numbers)
    summed = [sum(pair) for pair in zip(*heard, strict=True)]
    both = expected_returns(*parts[0], 0.5, total=lambda *_: summed)
    assert both == expected_returns(lanes, make_batch(lanes), 0.5)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> tuple[str, str]:
    register_toy()
    folder = tmp_path_factory.mktemp("models")
    return save_model(folder / "m", 0), save_model(folder / "other", 1)


def first_step(models, folder, place: str, name: str, level: str = "auto") -> tuple[dict, list[Episode]]:
    config = parse({
        "env": {"id": "lengths-v0", "turns": 2}, "policy": {"model": models[0], "max_tokens": 6},
        "algorithm": {
            "name": name, "group_size": 2, "discount": 0.5, "turns": "tree", "joint": "aligned", "gae_lambda": 0.5,
            "minibatches": 1,
        },
        "critic": {"level": level},
        "kl": {"coef": 0.1, "place": place, "estimator": "k2", "reference": f"model:{models[1]}"},
        "train": {"steps": 1}, "eval": {"n": 0}, "device": "cpu", "log": {"tensorboard": False},
    })  # fmt: skip
    (line,) = read_metrics(train(config, folder) / "metrics.jsonl")
    lines = (folder / "episodes" / "train-000001.jsonl").read_text().splitlines()
    return line, [Episode.from_dict(json.loads(text)) for text in lines]


NAMES = ("return/raw", "return/raw_discounted", "return/shaped", "return/shaped_discounted")


def test_every_algorithm_logs_one_definition(models, tmp_path):
    """Before anything is learned all algorithms play the same episodes: they must call them equally good."""
    rows = [algorithm(name) for name in ALGORITHMS]
    # the pull of pairs stands in their own loss, not in the reward; the others refuse two agents that act at once
    able = [row.name for row in rows if not (row.pairs or row.alone or row.in_turn or row.aligned)]
    assert {"magrpo", "dapo", "ippo", "rae", "qmix"} <= {*able}
    lines = {name: first_step(models, tmp_path / name, "reward", name) for name in able}
    lines["cory, as a row"] = first_step(models, tmp_path / "token", "reward", "ippo", "token")
    first, played = lines["magrpo"]
    assert first["return/raw"] == pytest.approx(sum(e.team_return() for e in played) / len(played))
    assert first["return/raw"] == pytest.approx(first["reward/mean"])
    assert first["return/raw_discounted"] == pytest.approx(sum(e.team_return(0.5) for e in played) / len(played))
    assert first["return/shaped"] < first["return/shaped_discounted"] < 0 < first["return/raw_discounted"]
    for name, (line, _) in lines.items():
        assert [line[key] for key in NAMES] == pytest.approx([first[key] for key in NAMES]), name
        assert line["completions"] == 2 * (2 + 4), "two agents; two candidates, then two for each of two"
    assert lines["ippo"][0]["return/target"] == pytest.approx(lines["iac"][0]["return/target"])
    assert lines["rae"][0]["return/target"] == pytest.approx(first["return/shaped_discounted"]), "agents are paid alike"


def test_where_the_pull_stands_changes_nothing(models, tmp_path):
    shaped = [first_step(models, tmp_path / place, place, "magrpo")[0] for place in ("reward", "loss", "advantage")]
    for line in shaped[1:]:
        assert [line[key] for key in NAMES] == pytest.approx([shaped[0][key] for key in NAMES])
