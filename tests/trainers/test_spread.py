"""Work spread over processes: evaluations, sums of gradients, devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from palaver.core import ConfigError
from palaver.trainers.policy_gradient import PolicyGradientLoop
from palaver.trainers.run import distributed as distributed_module
from palaver.trainers.run.distributed import Distributed, buckets
from palaver.trainers.train import prepare, train
from palaver.utils.config import dump
from tests.trainers.test_train import ROOT, SCRIPT, config, numbers
from tests.trainers.toys import register_toy, save_model


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    register_toy()
    return save_model(tmp_path_factory.mktemp("model") / "m")


def test_an_evaluation_of_two_processes_is_that_of_one(model, tmp_path, monkeypatch):
    """Three tasks of two samples: one process plays the first and the third, the other the second."""
    seen = []

    def evaluation(self, step):
        run, whole = self.session, whole_evaluation(self, step)
        parts: list[list] = []
        for rank in range(2):
            run.distributed = part(rank, lambda items: parts.append(items) or items)
            whole_evaluation(self, step)
        gathered = []
        for rank in range(2):
            run.distributed = part(rank, lambda items: [*parts[0], *parts[1]])
            gathered.append(whole_evaluation(self, step))
        run.distributed = one
        seen.append((whole, gathered, parts))
        return whole

    one = Distributed("cpu", "fp32")

    def part(rank, gather):
        return SimpleNamespace(shard=lambda items: items[rank::2], gather=gather)

    whole_evaluation = PolicyGradientLoop.evaluation
    monkeypatch.setattr(PolicyGradientLoop, "evaluation", evaluation)
    train(config(model, train={"steps": 1}, eval={"n": 3, "samples": 2}), tmp_path / "run")
    for whole, gathered, parts in seen:
        assert [len(part) for part in parts] == [4, 2]
        assert len({episode.task for episode in whole[0]}) == 3
        for found in gathered:  # the last digits of log-probs depend on the batch, texts and numbers do not
            assert found[1] == whole[1]
            assert list(map(texts, found[0])) == list(map(texts, whole[0]))
    assert len(seen) == 2


def texts(episode) -> tuple:
    return episode.task, episode.seed, [[c.text for c in turn.completions.values()] for turn in episode.turns]


@pytest.mark.slow  # two processes; their parts are compared above in one
def test_an_evaluation_of_two_gloo_processes_is_that_of_one(model, tmp_path):
    """Untrained policies, so that nothing but the evaluation can differ: every number and every episode."""
    run = config(model, train={"steps": 1, "prompts_per_step": 2}, eval={"n": 3, "samples": 2}, optim={"lr": 1e-9})
    recipe, script = tmp_path / "recipe.yaml", tmp_path / "script.py"
    recipe.write_text(dump(run), encoding="utf-8")
    script.write_text(SCRIPT, encoding="utf-8")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [*launch, str(script), str(recipe), str(tmp_path / "two"), "fresh"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=400)
    one, two = train(run, tmp_path / "one"), tmp_path / "two"
    evaluations = [[line for line in numbers(folder) if line["kind"] == "eval"] for folder in (one, two)]
    assert evaluations[0][0] == evaluations[1][0]
    assert evaluations[0][0]["n"] == 6
    assert episodes(one) == episodes(two)


def episodes(folder: Path) -> list[dict]:
    """The episodes of the first evaluation."""
    path = next(iter(sorted((folder / "episodes").glob("eval*0.jsonl"))))
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_buckets_hold_neighbours_of_one_dtype_up_to_their_size():
    """Bytes 40, 40, 400, 8 (fp64), 40: 100 a bucket."""
    tensors = [
        torch.zeros(n, dtype=kind)
        for n, kind in (
            (10, torch.float32),
            (10, torch.float32),
            (100, torch.float32),
            (1, torch.float64),
            (10, torch.float32),
        )
    ]
    assert [[t.numel() for t in bucket] for bucket in buckets(tensors, 100)] == [[10, 10], [100], [1], [10]]
    assert [[t.numel() for t in bucket] for bucket in buckets(tensors, 79)] == [[10], [10], [100], [1], [10]]
    assert list(buckets([], 100)) == []


def test_gradients_are_summed_in_place_and_in_buckets(monkeypatch):
    """The other process has three times our gradients; parameters without one take part as zeros."""
    world = Distributed("cpu", "fp32")
    world.size = 2
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in ((3, 2), (4,), (50,), (2, 2))]
    frozen = nn.Parameter(torch.zeros(3), requires_grad=False)
    for index, parameter in enumerate(parameters[:3]):
        parameter.grad = torch.arange(parameter.numel()).view(parameter.shape) + float(index)
    parameters[3].grad = torch.arange(4.0).view(2, 2).t()  # not contiguous
    parameters.append(nn.Parameter(torch.zeros(1)))
    before = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in parameters]
    memory = [None if p.grad is None else p.grad.data_ptr() for p in parameters]
    messages = []

    def all_reduce(tensor):
        messages.append(tensor.nbytes)
        tensor.mul_(4)

    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    monkeypatch.setattr(distributed_module, "BUCKET_BYTES", 64)
    world.sum_gradients([*parameters, frozen])
    assert messages == [24 + 16, 200, 16 + 4]
    for parameter, old, address in zip(parameters, before, memory, strict=True):
        assert torch.equal(parameter.grad, 4 * old)
        assert address in (None, parameter.grad.data_ptr())
    assert frozen.grad is None


def test_the_wait_for_other_processes_has_an_end(monkeypatch):
    handlers = []

    def accelerator(**keywords):
        handlers.extend(keywords["kwargs_handlers"])
        return real(**keywords)

    real = distributed_module.Accelerator
    monkeypatch.setattr(distributed_module, "Accelerator", accelerator)
    Distributed("cpu", "fp32")
    assert [handler.timeout for handler in handlers] == [timedelta(hours=2)]


def test_one_gpu_by_its_number_is_refused_for_several_processes(model, monkeypatch):
    several = {"kind": "heterogeneous", "agents": {"a": {"device": "cuda:1"}}}
    prepare(config(model, device="cuda:1"))
    monkeypatch.setenv("WORLD_SIZE", "2")
    prepare(config(model, device="cuda"))
    with pytest.raises(ConfigError, match=r"device=cuda:1 is one GPU for 2 processes: set device=cuda"):
        prepare(config(model, device="cuda:1"))
    with pytest.raises(ConfigError, match=r"team.agents.a.device=cuda:1 is one GPU for 2 processes"):
        prepare(config(model, team=several))


def test_the_device_of_a_process(monkeypatch):
    """`cuda` is each process's own GPU where there are several; a number is made the current GPU before anything."""
    order = []

    class Accelerator(distributed_module.Accelerator):
        def __init__(self, **keywords):
            order.append("accelerator")
            super().__init__(**keywords)

        num_processes, device = 2, torch.device("cuda:1")

    monkeypatch.setattr(distributed_module, "Accelerator", Accelerator)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", order.append)
    assert [Distributed(name, "fp32").device for name in ("cuda", "auto", "cpu")] == ["cuda:1", "cuda:1", "cpu"]
    assert order == ["accelerator"] * 3
    assert Distributed("cuda:3", "fp32").device == "cuda:3"
    assert order[3:] == ["cuda:3", "accelerator"]
