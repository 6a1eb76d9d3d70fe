"""Batches of trajectories: what stands where, how many places, in which order, how often."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import torch

from palaver.core import CheckpointError, ConfigError
from palaver.trainers.trajectories.files import Writer
from palaver.trainers.trajectories.loader import batches, draw, plan
from palaver.trainers.trajectories.reader import Reader
from tests.trainers.battles.made import battle, decision, trajectory


def vocabulary(words):
    """`w7` -> 1007; the labels of actions -> 1."""
    return [1000 + int(word[1:]) if word[:1] == "w" else 1 for word in words]


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("battles")
    with Writer(folder) as one, Writer(folder) as other:
        for n in range(20):
            (one, other)[n % 2].add(*battle(n, decisions=1 + n % 7))
    return Reader(folder)


def test_every_place_holds_what_was_recorded(reader):
    seen = Counter()
    for batch in batches(reader, vocabulary, 24, seed=3, epoch=0):
        B, S = batch.slot.shape
        assert batch.words.shape == (B, S, 5)
        assert batch.numbers.shape == (B, S, 3)
        assert batch.mask.shape == (B, S, 14)
        assert (batch.words.dtype, batch.numbers.dtype, batch.slot.dtype) == (torch.int64, torch.float32, torch.int64)
        assert batch.mask.dtype == batch.real.dtype == torch.bool
        for row in range(B):
            length = int(batch.real[row].sum())
            n = round(float(batch.numbers[row, 0, 0]))
            side = length - 1 - n % 7  # the second side of the tests' battles has one decision more
            wanted = battle(n, decisions=1 + n % 7)[side]
            seen[n, side] += 1
            assert batch.result[row] == wanted.result
            assert batch.real[row, :length].all()
            for step, each in enumerate(wanted.decisions):
                assert batch.words[row, step].tolist() == vocabulary(each.words)
                assert np.array_equal(batch.numbers[row, step], each.numbers)
                assert np.array_equal(batch.mask[row, step], each.mask)
                assert batch.slot[row, step] == each.slot
                assert batch.reward[row, step] == pytest.approx(each.reward)
            assert (batch.slot[row, length:] == -1).all()
            assert batch.mask[row, length:].all()
            assert not batch.words[row, length:].any()
    assert seen == Counter(itertools.product(range(20), (0, 1)))


def test_a_batch_has_no_more_places_than_asked(reader):
    sizes = [batch.slot.numel() for batch in batches(reader, vocabulary, 24, seed=0, epoch=0)]
    assert max(sizes) <= 24
    real = sum(entry.decisions for entry in reader.entries)
    assert sum(sizes) < 1.25 * real  # neighbours in length: little padding
    assert [batch.slot.shape[0] for batch in batches(reader, vocabulary, 1, seed=0, epoch=0)] == [1] * 40


def test_the_order_is_that_of_seed_and_epoch(reader):
    def order(seed, epoch, **more):
        return [batch.numbers[:, 0, 0].tolist() for batch in batches(reader, vocabulary, 24, seed, epoch, **more)]

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) != order(1, 0)
    assert order(0, 0, skip=3) == order(0, 0)[3:]


def test_weights_say_how_often(reader):
    weights = [2.0 if entry.side == "p1" else 0.0 for entry in reader.entries]
    drawn = Counter(n for batch in plan([e.decisions for e in reader.entries], 24, 0, 0, weights) for n in batch)
    assert drawn == {n: 2 for n in range(40) if weights[n]}


def test_each_is_drawn_as_often_as_its_share_rounded_up_or_down():
    rng = np.random.default_rng(0)
    weights = [0.5, 0, 3.25, 1, 0.25]  # of 5 draws: 0.5, 0, 3.25, 1, 0.25
    drawn = [np.bincount(draw(weights, 5, rng), minlength=5) for _ in range(2000)]
    assert all(each.sum() == 5 for each in drawn)
    assert np.abs(np.array(drawn) - weights).max() < 1
    assert np.abs(np.mean(drawn, axis=0) - weights).max() < 0.05  # 4 standard errors of a fair coin
    assert sorted(draw([0.1] * 1000, 1000, rng)) == list(range(1000))


@pytest.mark.parametrize("weights", [[1.0], [0.0] * 40, [-1.0] + [1.0] * 39, [float("nan")] * 40])
def test_weights_that_say_nothing_are_refused(reader, weights):
    with pytest.raises(ConfigError, match="weights must be 40 numbers"):
        next(batches(reader, vocabulary, 24, 0, 0, weights))


def test_an_empty_budget_is_refused_and_an_empty_selection_has_no_batch(reader):
    with pytest.raises(ConfigError, match="1 decision or more"):
        next(batches(reader, vocabulary, 0, 0, 0))
    assert list(batches(reader.select(player="nobody"), vocabulary, 24, 0, 0)) == []


def test_battles_of_two_versions_are_not_mixed(tmp_path):
    with Writer(tmp_path) as writer:
        writer.add(trajectory(0))
        writer.add(trajectory(1, decisions=[decision(1, step, W=6) for step in range(4)]))
    with pytest.raises(CheckpointError, match="cannot be learnt from together"):
        list(batches(Reader(tmp_path), vocabulary, 100, 0, 0))
