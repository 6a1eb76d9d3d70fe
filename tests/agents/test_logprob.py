from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import CohereConfig, CohereForCausalLM, Gemma2Config, Gemma2ForCausalLM
from trl.trainer.utils import selective_log_softmax

from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.scoring.logprobs import response_logprobs
from palaver.core import Message, Request, Sampling
from tests.closeness import assert_gradients_close, assert_values_close
from tests.models import byte_tokenizer, tiny_gpt2, tiny_llama, tiny_qwen3

PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14], [15]]
ANSWERS = [[20, 21, 22, 1], [23, 1], [24, 25, 26, 27, 28]]


def tiny_gemma2(seed: int = 0) -> Gemma2ForCausalLM:
    """Caps its logits at 3, which changes every one of them."""
    torch.manual_seed(seed)
    return Gemma2ForCausalLM(
        Gemma2Config(
            vocab_size=260, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, final_logit_softcapping=3.0, initializer_range=0.2,
        )
    ).eval()  # fmt: skip


def tiny_cohere(seed: int = 0) -> CohereForCausalLM:
    """Scales its logits."""
    torch.manual_seed(seed)
    return CohereForCausalLM(
        CohereConfig(
            vocab_size=260, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, logit_scale=0.25, initializer_range=0.2,
        )
    ).eval()  # fmt: skip


MODELS = [tiny_qwen3, tiny_llama, tiny_gpt2, tiny_gemma2, tiny_cohere]


def one_by_one(model, temperature: float) -> list[torch.Tensor]:
    """Each pair alone, full logits, library's selection."""
    values = []
    for prompt, answer in zip(PROMPTS, ANSWERS, strict=True):
        logits = model(input_ids=torch.tensor([[*prompt, *answer]])).logits[:, len(prompt) - 1 : -1] / temperature
        values.append(selective_log_softmax(logits, torch.tensor([answer]))[0])
    return values


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_values_equal_full_logits_of_each_row_alone(make: Callable, temperature: float) -> None:
    model = make(0)
    logprobs, mask = response_logprobs(model, PROMPTS, ANSWERS, Sampling(temperature))
    assert mask.sum(1).tolist() == [4, 2, 5]
    assert logprobs.shape == mask.shape == (3, 5)
    for row, expected in enumerate(one_by_one(model, temperature)):
        assert_values_close(logprobs[row, : len(expected)], expected)
        assert not logprobs[row, len(expected) :].any()


@pytest.mark.parametrize("make", MODELS)
def test_gradients_equal_full_logits_of_each_row_alone(make: Callable) -> None:
    ours, plain = make(0), make(0)
    weights = torch.tensor([1.0, -2.0, 0.5])
    (response_logprobs(ours, PROMPTS, ANSWERS)[0].sum(1) * weights).sum().backward()
    (torch.stack([row.sum() for row in one_by_one(plain, 1.0)]) * weights).sum().backward()
    assert_gradients_close(*({name: p.grad for name, p in model.named_parameters()} for model in (ours, plain)))


def test_the_prompt_and_padding_get_no_gradient() -> None:
    """Untied: head rows are touched through the softmax everywhere, embeddings only of tokens that were read."""
    model = tiny_llama(0)
    response_logprobs(model, [[5, 6]], [[7, 1]])[0].sum().backward()
    touched = model.model.embed_tokens.weight.grad.abs().sum(1).nonzero()[:, 0].tolist()
    assert touched == [5, 6, 7]  # the last token (1) is predicted, never read; 0 (padding) is not there
    alone = torch.autograd.grad(response_logprobs(model, [[5, 6]], [[7, 1]])[0].sum(), model.lm_head.weight)[0]
    padded = torch.autograd.grad(
        response_logprobs(model, [[5, 6], [9] * 20], [[7, 1], []])[0].sum(), model.lm_head.weight
    )[0]
    assert_gradients_close([padded], [alone])


@pytest.mark.parametrize("make", [tiny_qwen3, tiny_llama, tiny_gpt2])
def test_equal_to_what_the_engine_recorded(make: Callable) -> None:
    model = make(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.7)  # keep the logits within a few units: fp32 rounds a logit of 30 by 2e-6
    policy = LLMPolicy(model, byte_tokenizer())
    sampling = Sampling(temperature=0.8, top_p=0.95, max_tokens=40)
    texts = ["short", "a prompt of some more length", "x"]
    requests = [Request("a", (Message("user", text),), tuple(range(10)), sampling) for text in texts]
    answers = [completion for row in policy.act(requests) for completion in row]
    assert any(answer.token_ids[-1] == 1 for answer in answers)  # end tokens are among them
    logprobs, mask = response_logprobs(model, [a.prompt_ids for a in answers], [a.token_ids for a in answers])
    for row, answer in enumerate(answers):
        assert mask[row].sum() == len(answer.token_ids) == len(answer.logprobs) == len(answer.sample_logprobs)
        assert_values_close(logprobs[row, : len(answer.logprobs)], answer.logprobs)


def test_no_answers() -> None:
    logprobs, mask = response_logprobs(tiny_qwen3(), [[5]], [[]])
    assert logprobs.shape == mask.shape == (1, 0)
    logprobs, mask = response_logprobs(tiny_qwen3(), [], [])
    assert logprobs.shape == mask.shape == (0, 0)


def test_dropout_of_a_training_model_is_left_alone() -> None:
    model = tiny_gpt2(0).train()
    response_logprobs(model, PROMPTS, ANSWERS)
    assert model.training
    assert all(module.training for module in model.modules())
