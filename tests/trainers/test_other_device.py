"""Agents, critics, mixers and encoders on a device that is not the host (`tests/other_device.py`)."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from palaver.core import ConfigError, PolicyError
from palaver.trainers.config.loading import over
from palaver.trainers.config.run import RunConfig
from palaver.trainers.train import prepare, train
from tests import other_device
from tests.trainers.learning import untimed
from tests.trainers.placement.test_remote import quiet
from tests.trainers.toys import register_toy, save_model

LIMIT_S = 900
SUMMARY = "joint actions (aligned)"  # in the summary of each run of language models
needs_device = pytest.mark.skipif(other_device.REGISTER is None, reason="this torch has no devices in Python")


SECTIONS: dict[str, Any] = {
    "policy": {"max_tokens": 6},
    "algorithm": {"group_size": 2},
    "optim": {"lr": 1e-3},
    "critic": {"lr": 1e-3},
    "train": {"steps": 3, "checkpoint_every": 2},
    "eval": {"n": 1},
    "log": {"tensorboard": False},
    "device": "cpu",
}
MIXER = "algorithm.name=qmix algorithm.mixer.batch=4 algorithm.mixer.start=0"
MATRIX = f"{MIXER} env.id=matrix-v1 env.game=penalty algorithm.group_size=4 algorithm.mixer.actions=legal"
# settings of a run, and what of it is on the other device, with the operations of a GPU, which round otherwise
RUNS = {
    "own critic": ("algorithm.name=ippo", "critic.devices.a=other"),
    "mixer and encoder": (MIXER, "algorithm.mixer.device=other algorithm.mixer.encoder_device=other"),
    "legal actions": (MATRIX, "algorithm.mixer.device=other"),
    "one of two agents": ("kl.coef=0.1", "team.agents.b.device=other"),
}
MORE = {
    "joint critic": ("algorithm.name=mappo critic.normalize=true", "critic.devices.joint=other"),
    "sequence": ("algorithm.name=happo", "device=other"),
    "adapters": ("algorithm.name=ippo team.kind=lora kl.coef=0.1", "device=other"),
    "lagging reference": ("team.kind=shared kl.coef=0.1 kl.reference=lag:1", "device=other"),
    "critic on the trunk": ("algorithm.name=iac critic.model=shared", "device=other"),
    "values of tokens": ("algorithm.name=ippo critic.level=token", "device=other"),
    "joint critic with the team": ("algorithm.name=mappo", "device=other"),
    "pairs": ("algorithm.name=madpo kl.coef=0.1 kl.place=loss", "device=other"),
    "mixer": (MIXER, "device=other"),
    "corrections": (
        "algorithm.surrogate=clip algorithm.old=learner algorithm.truncate=2 algorithm.mask=[0.5,5] "
        "algorithm.entropy=0.01 kl.coef=0.1 kl.place=advantage",
        "device=other",
    ),
    "transformers": ("policy.engine=transformers", "device=other"),
    "top-k": ("policy.top_p=0.9 policy.top_k=20 policy.score_truncated=true", "device=other"),
    "nucleus": ("policy.top_p=0.9 policy.temperature=0.7 policy.score_truncated=true", "device=other"),
    "lead": ("algorithm.surrogate=clip train.rollout_lead=1", "device=other"),
}


def overrides(model: str, *settings: str) -> list[str]:
    """Settings on top of `SECTIONS`; the toy environment where they name none."""
    listed = [f"policy.model={model}", *" ".join(settings).split()]
    return listed + ([] if "env.id" in " ".join(settings) else ["env.id=lengths-v0", "env.turns=2"])


def config(model: str, settings: str) -> RunConfig:
    return over(None, SECTIONS, overrides(model, settings))


def train_both(folder: Path, model: str, runs: dict[str, tuple[str, str]]) -> tuple[Path, str]:
    """Train runs here, into folders `NAME here`, and with the other device, into `NAME`; and what was printed there."""
    listed = []
    for name, (settings, device) in runs.items():
        train(config(model, settings), folder / f"{name} here", console=quiet())
        listed.append([SECTIONS, overrides(model, settings, device), str(folder / name)])
    return folder, trained_there(folder, listed)


def trained_there(folder: Path, listed: list[Any]) -> str:
    (folder / "runs.json").write_text(json.dumps(listed))
    result = subprocess.run(
        [sys.executable, "-m", "tests.other_device", str(folder / "runs.json")],
        cwd=Path(other_device.__file__).parents[1], env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    register_toy()
    return save_model(tmp_path_factory.mktemp("model") / "m")


@pytest.fixture(scope="module")
def trained(model, tmp_path_factory) -> tuple[Path, str]:
    return train_both(tmp_path_factory.mktemp("runs"), model, RUNS)


def numbers(folder: Path) -> list[dict[str, Any]]:
    """Metrics without timings, of a run of three steps."""
    lines = untimed(folder)
    assert [line["kind"] for line in lines].count("train") == 3
    return lines


def assert_near(ours: Path, theirs: Path) -> None:
    """Check that the metrics of two runs are equal up to rounding."""
    for line, other in zip(numbers(ours), numbers(theirs), strict=True):
        assert line.keys() == other.keys()
        for key, value in line.items():
            if isinstance(value, float) and math.isfinite(value):
                assert other[key] == pytest.approx(value, rel=2e-3, abs=2e-4), (line["step"], key)


@needs_device
@pytest.mark.parametrize("name", RUNS)
def test_numbers_are_those_of_the_host(trained, name):
    folder, _ = trained
    assert_near(folder / name, folder / f"{name} here")


@needs_device
def test_the_memory_of_each_device_is_estimated(trained):
    on = r"estimated memory on (cpu|other:0) [\d.]+ GiB \(weights"
    found = [re.findall(on, summary) for summary in trained[1].split(SUMMARY)[1:]]
    on_both = ["own critic", "mixer and encoder", "one of two agents"]
    assert found == [["cpu", "other:0"] if name in on_both else [] for name in RUNS if name != "legal actions"]


@needs_device
def test_an_operation_that_mixes_devices_is_refused_there(trained):
    """Without this none of these tests could fail."""
    assert "tensors on cpu and other:0" in trained[1].splitlines()[-1]


@needs_device
@pytest.mark.slow
def test_a_run_with_a_critic_elsewhere_is_resumed(trained, tmp_path):
    folder, _ = trained
    cut = shutil.copytree(folder / "own critic", tmp_path / "cut")
    shutil.rmtree(cut / "checkpoints" / "step-000003")
    trained_there(tmp_path, [[{}, [], str(cut)]])
    assert_near(cut, folder / "own critic here")


@needs_device
@pytest.mark.slow
def test_every_kind_of_update_runs_elsewhere(model, tmp_path):
    folder, _ = train_both(tmp_path, model, MORE)
    for name in MORE:
        assert_near(folder / name, folder / f"{name} here")


@needs_device
@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        "kl.coef=0.1",
        "kl.coef=0.1 kl.place=reward",
        "kl.coef=0.1 kl.place=advantage algorithm.surrogate=clip algorithm.old=learner algorithm.truncate=2",
        "algorithm.name=happo",
        "algorithm.name=ippo critic.level=token",
        "algorithm.name=madpo kl.coef=0.1 kl.place=loss",
        MIXER,
    ],
)
def test_a_run_waits_as_often_for_many_rows_as_for_few(model, tmp_path, settings):
    """Each wait idles a GPU: they are of steps, passes and minibatches, and not of rows."""
    few, many = (overrides(model, settings, f"device=other algorithm.group_size={rows} eval.n=0") for rows in (4, 8))
    printed = trained_there(
        tmp_path, [[SECTIONS, few, str(tmp_path / "few")], [SECTIONS, many, str(tmp_path / "many")]]
    )
    first, second = map(int, re.findall(r"waits: (\d+)", printed))
    assert 0 < first == second


# --- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            "team.agents.b.device=cuda:1 team.agents.b.top_k=3",
            r"team\.agents\.b holds differences .*`device` may differ",
        ),
        ("team.kind=shared team.agents.b.device=cuda:1", r"team\.agents\.b holds differences .*team\.kind=shared"),
        ("algorithm.name=ippo critic.devices.joint=cpu", r"critic\.devices names 'joint'; .* are a, b\."),
        ("algorithm.name=mappo critic.devices.jiont=cpu", r"critic\.devices names 'jiont'; .* joint\. Did you mean"),
        (
            "algorithm.name=ippo team.kind=lora critic.devices.a=cpu",
            r"critic\.devices\.a=cpu: adapters .*team\.kind=sep",
        ),
        (
            "algorithm.name=iac critic.model=shared critic.devices.a=cpu",
            r"it is a policy's trunk; .*critic\.model=separ",
        ),
        ("algorithm.name=ippo placement.kind=ray critic.devices.a=cpu", r"each worker .* or set placement\.kind=local"),
        (f"{MIXER} algorithm.mixer.encoder=words algorithm.mixer.encoder_device=cpu", r"encoder=words has no model"),
        (f"{MIXER} team.kind=lora algorithm.mixer.encoder_device=cpu", r"encoder_device=cpu: adapters compute"),
    ],
)
def test_what_is_refused_before_any_work(model, settings, message):
    with pytest.raises(ConfigError, match=message):
        prepare(config(model, settings))


def test_what_the_algorithm_ignores_is_not_checked(model):
    prepare(config(model, "critic.devices.nobody=cuda:7 algorithm.mixer.encoder_device=cuda:7"))


@pytest.mark.parametrize(
    "settings", ["algorithm.name=ippo critic.devices.a=nowhere", f"{MIXER} algorithm.mixer.device=meta:x"]
)
def test_a_device_that_is_not_here_is_named(model, tmp_path, settings):
    with pytest.raises(PolicyError, match="cannot be used"):
        train(config(model, settings), tmp_path / "run", console=quiet())


def test_one_gpu_for_several_processes_is_refused(model, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"critic\.devices\.a=cuda:1 is one GPU for 2 processes"):
        prepare(config(model, "algorithm.name=ippo critic.devices.a=cuda:1"))
