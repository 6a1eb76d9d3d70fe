"""Updates as they use devices: what is read from one, and several that work at once."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from palaver.trainers.algorithms.base import chosen
from palaver.trainers.algorithms.magrpo import MAGRPO
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update import updater as updater_module
from palaver.trainers.update.policy_update import PolicyUpdater
from palaver.trainers.update.update_records import micro_batches
from palaver.trainers.update.updater import Updater
from tests.trainers.learning import config, learners, played, policy, scattered, stale

aten = torch.ops.aten
READING = {aten._local_scalar_dense.default, aten.nonzero.default, aten.masked_select.default, aten.equal.default}


def in_masks_of_transformers() -> bool:
    """True within the check for packed sequences that older versions of transformers make in every pass."""
    frame = sys._getframe(2)
    while frame and not frame.f_code.co_filename.endswith("masking_utils.py"):
        frame = frame.f_back
    return frame is not None


class Reads(TorchDispatchMode):
    """Counts operations for which the host would wait for a GPU: reads of a number, and indexing by a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        by_index = func in (aten.index.Tensor, aten.index_put_.default, aten.index_put.default)
        masks = by_index and any(index is not None and index.dtype == torch.bool for index in args[1])
        self.count += (func in READING or masks) and not in_masks_of_transformers()
        return func(*args, **(kwargs or {}))


def test_reads_are_counted():
    with Reads() as reads:
        numbers = torch.arange(3.0)
        float(numbers[0])
        numbers[numbers > 1]
        numbers[numbers > 1] = 0.0
    assert reads.count == 3


def test_an_update_reads_as_often_with_many_micro_batches_as_with_one(monkeypatch):
    """With KL, entropy, clipped ratios and a critic on the trunk."""
    told, tolist = [], torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda self: told.append(self.shape) or tolist(self))
    counts, batches = [], []
    for micro in (10**6, 60):
        run = config(
            algorithm={"name": "iac", "surrogate": "clip", "entropy": 0.01, "epochs": 1, "minibatches": 1},
            critic={"model": "shared", "lr": 1e-3}, kl={"coef": 0.1}, train={"micro_tokens": micro},
        )  # fmt: skip
        team = {"a": policy(0), "b": policy(1)}
        table = stale(scattered(played(team, run), run))
        updater = Updater(chosen(run.algorithm), run, learners(team, run), Distributed("cpu", "fp32"))
        estimated = updater.estimate_advantages(table)
        told.clear()
        with Reads() as reads:
            metrics = updater.update(estimated, 1)
        counts.append((reads.count, len(told)))
        batches.append(len(list(micro_batches(table, table.rows_of(["a"]), micro))))
        assert metrics["a/kl"] == pytest.approx(0, abs=1e-5)
        assert metrics["a/entropy"] > 1
    assert batches[0] == 1 < batches[1]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("coef", [0.0, 0.1])
def test_updates_on_two_gpus_overlap_with_the_numbers_of_one_after_the_other(monkeypatch, coef):
    """Both compute on the CPU; each update waits until the other has begun."""
    found, both, update = [], threading.Barrier(2), PolicyUpdater.update
    for gpus in ({}, {"p0": "cuda:0", "p1": "cuda:1"}):
        run = config(kl={"coef": coef})
        team = {"a": policy(0), "b": policy(1)}
        table = scattered(played(team, run), run)
        with monkeypatch.context() as patch:
            if gpus:
                patch.setattr(updater_module, "place_of", lambda policy, gpus=gpus: gpus[policy.name])
                patch.setattr(PolicyUpdater, "update", lambda self, work: (both.wait(60), update(self, work))[1])
            updater = Updater(MAGRPO, run, learners(team, run), Distributed("cpu", "fp32", cores=1))
            metrics = updater.update(updater.estimate_advantages(table), 1)
        found.append((metrics, [p.tolist() for learner in updater.learners for p in learner.policy.parameters()]))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("places", "cores", "threads"),
    [
        (["cuda:0", "cuda:1", "cuda:0"], 1, [0, 1, 0]),
        (["cuda:0", "cuda:0"], 4, [0, 0]),
        (["worker a", "worker b"], 1, [0, 1]),
        (["", "", ""], 1, [0, 0, 0]),
        (["", "cuda:0"], 1, [0, 1]),
    ],
)
def test_which_updates_share_a_thread(monkeypatch, places, cores, threads):
    """The first thread of each place is started while the others wait for it."""
    count = len(set(threads))
    begun = threading.Barrier(count)
    policies = [SimpleNamespace(name=at, first=places.index(place) == at) for at, place in enumerate(places)]
    torch_threads = torch.get_num_threads()
    updater = SimpleNamespace(
        learners=[SimpleNamespace(policy=policy) for policy in policies],
        distributed=SimpleNamespace(cores=cores * torch_threads, device="cpu", size=1),
        independent=True,
        places=dict(enumerate(places)),
    )

    def thread_of(learner):
        if learner.policy.first:
            begun.wait(60)
        return threading.get_ident(), torch.get_num_threads()

    found = Updater._map_learners(updater, thread_of)
    assert [count for _, count in found] == [torch_threads] * len(places)
    names = [name for name, _ in found]
    assert [[a == b for b in names] for a in names] == [[a == b for b in threads] for a in threads]
