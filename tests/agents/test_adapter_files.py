"""Adapters on disk: peft reads what we write, we read what peft writes, and what cannot be read is told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from palaver.agents.llm.model.load import load_pretrained
from palaver.agents.llm.model.options import LoraOptions, ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.policies.lora_policy import AdapterPolicy, adapted, load_adapters
from palaver.agents.make_policy import make_policy
from palaver.core import PolicyError
from tests.agents.adapting import LORA, asks, same, shaken, stored_base, team_of, weights_of
from tests.closeness import assert_values_close
from tests.models import byte_tokenizer, tiny_gpt2, tiny_qwen3

IDS = torch.tensor([[5, 6, 7, 8, 9]])
CPU = ModelOptions(device="cpu")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return stored_base(tmp_path_factory.mktemp("base") / "qwen3")


@pytest.mark.parametrize("make", [tiny_qwen3, tiny_gpt2])
def test_peft_reads_what_is_saved(make, tmp_path: Path) -> None:
    folder = stored_base(tmp_path / "base", make)
    policy = team_of(folder)["b"]
    policy.save(tmp_path / "b")
    found = {path.name for path in (tmp_path / "b").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"} <= found
    assert "model.safetensors" not in found
    config = json.loads((tmp_path / "b" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == os.path.abspath(folder)
    expected = "c_attn c_fc c_proj" if make is tiny_gpt2 else "down_proj gate_proj k_proj o_proj q_proj up_proj v_proj"
    assert " ".join(config["target_modules"]) == expected
    assert (config["r"], config["lora_alpha"], config["task_type"]) == (4, 6, "CAUSAL_LM")
    model = peft.PeftModel.from_pretrained(load_pretrained(folder, torch.device("cpu"))[0], tmp_path / "b")
    with policy.active() as own, torch.no_grad():
        assert_values_close(model(IDS).logits, own(IDS).logits)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "b")
    assert tokenizer.encode("hello") == byte_tokenizer().encode("hello")


def test_what_peft_saves_is_loaded(base, tmp_path: Path) -> None:
    """Its own shape, with another scale and some layers only."""
    config = peft.LoraConfig(
        r=3, lora_alpha=5, target_modules=["q_proj", "up_proj"], use_rslora=True, layers_to_transform=[1],
        lora_dropout=0.5, init_lora_weights="gaussian", task_type="CAUSAL_LM", base_model_name_or_path=base,
    )  # fmt: skip
    model = peft.get_peft_model(load_pretrained(base, torch.device("cpu"))[0], config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    model.save_pretrained(tmp_path)
    policy = LLMPolicy.load(str(tmp_path), CPU)
    assert isinstance(policy, AdapterPolicy)
    assert len(policy.parameters()) == 4
    with policy.active() as own, torch.no_grad():
        assert_values_close(model.eval()(IDS).logits, own(IDS).logits)
    said, [again] = policy.act(asks(["a"]))[0], policy.act(asks(["a"], ["hello"]))
    assert [u.token_ids for u in said] == [u.token_ids for u in again]
    merged = LLMPolicy(model.merge_and_unload(), byte_tokenizer(), CPU)
    assert [u.token_ids for u in merged.act(asks(["a"]))[0]] == [u.token_ids for u in said]


def test_loaded_it_says_the_same_and_stored_ones_share_their_base(base, tmp_path: Path, monkeypatch) -> None:
    team = team_of(base)
    for name, policy in team.items():
        policy.save(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    again = load_adapters({name: name for name in team}, CPU)
    assert {id(policy.shared_engine) for policy in again.values()} == {id(again["a"].shared_engine)}
    alone = make_policy("hf:b", options=CPU)
    assert isinstance(alone, AdapterPolicy)
    assert alone.name == "hf:b"
    for name, request in zip(team, asks(tuple(team), ["hello"]), strict=True):
        expected = team[name].act([request])[0]
        assert [u.token_ids for u in again[name].act([request])[0]] == [u.token_ids for u in expected]
        assert again[name].version == 0
        if name == "b":
            assert [u.token_ids for u in alone.act([request])[0]] == [u.token_ids for u in expected]
    again["a"].save(tmp_path / "twice")
    assert (tmp_path / "twice" / "adapter_config.json").read_text() == (
        tmp_path / "a" / "adapter_config.json"
    ).read_text()


def test_an_adapter_may_be_the_start_of_a_team(base, tmp_path: Path) -> None:
    first = team_of(base, ["a"])["a"]
    first.save(tmp_path)
    team = adapted(str(tmp_path), ["x", "y"], CPU, LORA)
    assert team["x"].shared_engine is team["y"].shared_engine
    assert same(weights_of(team["x"]), weights_of(first))
    assert same(weights_of(team["y"]), weights_of(first))
    shaken(team["x"], 3)
    assert same(weights_of(team["y"]), weights_of(first))
    with pytest.raises(PolicyError, match="has rank 4 and alpha 6"):
        adapted(str(tmp_path), ["x"], CPU, LoraOptions(rank=8))


def test_restore_takes_the_weights_and_nothing_else(base, tmp_path: Path) -> None:
    for kind in ("adapter", "full"):
        policy = team_of(base, ["a"])["a"] if kind == "adapter" else LLMPolicy.load(base, CPU)
        request = asks(["a"], ["hello"])
        before, version = policy.act(request)[0], policy.version
        policy.save(tmp_path / kind)
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.mul_(1.3)
        policy.refresh()
        assert [u.token_ids for u in policy.act(request)[0]] != [u.token_ids for u in before]
        policy.restore(str(tmp_path / kind))
        assert policy.version == version + 1
        assert [u.token_ids for u in policy.act(request)[0]] == [u.token_ids for u in before]
    with pytest.raises(PolicyError, match=r"does not fit .*another shape"):
        team_of(base, ["b"], LoraOptions(rank=2))["b"].restore(str(tmp_path / "adapter"))


def changed(folder: Path, **values) -> None:
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | values))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"base_model_name_or_path": "/gone/base"}, "needs its base: there is no model folder '/gone/base'"),
        ({"base_model_name_or_path": None}, "does not say which model it is for"),
        ({"use_dora": True}, r"not plain LoRA \(use_dora=True\)"),
        ({"bias": "all"}, r"not plain LoRA \(bias='all'\)"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"init_lora_weights": "pissa"}, r"not plain LoRA \(init_lora_weights='pissa'\)"),
        ({"peft_type": "VERA"}, "not plain LoRA|cannot read"),
        ({"peft_type": "NEWS"}, "cannot read the adapter_config.json"),
        ({"r": 9}, "does not fit '.*': its weights are of another shape"),
        ({"target_modules": ["q_proj"]}, "does not fit '.*': it has '.*', which fits nowhere"),
        ({"target_modules": ["c_attn"]}, "does not fit"),
    ],
)
def test_a_config_that_cannot_be_used_is_told_in_a_line(values, told, base, tmp_path: Path) -> None:
    team_of(base, ["a"])["a"].save(tmp_path)
    changed(tmp_path, **values)
    with pytest.raises(PolicyError, match=told) as caught:
        LLMPolicy.load(str(tmp_path), CPU)
    assert "\n" not in str(caught.value)


def test_damaged_files_are_told_in_a_line(base, tmp_path: Path) -> None:
    policy = team_of(base, ["a"])["a"]
    policy.save(tmp_path)
    weights = tmp_path / "adapter_model.safetensors"
    stored = load_file(weights)
    some = dict(list(stored.items())[:-1])
    save_file(some, weights)
    with pytest.raises(PolicyError, match=r"it lacks '.*lora_"):
        LLMPolicy.load(str(tmp_path), CPU)
    weights.write_bytes(b"rubbish")
    with pytest.raises(PolicyError, match=r"cannot read the adapter_model.safetensors"):
        LLMPolicy.load(str(tmp_path), CPU)
    weights.unlink()
    before = len(policy.shared_engine.lora.model.state_dict())
    with pytest.raises(PolicyError, match=r"cannot read the adapter_model.safetensors"):
        policy.stored(str(tmp_path))
    save_file(some, weights)
    with pytest.raises(PolicyError, match="it lacks"):
        policy.stored(str(tmp_path))
    assert len(policy.shared_engine.lora.model.state_dict()) == before, "what did not fit is gone"
    (tmp_path / "adapter_config.json").write_text("{")
    with pytest.raises(PolicyError, match=r"cannot read the adapter_config.json"):
        LLMPolicy.load(str(tmp_path), CPU)
