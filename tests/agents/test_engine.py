from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Mamba2Config,
    Mamba2ForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from palaver.agents.llm.generation import engine as engine_module
from palaver.agents.llm.generation import hf_engine as library_engine_module
from palaver.agents.llm.generation import requests as batches
from palaver.agents.llm.generation.dense_decoder import DenseDecoder
from palaver.agents.llm.generation.engine import Engine
from palaver.agents.llm.generation.forward import LibraryForward, find_forward
from palaver.agents.llm.generation.hf_engine import LibraryEngine
from palaver.agents.llm.generation.kv_cache import KeyValues
from palaver.agents.llm.generation.requests import GenerationRequest, GenerationResult, Progress, Room
from palaver.agents.llm.model.inference_copy import InferenceCopy
from palaver.core import PolicyError, Sampling
from tests.closeness import assert_same_tokens, parted_rows
from tests.models import byte_tokenizer, tiny_gpt2, tiny_llama, tiny_qwen3

END = frozenset({1})
GREEDY = Sampling(temperature=0, max_tokens=24)
SHAPE = {
    "vocab_size": 260, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "initializer_range": 0.2, "eos_token_id": 1, "bos_token_id": None, "pad_token_id": 0,
}  # fmt: skip


def tiny_qwen2(seed: int = 0) -> Qwen2ForCausalLM:
    """Qwen 2 with biases that are not zero."""
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(Qwen2Config(**SHAPE)).eval()
    for layer in model.model.layers:
        for name in ("q_proj", "k_proj", "v_proj"):
            torch.nn.init.normal_(getattr(layer.self_attn, name).bias)
    return model


def tiny_mistral(seed: int = 0, window: int | None = None) -> MistralForCausalLM:
    torch.manual_seed(seed)
    return MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=window)).eval()


def varied_norms(model):
    """Norm weights away from 1, so that folding them wrongly shows."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
    return model


def dense(make: Callable) -> Callable:
    def build():
        model = varied_norms(make(3))
        assert DenseDecoder.supports(model)
        return model, DenseDecoder(model, torch.float32)

    return build


def library(make: Callable) -> Callable:
    def build():
        model = varied_norms(make(3))
        return model, LibraryForward(InferenceCopy(model, torch.float32))

    return build


FORWARDS = {
    "qwen3": dense(tiny_qwen3),
    "llama": dense(tiny_llama),
    "qwen2": dense(tiny_qwen2),
    "mistral": dense(tiny_mistral),
    "qwen3, own forward": library(tiny_qwen3),
    "gpt2, own forward": library(tiny_gpt2),
    "qwen3, eager attention": library(lambda seed: tiny_qwen3(seed, attn_implementation="eager")),
}


def prompts_of(count: int, seed: int = 0) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [generator.integers(4, 260, size=generator.integers(1, 40)).tolist() for _ in range(count)]


@pytest.fixture(params=FORWARDS)
def pair(request: pytest.FixtureRequest):
    return FORWARDS[request.param]()


def new_engine(forward, decode=lambda ids: "") -> Engine:
    return Engine(forward, END, decode)


def assert_same(found: Sequence[GenerationResult], expected: Sequence[GenerationResult]) -> None:
    """Compare samples of the same rows, drawn in batches of other shapes.

    Rows may part as in `assert_same_tokens`, and have the same log-probabilities up to there.
    """
    for one, other in zip(found, expected, strict=True):
        pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one.token_ids, other.token_ids, strict=False))
        equal = len(list(pairs))
        assert np.allclose(one.logprobs[:equal], other.logprobs[:equal], atol=2e-4)
        if one.token_ids == other.token_ids:
            assert one.finish == other.finish
    assert_same_tokens([each.token_ids for each in found], [each.token_ids for each in expected])
    drawn = [(one.sample_logprobs, other.sample_logprobs) for one, other in zip(found, expected, strict=True)]
    apart = [len(a) != len(b) or not np.allclose(a, b, atol=2e-4) for a, b in drawn]
    assert sum(apart) <= parted_rows(len(expected))


def test_greedy_equals_the_librarys_generate(pair) -> None:
    model, forward = pair
    prompts = prompts_of(12)
    samples = new_engine(forward).generate(prompts, [GenerationRequest(place, 0, GREEDY) for place in range(12)])
    lengths = set()
    for prompt, sample in zip(prompts, samples, strict=True):
        ids = torch.tensor([prompt])
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False, eos_token_id=1, pad_token_id=0
        )
        assert list(sample.token_ids) == out[0, len(prompt) :].tolist()
        assert sample.finish == ("stop" if sample.token_ids[-1] == 1 else "length")
        lengths.add(len(prompt))
    assert len(lengths) > 5


def test_the_reference_engine_gives_the_same_samples(pair) -> None:
    model, forward = pair
    prompts = prompts_of(6)
    rows = [GenerationRequest(place, seed, Sampling(0.9, 0.95, 30, 20)) for place in range(6) for seed in range(3)]
    rows += [GenerationRequest(place, 0, GREEDY) for place in range(6)]
    reference = LibraryEngine(InferenceCopy(model, torch.float32), END, lambda ids: "")
    assert_same(new_engine(forward).generate(prompts, rows), reference.generate(prompts, rows))


def test_a_row_does_not_depend_on_its_company(pair, request: pytest.FixtureRequest) -> None:
    """240 rows of mixed prompts, samplings and lengths, many ending early, against rows alone: all or every eighth."""
    _, forward = pair
    every = 1 if request.node.callspec.params["pair"] == "qwen3" else 8
    prompts = prompts_of(30)
    kinds = [Sampling(1.0, max_tokens=30), Sampling(0.7, 0.9, 20, 12), Sampling(1.3, 0.8, 0, 25), GREEDY]
    rows = [GenerationRequest(place, 100 * place + n, kinds[(place + n) % 4]) for place in range(30) for n in range(8)]
    ends = frozenset(range(1, 20))
    engine = Engine(forward, ends, lambda ids: "")
    together = engine.generate(prompts, rows)
    ended = [sample for sample in together if sample.finish == "stop"]
    assert 50 < len(ended) < 239
    assert all(s.token_ids[-1] in ends and not ends & set(s.token_ids[:-1]) for s in ended)
    assert all(len(s.token_ids) == r.sampling.max_tokens for s, r in zip(together, rows, strict=True) if s not in ended)
    alone = [
        engine.generate([prompts[row.prompt]], [GenerationRequest(0, row.seed, row.sampling)])[0]
        for row in rows[::every]
    ]
    assert_same(together[::every], alone)


def test_batches_split_by_memory_give_the_same(pair, monkeypatch: pytest.MonkeyPatch) -> None:
    model, forward = pair
    prompts = prompts_of(10)
    rows = [GenerationRequest(place % 10, place, Sampling(max_tokens=15 + place % 3)) for place in range(30)]
    engine = new_engine(forward)
    whole = engine.generate(prompts, rows)
    sizes: list[int] = []
    monkeypatch.setattr(Progress, "__init__", counted(Progress.__init__, sizes))
    for module in (engine_module, library_engine_module):
        monkeypatch.setattr(module, "room", lambda *_: Room(200, 7))
    monkeypatch.setattr(engine_module, "PREFILL_TOKENS", 30)
    for split in (engine, LibraryEngine(InferenceCopy(model, torch.float32), END, lambda ids: "")):
        sizes.clear()
        assert_same(split.generate(prompts, rows), whole)
        assert sum(sizes) == 30
        assert len(sizes) > 4
        assert max(sizes) <= 7


def counted(init: Callable, sizes: list[int]) -> Callable:
    def record(self, rows, *args) -> None:
        sizes.append(len(rows))
        init(self, rows, *args)

    return record


def test_room_counts_what_torch_keeps_in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 GB free for the driver, 2 GB reserved of which 1 GB is in use: 5 GB, of which a share."""
    for name, value in (("mem_get_info", (4e9, 9e9)), ("memory_reserved", 2e9), ("memory_allocated", 1e9)):
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    found = batches.room(tiny_qwen3().config, torch.device("cuda"), torch.float32)
    assert found == (int(5e9 * batches.GPU_STORE_SHARE) // 256, batches.BATCH_LOGITS // 260)


def test_nothing_of_a_batch_outlives_it(pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and values are the largest thing on a GPU; without the collector, so that a circle counts as alive."""
    stores: list[weakref.ref] = []

    class Watched(KeyValues):
        def __init__(self, *args) -> None:
            super().__init__(*args)
            stores.append(weakref.ref(self))

    monkeypatch.setattr(engine_module, "KeyValues", Watched)
    gc.disable()
    try:
        new_engine(pair[1]).generate(prompts_of(3), [GenerationRequest(place, 0, GREEDY) for place in range(3)])
        assert [store() for store in stores] == [None]
    finally:
        gc.enable()


def test_looking_rarely_changes_nothing() -> None:
    """A GPU is asked every eighth step; rows that ended in between are cut, not lengthened."""
    _, forward = FORWARDS["qwen3"]()
    rows = [GenerationRequest(place % 5, place, Sampling(max_tokens=30)) for place in range(40)]
    often = new_engine(forward).generate(prompts_of(5), rows)
    rarely = new_engine(forward)
    rarely.interval = 8
    samples = rarely.generate(prompts_of(5), rows)
    assert_same(samples, often)


def test_the_first_token_may_end_a_row_and_one_token_may_be_all() -> None:
    _, forward = FORWARDS["qwen3"]()
    everything_ends = Engine(forward, frozenset(range(260)), lambda ids: "")
    samples = everything_ends.generate(
        [[5, 6]], [GenerationRequest(0, seed, Sampling(max_tokens=9)) for seed in range(3)]
    )
    assert [(len(s.token_ids), s.finish) for s in samples] == [(1, "stop")] * 3
    never = Engine(forward, frozenset(), lambda ids: "")
    samples = never.generate([[5, 6]], [GenerationRequest(0, seed, Sampling(max_tokens=1)) for seed in range(3)])
    assert [(len(s.token_ids), s.finish) for s in samples] == [(1, "length")] * 3
    assert never.generate([], []) == []


def test_stop_strings_end_a_row_at_the_token_that_completes_them() -> None:
    tokenizer = byte_tokenizer()
    _, forward = FORWARDS["qwen3"]()

    def decode(ids):
        return tokenizer.decode(list(ids), skip_special_tokens=True)

    rows = [GenerationRequest(place, place, Sampling(max_tokens=40)) for place in range(8)]
    cut_short = 0
    for row, sample in zip(rows, Engine(forward, END, decode).generate(prompts_of(8), rows), strict=True):
        text = decode([token for token in sample.token_ids if token != 1])
        pairs = [text[n : n + 2] for n in range(len(text) // 4, len(text) - 1) if text[n : n + 2].isascii()]
        for stop in pairs[:1]:
            first = next(n for n in range(1, 40) if stop in decode(sample.token_ids[:n]))
            sampling = Sampling(max_tokens=40, stop=("never there", stop))
            cut = Engine(forward, END, decode).generate(
                prompts_of(8), [GenerationRequest(row.prompt, row.seed, sampling)]
            )[0]
            assert cut.token_ids == sample.token_ids[:first]
            assert cut.finish == "stop"
            cut_short += first < len(sample.token_ids)
    assert cut_short >= 3


def test_bf16_copies_follow_refresh() -> None:
    for make, kind in ((tiny_qwen3, DenseDecoder), (tiny_gpt2, LibraryForward)):
        model = make(0)
        forward, _ = find_forward(InferenceCopy(model, torch.bfloat16))
        assert isinstance(forward, kind)
        rows = [GenerationRequest(0, 0, Sampling(temperature=0, max_tokens=8))]
        before = new_engine(forward).generate([[5, 6, 7]], rows)[0]
        exact = Engine(LibraryForward(InferenceCopy(model, torch.float32)), END, str).generate([[5, 6, 7]], rows)[0]
        assert abs(before.logprobs[0] - exact.logprobs[0]) < 0.3
        assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
        with torch.no_grad():
            for parameter, other in zip(model.parameters(), make(1).parameters(), strict=True):
                parameter.copy_(other)
        forward.refresh()
        after = new_engine(forward).generate([[5, 6, 7]], rows)[0]
        fresh = new_engine(find_forward(InferenceCopy(make(1), torch.bfloat16))[0]).generate([[5, 6, 7]], rows)[0]
        assert after == fresh != before


def test_a_refresh_never_holds_two_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = DenseDecoder(tiny_llama(layers=5), torch.bfloat16)
    alive: list[int] = []
    fold = DenseDecoder._fold

    def watched(self, layer):
        alive.append(sum(old() is not None for old in before))
        return fold(self, layer)

    before = [weakref.ref(layer.qkv) for layer in forward.layers]
    monkeypatch.setattr(DenseDecoder, "_fold", watched)
    forward.refresh()
    assert alive == [5, 4, 3, 2, 1]
    tied = DenseDecoder(tiny_qwen3(), torch.bfloat16)
    assert tied.head is tied.embedding


def test_weights_that_are_not_numbers_are_reported() -> None:
    for make in (tiny_qwen3, tiny_gpt2):
        model = make(0)
        with torch.no_grad():
            next(model.parameters()).fill_(float("nan"))
        forward, _ = find_forward(InferenceCopy(model, torch.float32))
        for sampling in (Sampling(max_tokens=3), GREEDY, Sampling(top_p=0.5), Sampling(top_k=5)):
            with pytest.raises(PolicyError, match="not finite"):
                new_engine(forward).generate([[5, 6]], [GenerationRequest(0, 0, sampling)])


def windowed() -> MistralForCausalLM:
    return tiny_mistral(window=8)


def alibi() -> BloomForCausalLM:
    torch.manual_seed(0)
    return BloomForCausalLM(
        BloomConfig(vocab_size=260, hidden_size=32, n_layer=2, n_head=4, initializer_range=0.2)
    ).eval()


def recurrent() -> Mamba2ForCausalLM:
    torch.manual_seed(0)
    config = Mamba2Config(
        vocab_size=260, hidden_size=32, num_heads=8, head_dim=8, state_size=8, num_hidden_layers=2, n_groups=1
    )
    return Mamba2ForCausalLM(config).eval()


@pytest.mark.parametrize("make", [windowed, alibi, recurrent])
def test_what_the_own_engine_cannot_serve_is_told_and_falls_back(make: Callable) -> None:
    model = make()
    forward, reason = find_forward(InferenceCopy(model, torch.float32))
    assert forward is None
    assert reason
    samples = LibraryEngine(InferenceCopy(model, torch.float32), END, str).generate(
        [[5, 6, 7]], [GenerationRequest(0, 0, GREEDY)]
    )
    out = model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=24, do_sample=False, eos_token_id=1, pad_token_id=0)
    assert list(samples[0].token_ids) == out[0, 3:].tolist()


def test_a_model_with_changed_parts_is_not_taken_for_a_plain_one() -> None:
    model = tiny_qwen3()
    model.model.layers[1].mlp.up_proj = torch.nn.Sequential(model.model.layers[1].mlp.up_proj)  # like an adapter
    assert not DenseDecoder.supports(model)
    for part in (torch.nn.Linear(32, 260), torch.nn.Sequential(torch.nn.Linear(32, 260, bias=False))):
        model = tiny_llama()
        model.lm_head = part
        assert not DenseDecoder.supports(model)
    model = tiny_llama()
    model.model.embed_tokens = torch.nn.Sequential(model.model.embed_tokens)
    assert not DenseDecoder.supports(model)
    scaled = tiny_llama(rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0})
    assert not DenseDecoder.supports(scaled)
    assert find_forward(InferenceCopy(scaled, torch.float32))[0] is not None


def test_the_memory_of_a_column() -> None:
    """2 (keys, values) x 2 layers x 2 heads x 8 numbers x 4 bytes; GPT-2: all 4 heads."""
    assert batches.column_bytes(tiny_qwen3().config, torch.float32) == 256
    assert batches.column_bytes(tiny_gpt2().config, torch.bfloat16) == 256
