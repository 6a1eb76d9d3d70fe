"""What vLLM is given of a model: config, weights by name, adapters as files; no vLLM is needed."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from palaver.agents.llm.lora.adapter_files import new_config, read_weights
from palaver.agents.llm.lora.layers import Lora
from palaver.agents.llm.model.options import LoraOptions
from palaver.agents.llm.vllm.generator import drawn_logprobs
from palaver.agents.llm.vllm.sync import AdapterSync, ModelSync
from palaver.core import PolicyError, Sampling
from tests.models import tiny_gpt2, tiny_llama, tiny_qwen3

MAKERS = {"tied": tiny_qwen3, "untied": tiny_llama, "transposed": tiny_gpt2}


class Engine:
    """Notes its calls, and the adapters' weights when they are loaded."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.loaded: dict[str, dict[str, torch.Tensor]] = {}

    def collective_rpc(self, method, kwargs):
        assert method == "reload_weights"
        self.calls.append("weights")
        self.weights = dict(kwargs["weights_iterator"])

    def add_lora(self, request):
        assert request.load_inplace
        self.calls.append(request.name)
        self.loaded[request.name] = read_weights(request.path)

    def reset_prefix_cache(self):
        self.calls.append("reset")


@dataclass
class Request:
    """In place of vLLM's `LoRARequest`."""

    name: str
    id: int
    path: str
    load_inplace: bool = False


@pytest.fixture(autouse=True)
def _vllm(monkeypatch):
    for name in ("vllm", "vllm.lora"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.setitem(sys.modules, "vllm.lora.request", SimpleNamespace(LoRARequest=Request))


def adapters(model, *names: str, rank: int = 4) -> Lora:
    lora, shape = Lora(model), new_config(model, LoraOptions(rank, 8), "base")
    for name in names:
        lora.served.append(lora.add(shape, trained=True, seed=name))
    return lora


@pytest.mark.parametrize("kind", MAKERS)
def test_weights_are_those_of_the_stored_model(kind, tmp_path):
    """And the head under its own name where it is tied, for it is served untied on a CPU."""
    model = MAKERS[kind]()
    model.save_pretrained(tmp_path)
    stored, sent = load_file(tmp_path / "model.safetensors"), dict(ModelSync(model).weights())
    assert sent.keys() == stored.keys() | {"lm_head.weight"}
    assert all(torch.equal(sent[name], value) for name, value in stored.items())
    assert torch.equal(sent["lm_head.weight"], model.get_output_embeddings().weight)


def test_the_config_is_that_of_the_model_but_for_a_tied_head():
    model = tiny_qwen3()
    sync = ModelSync(model)
    assert sync.settings() == {"model": sync.folder, "load_format": "dummy"}
    written = json.loads(Path(sync.folder, "config.json").read_text())
    assert written["architectures"] == ["Qwen3ForCausalLM"]
    assert written["tie_word_embeddings"] is False
    assert written["vocab_size"] == model.config.vocab_size
    assert model.config.tie_word_embeddings is True
    folder = Path(sync.folder)
    sync._place.cleanup()
    assert not folder.exists()


def test_a_transfer_ends_with_the_reset_of_the_prefix_cache():
    engine, model = Engine(), tiny_qwen3()
    sync = ModelSync(model)
    for _ in range(2):
        sync.transfer(engine)
    assert engine.calls == ["weights", "reset"] * 2
    assert sync.adapter(-1) is None
    with pytest.raises(PolicyError, match="no adapters"):
        sync.adapter(0)


def test_the_base_is_sent_once_and_adapters_every_time():
    model = tiny_qwen3()
    plain = {name: value.clone() for name, value in ModelSync(model).weights()}
    lora = adapters(model, "a", "b")
    sync, engine = AdapterSync(model, lora), Engine()
    assert sync.settings() | {"model": ""} == {
        "model": "", "load_format": "dummy", "enable_lora": True,
        "max_loras": 3, "max_cpu_loras": 3, "max_lora_rank": 8,
    }  # fmt: skip
    sync.transfer(engine)
    names = ["adapter-0", "adapter-1", "adapter-2"]
    assert engine.calls == ["weights", "reset", *names, "reset"]
    assert engine.weights.keys() == plain.keys()
    assert all(torch.equal(engine.weights[name], value) for name, value in plain.items())
    with torch.no_grad():
        for parameter in lora.named(lora.served[1]).values():
            parameter.add_(1.0)
    sync.transfer(engine)
    assert engine.calls == ["weights", "reset", *names, "reset", *names, "reset"]
    for index, key in enumerate(lora.served):
        assert all(torch.equal(engine.loaded[names[index]][name], v) for name, v in lora.exported(key).items())


def test_rows_of_the_base_have_an_adapter_that_is_zero():
    """No row is without an adapter beside rows with one, and reading its file again would be for nothing."""
    model = tiny_qwen3()
    sync, engine = AdapterSync(model, adapters(model, "a", "b")), Engine()
    sync.settings()
    sync.transfer(engine)
    assert [sync.adapter(index).name for index in (0, 1, -1)] == ["adapter-0", "adapter-1", "adapter-2"]
    assert len({sync.adapter(index).id for index in (0, 1, -1)}) == 3
    assert min(sync.adapter(index).id for index in (0, 1, -1)) == 1
    assert not any(sync.adapter(index).load_inplace for index in (0, 1, -1))
    assert all(not value.any() for value in engine.loaded["adapter-2"].values())
    assert any(value.any() for value in engine.loaded["adapter-0"].values())


@pytest.mark.parametrize(("rank", "room"), [(4, 8), (8, 8), (17, 32)])
def test_room_for_the_rank(rank, room):
    model = tiny_qwen3()
    assert AdapterSync(model, adapters(model, "a", rank=rank)).settings()["max_lora_rank"] == room


def test_a_rank_beyond_those_of_vllm_is_refused():
    model = tiny_qwen3()
    lora = SimpleNamespace(served=["a"], config=lambda key: SimpleNamespace(r=513))
    with pytest.raises(PolicyError, match="rank 512 at most, and one has rank 513"):
        AdapterSync(model, lora).settings()


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(), (-1.0, -2.0)),
        (Sampling(0.0), (0.0, 0.0)),
        (Sampling(0.0, top_p=0.5), (0.0, 0.0)),
        (Sampling(0.7), ()),
        (Sampling(top_p=0.9), ()),
        (Sampling(top_k=5), ()),
    ],
)
def test_log_probs_of_the_draw_are_given_where_they_follow(sampling, expected):
    assert drawn_logprobs(sampling, [-1.0, -2.0]) == expected
