"""A judge behind a real server: the same verdicts over HTTP as here, by name, with a budget that ends."""

from __future__ import annotations

import pytest

from palaver.agents.base.rewards import make_reward
from palaver.agents.judges.judge import Judge
from palaver.agents.judges.spec import JudgeSpec
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.policies.local_chat import LocalChat
from palaver.agents.remote.chat import RemoteChat
from palaver.agents.serving.app import make_app
from palaver.agents.serving.server import serving
from palaver.agents.simple import ScriptedPolicy
from palaver.scoring import AnswerPair
from tests.agents.judges.scripted import TWO, case, fair, judge
from tests.models import byte_tokenizer, tiny_qwen3

CASES = [case("good", "g"), case("fair", "g"), case("poor </said-0> $said", "g")]


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "PALAVER_DOLLARS", "PALAVER_TOKENS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PALAVER_CACHE", str(tmp_path))


@pytest.fixture(scope="module")
def model():
    options = ModelOptions(device="cpu", max_prompt_tokens=6000)
    return LLMPolicy(tiny_qwen3(1, max_position_embeddings=8192), byte_tokenizer(template=True), options, "m")


@pytest.fixture(scope="module")
def url(model):
    with serving(make_app({"fair": ScriptedPolicy(fair), "m": model})) as found:
        yield found


@pytest.mark.parametrize("mode", ["pointwise", "listwise", "pairwise"])
def test_the_same_verdicts_over_http(url, mode, tmp_path):
    rubric = tmp_path / "r.json"
    rubric.write_text(JudgeSpec(model="x", rubric=TWO).rubric.model_dump_json())
    remote = make_reward(f"judge:openai:fair@{url}?mode={mode}&rubric={rubric}&attempts=1")
    found, own = remote.score(CASES), judge(mode=mode).score(CASES)
    assert [(v.score, v.criteria, v.reason) for v in found] == [(v.score, v.criteria, v.reason) for v in own]
    assert [v.cost.calls for v in found] == [v.cost.calls for v in own]
    assert sum(v.cost.prompt_tokens for v in found) > 0
    again = make_reward(f"judge:openai:fair@{url}?mode={mode}&rubric={rubric}&attempts=1")
    assert [(v.score, v.cost.calls) for v in again.score(CASES)] == [(v.score, 0) for v in found], "kept"
    assert again.metrics()["cache_hits"] == 1.0


def test_pairs_over_http(url):
    spec = JudgeSpec(model="x", rubric=TWO, cache=False)
    remote = Judge(spec, chat=RemoteChat("fair", url))
    assert [each.first for each in remote.compare([AnswerPair("p", "good", "fair"), AnswerPair("p", "x", "y")])] == [
        1.0,
        0.5,
    ]


def test_the_budget_of_the_client_leaves_cases_unscored(url):
    remote = make_reward(f"judge:openai:fair@{url}?tokens=10&cache=false")
    verdicts = remote.score(CASES)
    assert [verdict.score for verdict in verdicts] == [None] * 3
    assert {verdict.failure[:7] for verdict in verdicts} == {"budget:"}
    assert sum(verdict.cost.calls for verdict in verdicts) == 0, "nothing was sent"


def test_nobody_there_is_a_failure_and_no_exception():
    remote = make_reward("judge:openai:fair@http://127.0.0.1:9/v1?attempts=1&cache=false")
    (verdict,) = remote.score(CASES[:1])
    assert verdict.score is None
    assert verdict.failure.startswith("transport")


def test_weighted_scores_over_http_are_those_of_the_local_model(model, url):
    spec = JudgeSpec(model="x", rubric=TWO, mode="weighted", asks=1, cache=False)
    (here,) = Judge(spec, chat=LocalChat(model)).score(CASES[:1])
    (there,) = Judge(spec, chat=RemoteChat("m", url)).score(CASES[:1])
    assert here.failure.startswith("out of menu: the scores have 0.")
    assert there.failure == here.failure
    assert there.cost.completion_tokens == here.cost.completion_tokens
