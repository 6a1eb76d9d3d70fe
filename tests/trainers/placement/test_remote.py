"""Policies behind a pickling boundary: the same numbers as in this process, and runs that outlive their workers."""

from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console

from palaver.core import ConfigError, PolicyError
from palaver.trainers.config.loading import load, parse
from palaver.trainers.config.placement import PlacementConfig, refuse_placement, workers
from palaver.trainers.config.team import TeamConfig
from palaver.trainers.objectives.losses import reinforce
from palaver.trainers.placement.ray_workers import PlacementLostError, cluster, refuse_short
from palaver.trainers.run import checkpoint
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import resume, train
from palaver.trainers.update.update_records import UpdateInput
from tests.trainers.learning import config as toy_config
from tests.trainers.learning import played, policy, scattered
from tests.trainers.placement.loopback import Loopback
from tests.trainers.toys import register_toy, save_model

TIMINGS = ("wall_s", "cpu_s", "tokens_per_s", "time/")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    register_toy()
    return save_model(tmp_path_factory.mktemp("model") / "m")


def run_config(model, name="magrpo", kind="separate", placement="ray", **sections):
    values = {
        "env": {"id": "lengths-v0", "turns": 2},
        "policy": {"model": model, "max_tokens": 6},
        "team": {"kind": kind, **({"agents": {"a": {"model": model}}} if kind == "heterogeneous" else {})},
        "algorithm": {"name": name, "group_size": 2},
        "optim": {"lr": 1e-3},
        "critic": {"lr": 1e-3},
        "train": {"steps": 3, "checkpoint_every": 2, "prompts_per_step": 1},
        "eval": {"n": 1},
        "log": {"tensorboard": False},
        "placement": {"kind": placement},
        "device": "cpu",
    }
    for key, value in sections.items():
        values[key] = value if key == "env" else {**values.get(key, {}), **value}
    return parse(values)


def numbers(folder):
    """Metrics without timings; NaN, which equals nothing, as text."""
    return [
        {key: str(value) for key, value in line.items() if not any(part in key for part in TIMINGS)}
        for line in read_metrics(folder / "metrics.jsonl")
    ]


def both(model, tmp_path, monkeypatch, *arguments, **sections):
    """Metrics of a run in this process, and of the same run behind the boundary."""
    Loopback().install(monkeypatch)
    for kind in ("local", "ray"):
        train(run_config(model, *arguments, placement=kind, **sections), tmp_path / kind, console=quiet())
    return numbers(tmp_path / "local"), numbers(tmp_path / "ray")


def quiet():
    return Console(file=io.StringIO())


KINDS = ("separate", "shared", "lora", "heterogeneous")
ALGORITHMS = ("magrpo", "ippo", "mappo", "happo", "madpo", "qmix")
UNDEFINED = {("happo", "shared")}  # one policy has no order


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_run_on_workers_equals_the_run_in_this_process(model, tmp_path, monkeypatch, name, kind):
    if (name, kind) in UNDEFINED:
        pytest.skip("one policy has no order")
    kl = {"coef": 0.1, "place": "loss" if name == "madpo" else "reward"}
    local, remote = both(model, tmp_path, monkeypatch, name, kind, kl=kl)
    assert len(local) == 5
    assert local == remote


@pytest.mark.parametrize(
    "sections",
    [
        {"critic": {"model": "shared", "level": "token"}, "algorithm": {"name": "ippo", "minibatches": 2}},
        {"critic": {"model": "shared", "level": "completion"}, "algorithm": {"name": "iac", "group_size": 2}},
        {"algorithm": {"name": "qmix", "group_size": 2, "mixer": {"encoder": "words"}}},
        {"kl": {"coef": 0.1, "reference": "lag:1", "target": 0.01, "horizon": 12}},
        {"algorithm": {"name": "cory"}, "team": {"kind": "separate", "swap_every": 1}, "env": {"id": "chain-v0"}},
    ],
    ids=["trunk-token", "trunk", "words", "lag", "cory"],
)
def test_what_else_touches_a_model(model, tmp_path, monkeypatch, sections):
    local, remote = both(model, tmp_path, monkeypatch, **sections)
    assert local == remote


def test_turns_with_tools_are_those_of_this_process(tmp_path, monkeypatch):
    """The shipped model calls the calculator in every other answer; each answer of a turn is a row of an update."""
    Loopback().install(monkeypatch)
    changes = ["train.steps=2", "train.prompts_per_step=1", "eval.n=1", "eval.samples=1", "log.tensorboard=false"]
    for kind in ("local", "ray"):
        config = load("maths-calculator", [*changes, f"placement.kind={kind}", "device=cpu"])
        train(config, tmp_path / kind, console=quiet())
    local, remote = numbers(tmp_path / "local"), numbers(tmp_path / "ray")
    assert any(float(line["metric/tool_calls"]) > 0 for line in local if line["kind"] == "train")
    assert local == remote


def test_checkpoints_of_workers_are_those_of_this_process(model, tmp_path, monkeypatch):
    both(model, tmp_path, monkeypatch, "ippo")
    local, remote = (checkpoint.newest(tmp_path / kind)[0] for kind in ("local", "ray"))
    for file in ("optimizers/a.pt", "updater.pt"):
        ours, theirs = (torch.load(folder / file, weights_only=True) for folder in (local, remote))
        torch.testing.assert_close(theirs, ours, rtol=0, atol=0)
    assert checkpoint.version_of(local, "a") == checkpoint.version_of(remote, "a") > 0
    weights = "policies/a/model.safetensors"
    assert (local / weights).read_bytes() == (remote / weights).read_bytes()


LOSSES = [("act", 1), ("act", 5), ("update", 1), ("update", 4), ("save", 1), ("save", 3), ("save_optimizer", 2)]


@pytest.mark.parametrize("loss", LOSSES, ids=[f"{method}-{number}" for method, number in LOSSES])
def test_a_lost_worker_is_replaced_and_the_numbers_stay(model, tmp_path, monkeypatch, loss):
    train(run_config(model, placement="local"), tmp_path / "local", console=quiet())
    lossy = Loopback(loss).install(monkeypatch)
    console = quiet()
    train(run_config(model), tmp_path / "ray", console=console)
    assert not lossy.losses, "the worker was never lost"
    assert f"lost in {loss[0]}; going on from" in console.file.getvalue()
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "local")


def test_the_run_ends_when_workers_are_lost_too_often(model, tmp_path, monkeypatch):
    Loopback(("act", 1), ("act", 2)).install(monkeypatch)
    config = run_config(model, kind="shared").model_copy(update={"placement": PlacementConfig(kind="ray", retries=1)})
    with pytest.raises(PlacementLostError, match="lost in act"):
        train(config, tmp_path, console=quiet())
    assert not list(tmp_path.glob("checkpoints/*"))


def test_a_run_on_workers_is_resumed(model, tmp_path, monkeypatch):
    Loopback().install(monkeypatch)
    train(run_config(model), tmp_path / "whole", console=quiet())
    train(run_config(model), tmp_path / "part", console=quiet())
    newest = checkpoint.newest(tmp_path / "part")[0]
    assert checkpoint.step_of(newest) == 3
    (newest / "manifest.json").unlink()  # so that the run goes on from the checkpoint before
    resume(tmp_path / "part", console=quiet())
    assert numbers(tmp_path / "part") == numbers(tmp_path / "whole")


def test_errors_of_a_worker_are_those_of_this_process(model, tmp_path, monkeypatch):
    Loopback().install(monkeypatch)
    with pytest.raises(PolicyError, match="no-such-model"):
        train(run_config("no-such-model"), tmp_path / "a")
    with pytest.raises(NumericalError, match="not finite at step 1; its rows are in"):
        train(run_config(model, optim={"lr": 1e300}, algorithm={"name": "ippo", "epochs": 3}), tmp_path / "b")


def test_an_update_reads_only_its_own_rows():
    """A batch of 8 rows, of which the policy of `b` has 4: its inputs hold 4 rows in the same order."""
    config = toy_config()
    team = {"a": policy(0), "b": policy(1)}
    batch = scattered(played(team, config), config)
    rows = batch.rows_of(["b"])
    weight = torch.arange(len(batch), dtype=torch.float64)
    work = UpdateInput(
        batch, rows, reinforce, 1, weight, weight + 1, {rows[1]: torch.ones(2)}, {rows[0]: torch.ones(1)}
    )
    own = work.own_rows()
    assert list(own.rows) == list(range(len(rows)))
    assert own.weight.tolist() == rows
    assert own.factor.tolist() == [row + 1 for row in rows]
    assert (list(own.extra), list(own.reference)) == ([1], [0])
    assert own.batch.advantage.tolist() == batch.advantage[rows].tolist()
    assert [c.token_ids for c in own.batch.completions] == [batch.completions[row].token_ids for row in rows]
    assert not own.batch.steps
    assert not any(completion.text for completion in own.batch.completions)


def test_what_a_placement_refuses():
    agents = ("a", "b")
    assert workers(TeamConfig(kind="shared"), agents) == {"shared": agents}
    assert workers(TeamConfig(frozen={"a": "tiny"}), agents) == {"b": ("b",)}
    ray = {"kind": "ray"}
    with pytest.raises(ConfigError, match=r"names 'c'; the workers of this team are a, b"):
        refuse_placement(PlacementConfig.model_validate(ray | {"policies": {"c": {"gpus": 1}}}), TeamConfig(), agents)
    devices = TeamConfig.model_validate({"kind": "heterogeneous", "agents": {"a": {"device": "cuda:1"}}})
    with pytest.raises(ConfigError, match=r"placement\.policies\.AGENT\.gpus"):
        refuse_placement(PlacementConfig.model_validate(ray), devices, agents)
    refuse_placement(PlacementConfig(), devices, agents)


def test_resources_of_workers():
    placement = PlacementConfig.model_validate({"cpus": 2, "policies": {"a": {"gpus": 2, "cpus": 4}}})
    assert placement.resources("a") == {"CPU": 4.0, "GPU": 2.0}
    assert placement.resources("b") == {"CPU": 2.0}
    refuse_short([{"CPU": 1.0, "GPU": 1.0}] * 2, {"CPU": 2.0, "GPU": 2.0})
    with pytest.raises(ConfigError, match=r"need 3 GPUs, and the Ray cluster has 2"):
        refuse_short([{"CPU": 1.0, "GPU": 1.0}] * 3, {"CPU": 8.0, "GPU": 2.0})
    with pytest.raises(ConfigError, match=r"need 4 CPUs, and the Ray cluster has 2: lower placement\.cpus"):
        refuse_short([{"CPU": 2.0}] * 2, {"CPU": 2.0})


def test_pairs_of_a_file_and_legal_actions_stay_in_this_process(model, tmp_path):
    file = tmp_path / "pairs.jsonl"
    file.write_text("{}\n")
    with pytest.raises(ConfigError, match="pairs of a file are scored in this process"):
        train(run_config(model, "madpo", algorithm={"pairs": {"file": str(file)}}, kl={"coef": 0.1}), tmp_path / "run")


def test_without_ray_one_line_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs ray; install it with: pip install 'palaver\[ray\]'"):  # noqa: SIM117
        with cluster(PlacementConfig(kind="ray")):
            pass
