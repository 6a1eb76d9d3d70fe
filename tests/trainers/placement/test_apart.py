"""Samplers apart from learners (`placement.samplers`): numbers of one process, overlap, losses, errors, refusals."""

from __future__ import annotations

import threading
import time

import pytest

from palaver.core import ConfigError
from palaver.trainers.config.placement import PlacementConfig, refuse_placement
from palaver.trainers.config.team import TeamConfig
from palaver.trainers.placement import checks
from palaver.trainers.placement.ray_workers import PlacementLostError, refuse_short
from palaver.trainers.placement.worker import worker_setups
from palaver.trainers.policy_gradient import PolicyGradientLoop
from palaver.trainers.run import checkpoint
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import resume, train
from palaver.trainers.update.rollout_lead import meanwhile
from palaver.trainers.update.updater import Updater
from tests.trainers.placement.loopback import Loopback, LoopbackHost
from tests.trainers.placement.test_remote import KINDS, numbers, quiet, run_config
from tests.trainers.test_engine_drift import Pretended, vllm
from tests.trainers.toys import register_toy, save_model

APART = {"kind": "ray", "samplers": {"place": "apart"}}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    register_toy()
    return save_model(tmp_path_factory.mktemp("model") / "m")


def settings(model, *arguments, lead=0, apart=True, **sections):
    clipped = {"surrogate": "clip"} if lead and not arguments else {}
    sections = {**sections, "algorithm": clipped | sections.get("algorithm", {})}
    train_section = {"rollout_lead": lead, "steps": 4} | sections.pop("train", {})
    config = run_config(model, *arguments, train=train_section, eval={"n": 1, "every": 2}, **sections)
    return config.model_copy(update={"placement": PlacementConfig.model_validate(APART if apart else {})})


def both(model, tmp_path, monkeypatch, *arguments, **sections):
    """Metrics of a run in this process, and of the same run with samplers apart."""
    Loopback().install(monkeypatch)
    for apart in (False, True):
        train(settings(model, *arguments, apart=apart, **sections), tmp_path / str(apart), console=quiet())
    return numbers(tmp_path / "False"), numbers(tmp_path / "True")


PASSES = {"epochs": 1, "minibatches": 1}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lead", [0, 1])
def test_every_team_has_the_numbers_of_one_process(model, tmp_path, monkeypatch, kind, lead):
    local, apart = both(model, tmp_path, monkeypatch, "magrpo", kind, lead=lead, algorithm={"surrogate": "clip"})
    assert len(local) == 7
    assert local == apart
    ours, theirs = (checkpoint.newest(tmp_path / str(apart))[0] for apart in (False, True))
    weights = sorted(path.relative_to(ours) for path in ours.rglob("*.safetensors"))
    assert weights
    assert all((ours / path).read_bytes() == (theirs / path).read_bytes() for path in weights)


@pytest.mark.parametrize(
    "sections",
    [
        {"algorithm": {"name": "ippo", **PASSES}, "kl": {"coef": 0.1, "place": "loss"}},
        {"algorithm": {"name": "mappo", "old": "learner", "truncate": 2.0}},
        {"algorithm": {"name": "happo", **PASSES}},
        {"algorithm": {"name": "qmix", "group_size": 2, "truncate": 2.0, "mixer": {"batch": 4, "start": 0}}},
        {"algorithm": {"name": "rae", "group_size": 2, "truncate": 2.0}, "team": {"swap_every": 2}},
        {"algorithm": {"name": "magrpo", "surrogate": "clip", "resample": 2}},
    ],
    ids=["ippo", "decoupled", "happo", "qmix", "swap", "resample"],
)
def test_other_algorithms_one_update_behind(model, tmp_path, monkeypatch, sections):
    local, apart = both(model, tmp_path, monkeypatch, lead=1, **sections)
    assert local == apart
    assert [line.get("a/staleness") for line in apart if line["kind"] == "train"] == ["0.0", "1.0", "1.0", "1.0"]


def test_weights_of_a_sampler_are_those_of_as_many_updates(model, tmp_path, monkeypatch):
    loopback = Loopback().install(monkeypatch)
    train(settings(model, train={"steps": 3}), tmp_path / "run", console=quiet())
    workers = {host.name: host.worker for host in loopback.hosts}
    assert sorted(workers) == ["a", "b", "sampler of a", "sampler of b"]
    for name in ("a", "b"):
        trained, copied = (workers[key]._objects[f"policy/{name}"] for key in (name, f"sampler of {name}"))
        assert trained.version == copied.version == 3
        assert all(p.equal(q) for p, q in zip(trained.parameters(), copied.parameters(), strict=True))
        sampler = workers[f"sampler of {name}"]._objects[f"learner/{name}"]
        assert sampler.reference is None
        assert not sampler.optimizer.state
    assert {host.name for host in loopback.hosts if host.acted} == {"sampler of a", "sampler of b"}


def test_the_next_rollout_runs_while_the_update_does(model, tmp_path, monkeypatch):
    """Each update waits until the sampler is asked for the next rollout: without overlap it would wait in vain."""
    Loopback().install(monkeypatch)
    asked, waits = threading.Event(), []
    update, draw = Updater.update, PolicyGradientLoop.draw

    def waiting(self, estimated, step):
        waits.append(step == 4 or asked.wait(20))
        return update(self, estimated, step)

    def noted(self, step):
        if threading.current_thread() is not threading.main_thread():
            asked.set()
        rollout = draw(self, step)
        asked.clear()
        return rollout

    monkeypatch.setattr(Updater, "update", waiting)
    monkeypatch.setattr(PolicyGradientLoop, "draw", noted)
    train(settings(model, lead=1), tmp_path / "run", console=quiet())
    assert waits == [True] * 4
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line["kind"] == "train"]
    assert [line.get("time/overlap_s", 0) > 0 for line in lines] == [True, True, True, False]
    monkeypatch.setattr(PolicyGradientLoop, "draw", draw)
    monkeypatch.setattr(Updater, "update", update)
    train(settings(model, apart=False, lead=1), tmp_path / "local", console=quiet())
    assert numbers(tmp_path / "run") == numbers(tmp_path / "local")


LOSSES = [("act", 1), ("act", 9), ("update", 3), ("take_weights", 1), ("take_weights", 5), ("sent_weights", 6)]


@pytest.mark.parametrize("loss", LOSSES, ids=[f"{method}-{number}" for method, number in LOSSES])
@pytest.mark.parametrize("lead", [0, 1])
def test_a_lost_worker_is_replaced_and_the_numbers_stay(model, tmp_path, monkeypatch, loss, lead):
    train(settings(model, lead=lead, apart=False), tmp_path / "local", console=quiet())
    lossy = Loopback(loss).install(monkeypatch)
    console = quiet()
    train(settings(model, lead=lead), tmp_path / "ray", console=console)
    assert not lossy.losses, "the worker was never lost"
    assert "with new workers" in console.file.getvalue()
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "local")


def test_a_run_is_resumed_in_either_place(model, tmp_path, monkeypatch):
    """Checkpoints do not depend on where samplers are."""
    Loopback().install(monkeypatch)
    whole = train(settings(model, lead=1, train={"checkpoint_every": 1}), tmp_path / "whole", console=quiet())
    newest = checkpoint.newest(whole)[0]
    assert checkpoint.step_of(newest) == 4
    expected = numbers(whole)
    (newest / "manifest.json").unlink()  # so that the run goes on from the checkpoint before
    resume(whole, console=quiet())
    assert numbers(whole) == expected


# --- errors ----------------------------------------------------------------------------------------


def test_an_error_of_the_rollout_reaches_the_user(model, tmp_path, monkeypatch):
    Loopback().install(monkeypatch)
    draw = PolicyGradientLoop.draw

    def failing(self, step):
        if step == 3:
            raise ConfigError("the judge has no key")
        return draw(self, step)

    monkeypatch.setattr(PolicyGradientLoop, "draw", failing)
    with pytest.raises(ConfigError, match="the judge has no key"):
        train(settings(model, lead=1), tmp_path / "run", console=quiet())
    assert len(read_metrics(tmp_path / "run" / "metrics.jsonl")) == 2  # the evaluation before, and step 1


def test_an_error_of_the_update_reaches_the_user(model, tmp_path, monkeypatch):
    Loopback().install(monkeypatch)
    with pytest.raises(NumericalError, match="not finite at step 2; its rows are in"):
        train(settings(model, lead=1, optim={"lr": 1e300}), tmp_path / "run", console=quiet())


def interrupt(asked: threading.Event) -> None:
    asked.wait(20)
    raise KeyboardInterrupt


def test_an_error_waits_for_the_rollout_and_an_interrupt_does_not():
    asked, ended, pending = threading.Event(), threading.Event(), {}

    def draw(step):
        asked.set()
        time.sleep(0.2)
        ended.set()
        raise ConfigError("of the rollout")

    with pytest.raises(PlacementLostError, match="gone"), meanwhile(draw, 2, pending):
        raise PlacementLostError("gone")
    assert ended.is_set()
    with pytest.raises(ConfigError, match="of the rollout"), meanwhile(draw, 2, pending):
        pass
    asked.clear()
    ended.clear()
    with pytest.raises(KeyboardInterrupt), meanwhile(draw, 2, pending):
        interrupt(asked)
    assert not ended.is_set()
    assert ended.wait(20)
    assert not pending


def test_the_time_of_an_overlap():
    """A rollout that ends 0.1 s after the update beside it."""
    updated, pending = threading.Event(), {}

    def draw(step):
        updated.wait(20)
        time.sleep(0.1)
        return step

    with meanwhile(draw, 3, pending) as overlap:
        time.sleep(0.1)
        updated.set()
    assert pending == {3: 3}
    assert overlap.drawing - overlap.waited > 0.05
    assert overlap.waited >= 0.09


# --- vLLM ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lead", [0, 1])
def test_what_vllm_generates_is_checked_by_the_weights_that_sampled(model, tmp_path, monkeypatch, lead):
    monkeypatch.setattr(vllm, "VllmGenerator", Pretended)
    monkeypatch.setattr(checks, "need", lambda *_: None)
    policy = {"engine": "vllm", "temperature": 0.7}
    local, apart = both(model, tmp_path, monkeypatch, lead=lead, policy=policy)
    assert local == apart
    drifts = [float(line["b/engine_drift"]) for line in apart if line["kind"] == "train"]
    assert len(drifts) == 4
    assert max(drifts) < 1e-5


@pytest.mark.parametrize("lead", [0, 1])
def test_a_transfer_that_is_left_out_stops_the_run(model, tmp_path, monkeypatch, lead):
    """Stale weights with the right version show against the learner (lead 0); a stale version always does."""
    monkeypatch.setattr(vllm, "VllmGenerator", Pretended)
    monkeypatch.setattr(checks, "need", lambda *_: None)
    Loopback().install(monkeypatch)
    sent = LoopbackHost.send

    def lost(self, target, other):
        version = self.worker._objects[target].version
        if version == 0:
            sent(self, target, other)
        elif not lead:
            other.worker._objects[target].version = version

    monkeypatch.setattr(LoopbackHost, "send", lost)
    error, match = (Exception, "2 to 2 updates behind") if lead else (NumericalError, "generated with others")
    with pytest.raises(error, match=match):
        train(settings(model, lead=lead, policy={"engine": "vllm"}, optim={"lr": 1e-2}), tmp_path / "run")


# --- refusals --------------------------------------------------------------------------------------


def test_what_is_refused_before_any_work():
    agents = ("a", "b")
    apart = PlacementConfig.model_validate({"samplers": {"place": "apart"}})
    with pytest.raises(ConfigError, match=r"^placement\.samplers\.place=apart gives .*set placement\.kind=ray, or"):
        refuse_placement(apart, TeamConfig(), agents)
    with pytest.raises(ConfigError, match=r"^placement\.samplers\.gpus .*set placement\.samplers\.place=apart"):
        refuse_placement(PlacementConfig.model_validate({"kind": "ray", "samplers": {"gpus": 1}}), TeamConfig(), agents)
    refuse_placement(PlacementConfig.model_validate(APART), TeamConfig(), agents)


def test_resources_of_samplers(model):
    placed = {"kind": "ray", "cpus": 2, "policies": {"a": {"gpus": 2, "cpus": 4}}}
    same, own = (
        PlacementConfig.model_validate(placed | {"samplers": {"place": "apart"} | more})
        for more in ({}, {"gpus": 1, "cpus": 0.5})
    )
    assert same.resources("a", sampler=True) == same.resources("a") == {"CPU": 4.0, "GPU": 2.0}
    assert own.resources("a", sampler=True) == own.resources("b", sampler=True) == {"CPU": 0.5, "GPU": 1.0}
    assert own.resources("b") == {"CPU": 2.0}
    config = settings(model).model_copy(update={"placement": own})
    setups = worker_setups(config, ("a", "b"), None, 1)
    assert [(setup.worker, setup.agents, setup.samples) for setup in setups] == [
        ("a", ("a",), False),
        ("b", ("b",), False),
        ("sampler of a", ("a",), True),
        ("sampler of b", ("b",), True),
    ]
    line = r"need 7 CPUs, .* has 4: lower placement\.cpus or placement\.samplers\.cpus, .*samplers\.place=colocated"
    with pytest.raises(ConfigError, match=line):
        refuse_short([setup.resources for setup in setups], {"CPU": 4.0, "GPU": 8.0}, apart=True)
