"""The tiny models that ship: each is its generator's present one, whole, small and examined; teams start from them."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from palaver.agents.llm.model.load import load_pretrained, pick_device
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.make_policy import model_source
from palaver.agents.tiny import build, cache
from palaver.agents.tiny.build import SHIPPED, ensure
from palaver.agents.tiny.gate import examine
from palaver.benchmarks.experiments import warm_starts
from palaver.benchmarks.experiments.warm_starts import COMMAND, generators, ship
from palaver.core import PolicyError, load_attribute, stable_seed
from palaver.registry import spec
from palaver.trainers.config.loading import load
from palaver.trainers.rollout.team import model_options
from palaver.trainers.train import train
from palaver.utils.provenance import provenance
from tests.agents.test_tiny import SMALL, TEXTS

# the environment's prompts hold messages of the compiler, which differ between versions of Python
OTHER_MESSAGES = {"palaver.envs.code.corpus:mbpp"} if sys.version_info >= (3, 13) else set()
MOST_BYTES, MOST_BYTES_TOGETHER = 2_000_000, 20_000_000


@pytest.fixture
def no_teaching(monkeypatch):
    monkeypatch.setattr(build, "_build", lambda *a: pytest.fail("taught a model that ships"))


def test_every_generator_of_the_project_ships_its_present_model(no_teaching, tmp_path):
    """A changed prompt, text or recipe has another key: then the models have to be made again by the command."""
    folders = [ensure(name, cache=tmp_path) for name in generators() if name not in OTHER_MESSAGES]
    assert len(folders) + len(OTHER_MESSAGES) == 22
    shipped = {path for path in SHIPPED.iterdir() if path.is_dir()}
    assert set(folders) <= shipped
    assert len(shipped) == 22


@pytest.mark.parametrize("name", sorted(set(generators()) - OTHER_MESSAGES))
def test_the_manifest_and_the_size(name):
    folder = ensure(name)
    assert cache.is_whole(folder)
    about = json.loads((folder / cache.MANIFEST).read_text())
    assert set(about) == {"hash", "command", "commit", "files"}
    assert set(about["files"]) == {path.name for path in folder.iterdir()} - {cache.MANIFEST}
    assert {"model.safetensors", "tokenizer.json", "config.json", "gate.json"} <= set(about["files"])
    assert about["hash"] == cache.fingerprint(folder)
    assert about["command"] == f"{COMMAND} {name}"
    assert len(about["commit"]) == 12, "made from a checkout with changes"
    assert sum(path.stat().st_size for path in folder.iterdir()) <= MOST_BYTES


def test_all_together_are_small():
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) <= MOST_BYTES_TOGETHER


@pytest.mark.slow
@pytest.mark.parametrize("name", generators())
def test_the_shipped_weights_pass_the_examination(name):
    """Measured again: on another processor other texts are sampled, and they must pass, too."""
    folder, generate = ensure(name), load_attribute(name)
    model, tokenizer = load_pretrained(str(folder), pick_device("cpu"))
    known = generate(build.suited(generate).texts, stable_seed("tiny texts", 0))
    found = examine(model, tokenizer, known, build._fresh(generate, stable_seed("tiny gate", 0)))
    assert [check for check in found if not check.passed] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_in_the_manifest_makes_one_again(tmp_path):
    """Another processor rounds differently, so the weights may differ; tokenizer, key and examination may not."""
    shipped = ensure("palaver.envs.code.mini.corpus:demonstrations")
    about = json.loads((shipped / cache.MANIFEST).read_text())
    command = [sys.executable, *shlex.split(about["command"])[1:], "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stderr
    made = tmp_path / shipped.name
    assert cache.is_whole(made)
    assert (made / "tokenizer.json").read_bytes() == (shipped / "tokenizer.json").read_bytes()
    assert all(check.passed for check in build.checks(made))


# --- what ensure does with them ---


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """A model of the small texts, taught once."""
    return ensure(TEXTS, cache=tmp_path_factory.mktemp("taught"), progress=False, recipe=SMALL)


@pytest.fixture
def shipped(taught, tmp_path, monkeypatch):
    """A folder of shipped models with the one of the small texts in it."""
    monkeypatch.setattr(build, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr(ensure, "__kwdefaults__", {**ensure.__kwdefaults__, "recipe": SMALL})
    monkeypatch.setattr(warm_starts, "ensure", lambda *_, **__: taught)
    return ship(TEXTS, "0" * 12, tmp_path / "shipped")


def test_the_shipped_one_is_taken_unless_from_scratch(shipped, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "_build", lambda target, *a: (target / "config.json").write_text("{}"))
    assert ensure(TEXTS, cache=tmp_path, progress=False) == shipped
    taught = ensure(TEXTS, cache=tmp_path, progress=False, from_scratch=True)
    assert taught == tmp_path / shipped.name
    assert (taught / "config.json").read_text() == "{}"
    assert ensure(TEXTS, cache=tmp_path, progress=False, seed=1).parent == tmp_path


@pytest.mark.parametrize("damaged", ["model.safetensors", "tokenizer.json", "manifest.json"])
def test_a_damaged_one_is_refused_in_one_line(shipped, tmp_path, damaged):
    content = bytearray((shipped / damaged).read_bytes())
    content[len(content) // 2] ^= 1
    (shipped / damaged).write_bytes(content)
    with pytest.raises(PolicyError, match=r"damaged: install Palaver again.*policy\.from_scratch=true") as caught:
        ensure(TEXTS, cache=tmp_path, progress=False)
    assert "\n" not in str(caught.value)


def test_stored_numbers_are_those_that_were_examined(shipped):
    """Half precision on disk, single precision where it is loaded, and nothing lost in between."""
    stored, _ = load_pretrained(str(shipped), pick_device("cpu"))
    assert {str(p.dtype) for p in stored.parameters()} == {"torch.float32"}
    assert all((p == p.half().float()).all() for p in stored.parameters())
    assert json.loads((shipped / "config.json").read_text())["dtype"] == "float16"


def test_an_older_one_is_replaced(shipped):
    old = shipped.with_name(shipped.name[:-12] + "0" * 12)
    other = shipped.with_name("tests-agents-texts-longer-" + "0" * 12)
    shutil.copytree(shipped, old)
    shutil.copytree(shipped, other)
    ship(TEXTS, "0" * 12, shipped.parent)
    assert sorted(path.name for path in shipped.parent.iterdir()) == sorted([shipped.name, other.name])


# --- who starts from them ---


def test_the_key_of_a_config_reaches_the_model(monkeypatch, tmp_path):
    asked = []

    def ensured(name, from_scratch):
        asked.append(from_scratch)
        return tmp_path

    monkeypatch.setattr("palaver.agents.tiny.build.ensure", ensured)
    for items in ([], ["policy.from_scratch=true"]):
        options = model_options(load("coding-mini-magrpo", items), "cpu")
        model_source("tiny", spec("coding-mini-v0").demonstrations, options.from_scratch)
    assert asked == [False, True]
    assert ModelOptions().from_scratch is False


def test_a_run_records_what_it_starts_from(tmp_path, no_teaching):
    items = ["train.steps=1", "train.prompts_per_step=1", "algorithm.group_size=2", "eval.n=1", "log.tensorboard=false"]
    folder = train(load("coding-mini-magrpo", items), tmp_path / "run", launch=provenance())
    start = ensure("palaver.envs.code.mini.corpus:demonstrations")
    recorded = json.loads((folder / "launch.json").read_text())["warm_starts"]
    assert recorded == {agent: {"model": start.name, "hash": cache.fingerprint(start)} for agent in ("aux", "main")}
    assert Path(start).parent == SHIPPED
