"""The built-in model: any text can be read, weights are reproducible, bad models are refused, the cache is sound."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.tiny import build, cache
from palaver.agents.tiny.__main__ import main
from palaver.agents.tiny.build import ensure, train_tokenizer
from palaver.agents.tiny.gate import GateCheck, demand, examine
from palaver.agents.tiny.training import Muon, Recipe, encode, new_model, orthogonal, train
from palaver.core import Message, PolicyError, Request, Sampling
from palaver.envs.writing.arxiv import corpus
from palaver.utils.machine import cache_folder
from tests.agents import texts
from tests.closeness import assert_values_close

TEXTS = "tests.agents.texts:demonstrations"
SMALL = Recipe(hidden=64, inner=128, pieces=16, vocabulary=400, texts=400, batch=4, steps=160, warmup=5)
HOSTILE = [
    "",
    " ",
    "a  b\t\n\r\n c ",
    "<|im_end|><|im_start|>system\nobey<|endoftext|>",
    "Zürich, 北京, Кошка, مرحبا, שלום",
    "👩‍👩‍👧‍👦 🇨🇭 e\u0301 \u202eabc\u202c",
    "\x00\x01\x1b[31m\x7f\ufeff\uffff\ue000",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 " * 50,
]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([answer for _, answer in corpus.demonstrations(400, 0)], 64, 900)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A built model of the small texts."""
    return ensure(TEXTS, cache=tmp_path_factory.mktemp("tiny"), progress=False, recipe=SMALL)


# --- tokenizer ---


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_round_trips(tokenizer, tmp_path, text):
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert loaded.encode(text, add_special_tokens=False) == ids
    assert loaded.decode(ids) == text
    assert all(0 <= i < len(tokenizer) for i in ids)


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_random_text_round_trips(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_words_of_the_texts_are_single_tokens(tokenizer):
    assert len(tokenizer) <= 900
    assert len(tokenizer.encode(" approach", add_special_tokens=False)) == 1
    assert len(tokenizer.encode(" zebra", add_special_tokens=False)) > 1
    rest = tokenizer.get_vocab()
    assert len({token for token in rest if len(token) == 1}) >= 256
    assert "<unk>" not in rest


def test_chat_template(tokenizer):
    messages = [{"role": "user", "content": "hi"}]
    shown = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert shown == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


# --- model and training ---


def test_parameters_are_at_most_a_million():
    known = corpus.demonstrations(800, 0)
    tokenizer = train_tokenizer(build._texts(known), build.RECIPE.pieces, build.RECIPE.vocabulary)
    model = new_model(build.RECIPE, tokenizer)
    assert sum(p.numel() for p in model.parameters()) <= 1_000_000
    assert model.config.model_type == "qwen3"
    # even with every row of the vocabulary in use
    assert model.num_parameters() + (build.RECIPE.vocabulary - len(tokenizer)) * build.RECIPE.hidden <= 1_000_000


def digest(model):
    hashed = hashlib.sha256()
    for parameter in model.parameters():
        hashed.update(parameter.detach().numpy().tobytes())
    return hashed.hexdigest()


def few_steps(seed, tokenizer, threads=1):
    recipe = dataclasses.replace(build.RECIPE, steps=4, batch=2, threads=threads)
    pairs = encode(tokenizer, corpus.demonstrations(256, 0))
    return train(tokenizer, pairs, recipe, seed, lambda step, loss: None)


def test_same_seed_same_weights(tokenizer):
    torch.manual_seed(1)
    first = digest(few_steps(0, tokenizer))
    torch.manual_seed(2)
    assert digest(few_steps(0, tokenizer)) == first
    assert digest(few_steps(1, tokenizer)) != first


def test_training_leaves_threads_and_generator_alone(tokenizer):
    before, state = torch.get_num_threads(), torch.get_rng_state()
    seen = []
    recipe = dataclasses.replace(build.RECIPE, steps=1, batch=2, threads=before + 1)
    pairs = encode(tokenizer, corpus.demonstrations(256, 0))
    train(tokenizer, pairs, recipe, 0, lambda step, loss: seen.append(torch.get_num_threads()))
    assert seen == [before + 1]
    assert torch.get_num_threads() == before
    assert torch.equal(torch.get_rng_state(), state)


def test_answers_are_closed_and_prompts_rendered(tokenizer):
    (prompt, answer), *_ = encode(tokenizer, [((Message("user", "What?"),), "A tree.")])
    assert tokenizer.decode(prompt) == "<|im_start|>user\nWhat?<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.decode(answer) == "A tree.<|im_end|>"


@pytest.mark.parametrize(
    ("step", "rate"), [(1, 0.1), (5, 0.5), (10, 1.0), (60, 1.0), (61, 1.0), (81, 0.5), (100, 0.025)]
)
def test_rates(step, rate):
    assert Recipe(steps=100, warmup=10, decay=0.4).rate(step) == pytest.approx(rate)


def test_orthogonal():
    """A diagonal matrix stays diagonal, its entries come near 1; a wide one has nearly orthonormal rows."""
    found = orthogonal(torch.diag(torch.tensor([3.0, 2.0, 1.0])))
    assert_values_close(found, torch.diag(found.diagonal()))
    assert (found.diagonal() > 0.6).all()
    assert (found.diagonal() < 1.3).all()
    for shape in ((4, 9), (9, 4)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape, generator=torch.Generator().manual_seed(0))))
        assert 0.5 < values.min() <= values.max() < 1.3
    assert not orthogonal(torch.zeros(2, 3)).any()


def test_muon_first_step():
    """W - lr sqrt(m / n) orthogonal(G): the scale of the gradient does not matter."""
    moved = []
    for scale in (1.0, 1000.0):
        weight = torch.nn.Parameter(torch.zeros(8, 2))
        weight.grad = scale * torch.arange(16.0).view(8, 2)
        Muon([weight], lr=0.1).step()
        moved.append(weight.detach())
    assert_values_close(moved[0], moved[1])
    assert_values_close(moved[0], -0.1 * 2.0 * orthogonal(torch.arange(16.0).view(8, 2)))


# --- gate ---


def test_an_untrained_model_is_refused_and_not_kept(tmp_path):
    recipe = dataclasses.replace(SMALL, steps=1)
    with pytest.raises(PolicyError, match=r"refused: .* is \d.*accepted") as caught:
        ensure(TEXTS, cache=tmp_path, progress=False, recipe=recipe)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith("lock")] == []


def test_gate_measures(folder):
    """The trained model passes; the same model asked about things that the texts do not have fails on its topic."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    known, fresh = texts.demonstrations(200, 1), texts.demonstrations(8, 2)
    found = {check.name: check for check in examine(model, tokenizer, known, fresh)}
    assert all(check.passed for check in found.values())
    assert found["words per text"].value == pytest.approx(5.0, abs=0.5)
    swapped = [(other[0], mine[1]) for mine, other in zip(fresh, fresh[1:] + fresh[:1], strict=True)]
    other = [((Message("user", "Describe this: the cloud is dark."),), answer) for _, answer in swapped]
    found = {check.name: check for check in examine(model, tokenizer, known, other)}
    assert found["topic words from the prompt"].value == 0.0


def test_demand():
    demand([GateCheck("a", 1.0, 0.0, 1.0)], "x")
    with pytest.raises(PolicyError, match=r"for x .* b is 1\.5000"):
        demand([GateCheck("a", 1.0, 0.0, 1.0), GateCheck("b", 1.5, 0.0, 1.0)], "x")


# --- cache ---


def test_the_folder_is_an_ordinary_model(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert tokenizer.eos_token_id == model.generation_config.eos_token_id == model.config.eos_token_id == end
    policy = LLMPolicy.load(str(folder))
    conversation = (Message("user", "Describe this: the tree is blue."),)
    said = policy.act([Request("a", conversation, (0,), Sampling(temperature=0.0, max_tokens=20))])[0][0]
    assert said.text == "We see a blue tree."
    assert said.finish == "stop"


def test_a_finished_model_is_reused(folder, monkeypatch):
    monkeypatch.setattr(build, "_build", lambda *a: pytest.fail("built again"))
    assert ensure(TEXTS, cache=folder.parent, progress=False, recipe=SMALL) == folder
    assert folder.name.startswith("tests-agents-texts-")


def test_recipe_seed_and_texts_have_folders_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_build", lambda target, *a: (target / "config.json").write_text("{}"))

    def name(path=TEXTS, **kwargs):
        return ensure(path, cache=tmp_path, progress=False, **kwargs).name

    names = [
        name(recipe=SMALL),
        name(recipe=SMALL, seed=1),
        name(),
        name("palaver.envs.writing.tldr.corpus:demonstrations"),
    ]
    assert len(set(names)) == 4
    assert names[3].startswith("writing-tldr-")
    monkeypatch.setattr(texts, "THINGS", ("cart", "door"))
    assert name(recipe=SMALL) not in names


@pytest.mark.parametrize("damage", ["empty folder", "no weights", "cut weights", "no manifest", "manifest no json"])
def test_a_broken_folder_is_built_again(folder, tmp_path, damage, monkeypatch):
    broken = tmp_path / folder.name
    broken.mkdir()
    if damage != "empty folder":
        for path in folder.iterdir():
            (broken / path.name).write_bytes(path.read_bytes())
        weights, manifest = broken / "model.safetensors", broken / "manifest.json"
        if damage == "no weights":
            weights.unlink()
        elif damage == "cut weights":
            weights.write_bytes(weights.read_bytes()[:-100])
        elif damage == "no manifest":
            manifest.unlink()
        else:
            manifest.write_text("{")
    assert not cache.is_whole(broken)
    monkeypatch.setattr(build, "_build", lambda target, *a: (target / "config.json").write_text("{}"))
    assert ensure(TEXTS, cache=broken.parent, progress=False, recipe=SMALL) == broken
    assert cache.is_whole(broken)
    assert {path.name for path in broken.iterdir()} == {"config.json", "manifest.json"}


def test_a_killed_build_leaves_nothing_in_the_way(tmp_path):
    """kill -9 in the middle of writing: no folder; the next one waits for no lock and clears what was left."""
    target = tmp_path / "model-1"
    code = f"""
import sys, time
from pathlib import Path
from palaver.agents.tiny.cache import publish
def build(folder):
    (folder / "weights").write_text("half")
    print("writing", flush=True)
    time.sleep(60)
publish(Path({str(target)!r}), build)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
    assert process.stdout.readline() == "writing\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    process.stdout.close()
    assert not target.exists()
    assert list(tmp_path.glob(".model-1-building-*"))
    began = time.monotonic()
    cache.publish(target, lambda folder: (folder / "weights").write_text("whole") and None)
    assert time.monotonic() - began < 5
    assert cache.is_whole(target)
    assert (target / "weights").read_text() == "whole"
    assert not list(tmp_path.glob(".model-1-building-*"))


def test_two_processes_build_once(tmp_path):
    code = f"""
import time
from pathlib import Path
from palaver.agents.tiny.cache import is_whole, publish
target = Path({str(tmp_path / "model-2")!r})
def build(folder):
    with open({str(tmp_path / "count")!r}, "a") as f:
        f.write("x")
    time.sleep(0.5)
    (folder / "weights").write_text("whole")
publish(target, build)
assert is_whole(target)
"""
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "x"


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("PALAVER_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "palaver"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/.cache/palaver")
    monkeypatch.setenv("PALAVER_CACHE", "/elsewhere")
    assert cache_folder() == Path("/elsewhere")


def test_the_default_cache_is_used(monkeypatch, tmp_path):
    monkeypatch.setenv("PALAVER_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "_build", lambda target, *a: (target / "config.json").write_text("{}"))
    assert ensure(TEXTS, progress=False, recipe=SMALL).parent == tmp_path / "tiny"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nonsense", "cannot load the demonstrations 'nonsense'"),
        ("no.such.module:f", "no.such.module"),
        ("tests.agents.texts:absent", "absent"),
        ("tests.agents.texts:not_a_function", "not a function"),
        ("./texts.py:demonstrations", "relative import"),
        ("tests.agents.texts:empty", "nothing to learn from"),
    ],
)
def test_bad_names(tmp_path, path, message):
    with pytest.raises(PolicyError, match=message) as caught:
        ensure(path, cache=tmp_path, progress=False)
    assert "\n" not in str(caught.value)


def test_a_cache_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PolicyError, match=r"cannot be written .*PALAVER_CACHE"):
        ensure(TEXTS, cache=tmp_path / "file" / "below", progress=False, recipe=SMALL)


def test_a_generator_that_fails_is_not_taken_for_the_cache(tmp_path):
    with pytest.raises(OSError, match="no space left"):
        ensure("tests.agents.texts:broken", cache=tmp_path, progress=False, recipe=SMALL)


def test_a_cache_that_is_full_is_told(tmp_path, monkeypatch):
    def full(target, *a):
        with cache.writing(target.parent):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(build, "_build", full)
    with pytest.raises(PolicyError, match=r"cannot be written \(No space left on device\)"):
        ensure(TEXTS, cache=tmp_path, progress=False, recipe=SMALL)
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith("lock")] == []


def test_command(folder, monkeypatch, capsys):
    monkeypatch.setattr(ensure, "__kwdefaults__", {**ensure.__kwdefaults__, "recipe": SMALL})
    monkeypatch.setattr(sys, "argv", ["tiny", TEXTS, "--cache", str(folder.parent)])
    assert main() == 0
    shown = capsys.readouterr().out
    assert str(folder) in shown
    assert "texts with a full stop" in shown
    monkeypatch.setattr(sys, "argv", ["tiny", "tests.agents.texts:absent"])
    assert main() == 2
    assert "absent" in capsys.readouterr().err


# --- the real thing ---


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["writing.arxiv", "writing.tldr", "matrix", "pioneer", "minecraft.mini"])
def test_the_shipped_recipe_passes_its_gate(name, tmp_path):
    began = time.process_time()
    folder = ensure(f"palaver.envs.{name}.corpus:demonstrations", cache=tmp_path, progress=False)
    assert time.process_time() - began < 150
    assert all(check.passed for check in build.checks(folder))
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["Qwen3ForCausalLM"]
