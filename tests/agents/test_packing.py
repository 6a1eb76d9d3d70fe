"""Answers that share a prompt's sequence have the log-probabilities and gradients of answers on their own."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from transformers import BloomConfig, BloomForCausalLM, MistralConfig, MistralForCausalLM

from palaver.agents.llm.scoring import logprobs as logprob
from palaver.agents.llm.scoring import packing
from palaver.agents.llm.scoring import split_head as split
from palaver.agents.llm.scoring.logprobs import response_logprobs
from palaver.agents.llm.scoring.split_head import holds, split_head
from palaver.core import Sampling
from tests.closeness import assert_gradients_close, assert_values_close
from tests.models import tiny_gpt2, tiny_llama, tiny_qwen3

PROMPTS = [[5, 6, 7, 8, 9, 10, 11, 12]] * 3 + [[20, 21, 22, 23, 24, 25]] * 2
ANSWERS = [[30, 31, 1], [32], [33, 34, 35, 36], [40, 41], [42, 43, 1]]


def pack(prompts, answers):
    return packing.pack(packing.sequences(prompts, answers), prompts, answers)


def worth(prompts, answers, hidden):
    return packing.worth_packing(packing.sequences(prompts, answers), prompts, answers, hidden)


def test_the_layout_is_as_drawn():
    packed = pack([[7, 8], [9], [7, 8]], [[1, 2], [3], [4, 5]])
    assert packed.ids.tolist() == [[7, 8, 1, 2, 4, 5], [9, 3, 0, 0, 0, 0]]
    assert packed.positions.tolist() == [[0, 1, 2, 3, 2, 3], [0, 1, 0, 0, 0, 0]]
    assert packed.segment.tolist() == [[0, 0, 1, 1, 2, 2], [0, 1, -1, -1, -1, -1]]
    assert packed.tokens.tolist() == [1, 2, 3, 4, 5]
    assert packed.row.tolist() == [0, 0, 1, 0, 0]
    assert packed.column.tolist() == [1, 2, 0, 1, 4]


def test_an_answer_sees_the_prompt_and_itself():
    mask = packing.attention_mask(torch.tensor([[0, 0, 1, 2, 2, -1]]))[0, 0].int().tolist()
    assert mask == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [1, 1, 0, 1, 1, 0],
        [1, 1, 0, 0, 0, 1],
    ]


def test_worth():
    assert worth(PROMPTS, ANSWERS, 32)
    assert not worth([[1, 2], [3, 4]], [[1], [2]], 32)
    assert not worth([[1], [1]], [[1] * 50, [2] * 50], 32)
    # two prompts of 300 with four answers of 256 each: padded 8*556*(6H + 278), packed 2*1324*(6H + 1324)
    long = [[1] * 300] * 4 + [[2] * 300] * 4, [[3] * 256] * 8
    assert not worth(*long, 128)  # 4.65e6 against 5.54e6
    assert worth(*long, 1024)  # 28.6e6 against 19.8e6


def test_a_long_group_is_cut():
    prompts, answers = [[1] * 100] * 5, [[2] * 900] * 5
    packed = pack(prompts, answers)
    assert packed.ids.shape == (3, 1900)
    assert np.bincount(packed.row).tolist() == [1800, 1800, 900]


@pytest.mark.parametrize("build", [tiny_qwen3, tiny_llama, tiny_gpt2])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_values_and_gradients_are_those_of_separate_sequences(build, temperature, monkeypatch):
    together, alone = build(3), build(3)
    weights = torch.linspace(-1, 1, 20).reshape(5, 4)
    packed, mask = response_logprobs(together, PROMPTS, ANSWERS, Sampling(temperature))
    assert split_head(together).packs
    (packed * weights).sum().backward()
    monkeypatch.setattr(logprob, "worth_packing", lambda *_: False)
    padded, same = response_logprobs(alone, PROMPTS, ANSWERS, Sampling(temperature))
    (padded * weights).sum().backward()
    assert torch.equal(mask, same)
    assert_values_close(packed, padded)
    assert_gradients_close(*({name: p.grad for name, p in model.named_parameters()} for model in (together, alone)))


def test_a_window_is_kept(monkeypatch):
    """A mask of packing would take the place of the window's: 8 + 16 tokens do not fit one of 16."""
    config = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    torch.manual_seed(0)
    model = MistralForCausalLM(
        MistralConfig(vocab_size=260, num_key_value_heads=2, initializer_range=0.2, sliding_window=16, **config)
    ).eval()
    prompts, answers = [[5, 6, 7, 8, 9, 10, 11, 12]] * 4, [[20 + k, *range(100, 115)] for k in range(4)]
    monkeypatch.setattr(logprob, "worth_packing", lambda *_: True)
    found, _ = response_logprobs(model, prompts, answers)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        logits = model(input_ids=torch.tensor([prompt + answer])).logits[0, 7:-1]
        expected = logits.log_softmax(-1).gather(1, torch.tensor(answer)[:, None])[:, 0]
        assert_values_close(found[row], expected)


def test_a_model_that_packing_fails_on_is_not_packed():
    """BLOOM's mask has two dimensions: it raises a ValueError for any other."""
    torch.manual_seed(0)
    model = BloomForCausalLM(BloomConfig(vocab_size=260, hidden_size=32, n_layer=2, n_head=4, initializer_range=0.2))
    together, _ = response_logprobs(model.eval(), PROMPTS, ANSWERS)
    alone = [response_logprobs(model, [p], [a])[0][0] for p, a in zip(PROMPTS, ANSWERS, strict=True)]
    for found, expected in zip(together, alone, strict=True):
        assert_values_close(found[: len(expected)], expected)


def test_a_want_of_memory_is_no_verdict():
    def claim() -> bool:
        raise torch.OutOfMemoryError("full")

    with pytest.raises(torch.OutOfMemoryError):
        holds(tiny_qwen3(), claim)


def test_packing_is_tried_only_where_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(split, "_packs", lambda *_: pytest.fail("tried"))
    model = tiny_gpt2(4)
    response_logprobs(model, [[5, 6], [7, 8]], [[9], [9]])
    assert split_head(model) is not None


def test_a_model_that_ignores_the_mask_is_not_packed():
    model = copy.deepcopy(tiny_qwen3(1))
    forward = model.model.forward
    model.model.forward = lambda **kw: forward(**{k: v for k, v in kw.items() if k != "attention_mask"})
    response_logprobs(model, PROMPTS, ANSWERS)
    assert not split_head(model).packs
