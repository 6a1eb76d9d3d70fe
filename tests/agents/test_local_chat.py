"""A local model as a chat: the policy's own answers, their log-probabilities, and a revision that names its weights."""

from __future__ import annotations

import math

import pytest
import torch

from palaver.agents.base.chat import Chat, Question
from palaver.agents.judges.judge import Judge
from palaver.agents.judges.spec import JudgeSpec
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.policies.local_chat import LocalChat, digest
from palaver.core import ConfigError, Message, PolicyError, Request, Sampling
from palaver.scoring import ScoringRequest
from tests.models import byte_tokenizer, tiny_qwen3


@pytest.fixture(scope="module")
def policy():
    options = ModelOptions(device="cpu", max_prompt_tokens=6000)
    return LLMPolicy(tiny_qwen3(1, max_position_embeddings=8192), byte_tokenizer(template=True), options, "tiny")


def ask(text, seed=0, top=0, max_tokens=6):
    return Question((Message("user", text),), Sampling(max_tokens=max_tokens), seed, top_logprobs=top)


def test_it_answers_as_the_policy_does(policy):
    chat = LocalChat(policy, batch=2)
    assert isinstance(chat, Chat)
    questions = [ask("one", 1), ask("a longer question, that comes first", 2), ask("three", 3), ask("one", 1)]
    answers = chat.ask(questions)
    for question, answer in zip(questions, answers, strict=True):
        ((own,),) = policy.act([Request("judge", question.conversation, (question.seed,), question.sampling)])
        assert (answer.text, answer.finish, answer.failure) == (own.text, own.finish, "")
        assert (answer.cost.prompt_tokens, answer.cost.completion_tokens) == (len(own.prompt_ids), len(own.token_ids))
        assert (answer.cost.calls, answer.cost.dollars) == (1, 0.0)
    assert answers[0] == answers[3]
    assert chat.ask([]) == []


def test_likely_tokens_are_told_where_they_are_asked_for(policy):
    plain, five, twenty = LocalChat(policy).ask([ask("hi"), ask("hi", top=5), ask("hi", top=20)])
    assert plain.top == ()
    assert len(five.top) == five.cost.completion_tokens
    assert LocalChat(policy).ask([ask("hi", top=5)])[0].top[0] == pytest.approx(five.top[0], abs=1e-4)
    ids = torch.tensor([policy.render((Message("user", "hi"),))])
    values, tokens = policy.model(ids).logits[0, -1].softmax(-1).topk(20)
    expected: dict[str, float] = {}
    for value, token in zip(values.tolist(), tokens.tolist(), strict=True):
        text = policy.tokenizer.decode([token])  # bytes that are no text alone are spelt alike
        expected[text] = expected.get(text, 0.0) + value
    assert {text: math.exp(logprob) for text, logprob in twenty.top[0].items()} == pytest.approx(expected, abs=1e-4)


def test_a_prompt_that_does_not_fit_fails_alone(policy):
    fine, long = LocalChat(policy).ask([ask("hi"), ask("x" * 7000)])
    assert fine.failure == ""
    assert long.text == ""
    assert long.failure.startswith("refusal: the prompt of 'judge' has 70")


def test_the_revision_names_the_weights(policy):
    other = LLMPolicy(tiny_qwen3(2), byte_tokenizer(template=True), policy.options)
    assert digest(policy) == digest(LLMPolicy(tiny_qwen3(1, max_position_embeddings=8192), policy.tokenizer))
    assert digest(policy) != digest(other)
    assert LocalChat(policy).revision == f"{digest(policy)}/fp32/auto"
    assert LocalChat(policy, revision="abc").revision == "abc/fp32/auto"


def test_by_name(policy, tmp_path):
    policy.save(tmp_path)
    chat = LocalChat.named(f"hf:{tmp_path}?device=cpu&engine=palaver")
    assert chat.name == f"hf:{tmp_path}?device=cpu&engine=palaver"
    assert chat.ask([ask("one", 1)])[0].text == LocalChat(policy).ask([ask("one", 1)])[0].text
    with pytest.raises(PolicyError, match="whole number"):
        LocalChat.named(f"hf:{tmp_path}?max_prompt_tokens=many")
    with pytest.raises(ConfigError, match="dtype cannot be"):
        LocalChat.named(f"hf:{tmp_path}?dtype=int8")


def test_a_random_model_judges_by_its_probabilities(policy):
    """Its log-probabilities decide: with 260 tokens of like probability no score has half, and that is said."""
    spec = JudgeSpec(model="x", mode="weighted", asks=1, cache=False)
    (verdict,) = Judge(spec, chat=LocalChat(policy)).score([ScoringRequest("t", {"a": "Say."}, {"a": "Said."})])
    assert verdict.score is None
    assert verdict.failure.startswith("out of menu: the scores have 0.")
    assert verdict.cost.calls == 3
