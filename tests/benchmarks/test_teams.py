"""`palaver bench teams`: the same work for every kind, counted and measured as documented."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest
import torch
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from palaver.benchmarks.performance import team_worker
from palaver.benchmarks.performance.teams import (
    KINDS,
    SIZES,
    SPARE,
    Models,
    TeamBenchmark,
    TeamMeasurement,
    combined,
    measure,
    refuse_what_does_not_fit,
    relative_to_one,
    run,
)
from palaver.benchmarks.performance.training import toy
from palaver.benchmarks.performance.training.peer import PeakMemory
from palaver.benchmarks.performance.training.settings import ModelShape, parameters
from palaver.core import ConfigError

MIB = 1 << 20
linux = pytest.mark.skipif(not PeakMemory("cpu").possible, reason="needs the kernel's high-water mark")
ORDER = TeamMeasurement(kind="one", size="0.1M", agents=4, group=2, new_tokens=8, steps=2, rank=4, folder="")


def replace(order, **changes):
    return order.model_copy(update=changes)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("crowd")
    team_worker.write(Models("0.1M", str(folder)))
    return str(folder)


@pytest.mark.parametrize("name", SIZES)
def test_the_counted_weights_are_the_models(name):
    with torch.device("meta"):
        made = Qwen3ForCausalLM(Qwen3Config(**SIZES[name].model()))
    norms = sum(p.numel() for key, p in made.named_parameters() if "norm" in key)
    assert parameters(SIZES[name]) == made.num_parameters() - norms
    assert norms < 0.01 * made.num_parameters()
    if name[0].isdigit():
        assert parameters(SIZES[name]) == pytest.approx(float(name[:-1]) * 1e6, rel=0.1)


def test_what_is_needed_is_reckoned_as_by_hand():
    weights = parameters(SIZES["25M"])
    order = replace(ORDER, size="25M")
    assert [replace(order, kind=kind).needed / weights for kind in KINDS] == [20, 68, 20, 8, 68]
    half = replace(ORDER, size="Qwen3-0.6B")
    assert [replace(half, kind=kind).needed / parameters(SIZES["Qwen3-0.6B"]) for kind in KINDS] == [18, 60, 18, 4, 60]


def test_what_does_not_fit_is_refused_in_one_line():
    needed = TeamBenchmark(size="80M").order("separate", "").needed + SPARE
    refuse_what_does_not_fit(TeamBenchmark(size="80M"), needed)
    with pytest.raises(ConfigError, match=r"'separate' at 80M takes about 6.0 GiB, but 6.0 GiB are free") as raised:
        refuse_what_does_not_fit(TeamBenchmark(size="80M"), needed - 1)
    assert "\n" not in str(raised.value)
    refuse_what_does_not_fit(TeamBenchmark(kinds=("shared", "lora"), size="80M"), needed - 1)
    refuse_what_does_not_fit(TeamBenchmark(size="80M", device="cuda"), 0)


def test_the_environment_pays_for_the_mean_length():
    env = toy.MeanLength(["a1", "a2", "a3"], 2, 100)
    told, _ = env.reset(options={"task": "001"})
    assert told["a3"] == "Task 001: describe the garden. describe the garden. \na3"
    _, rewards, ended, _, _ = env.step({"a1": "x" * 30, "a2": "", "a3": "y" * 120})  # mean 50, off by half of 100
    assert rewards == dict.fromkeys(("a1", "a2", "a3"), 1 / 1.5)
    assert all(ended.values())


def test_the_two_models_are_of_like_size_and_read_otherwise(models):
    counted = {name: json.loads((Path(models) / name / "config.json").read_text()) for name in ("own", "other")}
    assert [counted[name]["model_type"] for name in ("own", "other")] == ["qwen3", "llama"]
    own, other = (AutoTokenizer.from_pretrained(Path(models) / name) for name in ("own", "other"))
    assert own.encode("garden") != other.encode("garden")
    assert other.decode(other.encode("garden")) == "garden"


# 0.1M: hidden 64, inner 128, 4 heads of 16 for queries, 2 for keys and values, 512 words, norms 2 x (2 x 64 + 2 x 16)
# in the layers and 64 at the end; the other model has no norms of heads
LAYER = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128
OWN = 2 * (LAYER + 160) + 64 + 512 * 64
OTHER = OWN - 2 * 32
RANK = 4
ADAPTER = 2 * RANK * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 128))
TRAINED = {
    "one": (OWN, OWN),
    "separate": (4 * OWN, 4 * OWN),
    "shared": (OWN, OWN),
    "lora": (4 * ADAPTER, OWN + 4 * ADAPTER),
    "heterogeneous": (2 * OWN + 2 * OTHER, 2 * OWN + 2 * OTHER),
}


@pytest.mark.parametrize("kind", KINDS)
def test_measured(models, kind):
    found = team_worker.measure(replace(ORDER, kind=kind, folder=models))
    assert (found["trained"], found["held"]) == TRAINED[kind]
    assert len(found["steps"]) == 2
    agents = 1 if kind == "one" else 4
    for step in found["steps"]:
        assert 2 * agents <= step["tokens"] <= 2 * agents * 8
        assert step["trained_share"] == 1.0
        for clock in ("wall_s", "cpu_s"):
            assert step["step"][clock] == pytest.approx(step["rollout"][clock] + step["update"][clock])
            assert min(step["rollout"][clock], step["update"][clock]) > 0


@linux
def test_the_peak_is_what_the_models_take(monkeypatch, tmp_path):
    shape = ModelShape("5M", 256, 6, 4, 4, 64, 640, 512, 4)
    monkeypatch.setitem(SIZES, "5M", shape)
    team_worker.write(Models("5M", str(tmp_path)))
    order = replace(ORDER, size="5M", folder=str(tmp_path), new_tokens=4)
    one, four = (team_worker.measure(replace(order, kind=kind))["peak_bytes"] for kind in ("one", "separate"))
    weights = parameters(shape)
    assert order.needed <= one < order.needed + 100 * MIB
    # of three more models weights, the copy for generation and two moments
    assert four - one == pytest.approx(3 * 16 * weights, rel=0.3)


STEP = {"step": {"wall_s": 3.0, "cpu_s": 2.0}, "rollout": {"wall_s": 1.0, "cpu_s": 0.5},
        "update": {"wall_s": 2.0, "cpu_s": 1.5}, "tokens": 100.0, "trained_share": 1.0}  # fmt: skip


def _run(peak, *walls):
    steps = [STEP | {"step": {"wall_s": wall, "cpu_s": wall / 2}, "tokens": 100 * wall} for wall in walls]
    return {"peak_bytes": peak, "trained": 7, "held": 9, "steps": steps}


def test_processes_are_combined_by_the_median_of_all_steps():
    found = combined([_run(5, 1.0, 9.0), _run(8, 4.0)])
    assert (found["peak_bytes"], found["trained"], found["held"]) == (8, 7, 9)
    assert found["step"] == {"wall_s": 4.0, "cpu_s": 2.0}
    assert found["tokens"] == pytest.approx(1400 / 3)
    assert combined([_run(5, 1.0), _run(None, 1.0)])["peak_bytes"] is None


def test_memory_is_told_beside_one_agents():
    one, more = ({"kind": kind, **combined([_run(peak, 1.0)])} for kind, peak in (("one", 4), ("lora", 5)))
    assert [relative_to_one(each, [one, more])["memory_of_one"] for each in (one, more)] == [1.0, 1.25]
    assert relative_to_one(more, [more])["memory_of_one"] is None
    unknown = one | {"peak_bytes": None}
    assert relative_to_one(more, [unknown, more])["memory_of_one"] is None


def test_kinds_take_turns_and_the_folder_goes(monkeypatch):
    seen, lines = [], []

    def measured(self):
        seen.append((self.kind, self.folder))
        return _run(4, 1.0)

    monkeypatch.setattr(Models, "run", lambda self: {"own": 1, "other": 2})
    monkeypatch.setattr(TeamMeasurement, "run", measured)
    report = measure(TeamBenchmark(kinds=("one", "lora"), repeats=2, new_tokens=3), lines.append)
    assert [kind for kind, _ in seen] == ["one", "lora", "one", "lora"]
    (folder,) = {folder for _, folder in seen}
    assert not Path(folder).exists()
    assert lines == ["models of 80M", "one, 1 of 2", "lora, 1 of 2", "one, 2 of 2", "lora, 2 of 2"]
    assert report["work"] == {"group": 4, "prompts": 1, "new_tokens": 3, "steps": 3, "rank": 16}
    assert [len(result["runs"]) for result in report["results"]] == [2, 2]


@pytest.mark.slow
def test_measured_and_printed(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Free", (), {"available": 8 << 30}))
    out = tmp_path / "teams.json"
    run(TeamBenchmark(kinds=("one",), size="0.1M", agents=2, group=2, new_tokens=4, steps=1), as_json=True, out=out)
    printed = json.loads(capsys.readouterr().out)
    assert json.loads(out.read_text()) == printed
    (one,) = printed["results"]
    assert (one["kind"], one["trained"], one["memory_of_one"]) == ("one", OWN, 1.0 if one["peak_bytes"] else None)
    assert printed["parameters"] == {"own": OWN, "other": OTHER}


def test_the_table(capsys, monkeypatch):
    monkeypatch.setattr(Models, "run", lambda self: {"own": 1, "other": 2})
    monkeypatch.setattr(TeamMeasurement, "run", lambda self: _run((3 if self.kind == "one" else 4) << 30, 1.5))
    run(TeamBenchmark(kinds=("one", "lora"), size="0.1M"))
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(("one agent", "lora"))]
    numbers = ["1.50", "1.00", "2.00", "0.75", "150"]
    assert rows == [
        ["one", "agent", "0.0", "0.0", "3.00", "1.00", *numbers],
        ["lora", "0.0", "0.0", "4.00", "1.33", *numbers],
    ]
