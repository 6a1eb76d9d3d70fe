from __future__ import annotations

import math

import pytest
import torch

from palaver.agents.llm.policies import top_logprobs as module
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.policies.top_logprobs import top_logprobs
from palaver.core import Completion, Message, PolicyError, Request, Sampling
from tests.agents.adapting import stored_base, team_of
from tests.models import byte_tokenizer, tiny_gpt2, tiny_qwen3

SAMPLING = Sampling(max_tokens=6)


@pytest.fixture(scope="module")
def policy() -> LLMPolicy:
    return LLMPolicy(tiny_qwen3(), byte_tokenizer(template=True))


def said(policy: LLMPolicy, *texts: str) -> list[Completion]:
    requests = [Request("a", (Message("user", text),), (1, 2), SAMPLING) for text in texts]
    return [completion for row in policy.act(requests) for completion in row]


def full(policy: LLMPolicy, completion: Completion) -> torch.Tensor:
    """log softmax (T, V) before each answered token, of the completion alone and without leaving out any logits."""
    ids = torch.tensor([[*completion.prompt_ids, *completion.token_ids]])
    with torch.no_grad():
        logits = policy.model(input_ids=ids).logits[0]
    return logits[len(completion.prompt_ids) - 1 : -1].log_softmax(-1)


@pytest.mark.parametrize("make", [tiny_qwen3, tiny_gpt2])
def test_the_best_are_those_of_the_full_softmax_of_each_completion_alone(make) -> None:
    policy = LLMPolicy(make(), byte_tokenizer())
    completions = said(policy, "one", "a much longer prompt than the first")
    found = top_logprobs(policy, completions, 5)
    assert [len(places) for places in found] == [len(completion.token_ids) for completion in completions]
    for completion, places in zip(completions, found, strict=True):
        expected = full(policy, completion)
        for place, row in zip(places, expected, strict=True):
            chances = {}
            for token in row.argsort(descending=True)[:5].tolist():
                text = policy.tokenizer.decode([token])
                chances[text] = chances.get(text, 0) + math.exp(row[token])
            assert place == pytest.approx({text: math.log(chance) for text, chance in chances.items()}, abs=1e-4)
            assert list(place.values()) == sorted(place.values(), reverse=True)


def test_a_sampled_token_has_the_log_probability_that_it_was_drawn_with(policy: LLMPolicy) -> None:
    completions = said(policy, "x")
    for completion, places in zip(completions, top_logprobs(policy, completions, 20), strict=True):
        for token, logprob, place in zip(completion.token_ids, completion.logprobs, places, strict=True):
            text = policy.tokenizer.decode([token])
            if text in place and "\ufffd" not in text:
                assert place[text] == pytest.approx(logprob, abs=1e-4)


def test_each_adapter_tells_its_own(tmp_path) -> None:
    """Greedy answers: the token taken is the likeliest one, with the log-probability it was taken with."""
    firsts = []
    for policy in team_of(stored_base(tmp_path / "base")).values():
        request = Request("a", (Message("user", "x"),), (0,), Sampling(temperature=0.0, max_tokens=4))
        (completion,) = policy.act([request])[0]
        (places,) = top_logprobs(policy, [completion], 20)
        for token, logprob, place in zip(completion.token_ids, completion.logprobs, places, strict=True):
            text = policy.tokenizer.decode([token])
            assert text == "\ufffd" or place[text] == pytest.approx(logprob, abs=1e-4)
        firsts.append(places[0])
    assert firsts[0] != firsts[1] != firsts[2]


def test_tokens_spelt_alike_count_as_one() -> None:
    likely = [(math.log(0.5), 5), (math.log(0.3), 0), (math.log(0.1), 1)]
    found = module._by_text(likely, lambda token: "x" if token < 2 else "y")
    assert found == pytest.approx({"y": math.log(0.5), "x": math.log(0.4)})


def test_parts_change_nothing(policy: LLMPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    completions = said(policy, "one", "two three four", "five")
    together = top_logprobs(policy, completions, 3, first=2)
    monkeypatch.setattr(module, "_LOGITS", 1)
    apart = top_logprobs(policy, completions, 3, first=2)
    assert [len(places) for places in together] == [2] * 6
    for left, right in zip(together, apart, strict=True):
        for one, other in zip(left, right, strict=True):
            assert one == pytest.approx(other, abs=1e-4)


def test_the_model_stays_in_its_mode(policy: LLMPolicy) -> None:
    policy.model.train()
    top_logprobs(policy, said(policy, "x"), 1)
    assert policy.model.training
    policy.model.eval()


def test_an_empty_answer_and_no_answers(policy: LLMPolicy) -> None:
    assert top_logprobs(policy, [], 3) == []
    assert top_logprobs(policy, [Completion("", (5, 6))], 3) == [()]


@pytest.mark.parametrize(("k", "prompt", "says"), [(0, (1,), "not 0"), (21, (1,), "not 21"), (2, (), "plain text")])
def test_what_cannot_be_told_is_refused(policy: LLMPolicy, k: int, prompt: tuple[int, ...], says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        top_logprobs(policy, [Completion("x", prompt, (5,))], k)
