"""Cooperative code is trained over two turns with feedback; threads share the sandbox, and what fails is left out."""

from __future__ import annotations

import json

import pytest

from palaver.core import ScoringError
from palaver.envs.code import base as scoring
from palaver.envs.code.sandbox import Report
from palaver.trainers.config.loading import load
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import prepare, train
from tests.models import byte_tokenizer, tiny_qwen3


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tiny_qwen3(max_position_embeddings=4096).save_pretrained(folder)
    byte_tokenizer(template=True).save_pretrained(folder)
    return str(folder)


def small(model, *changes):
    return load(
        "che-magrpo",
        [
            f"policy.model={model}", "policy.max_tokens=4", "algorithm.group_size=2", "train.steps=2", "eval.n=2",
            "train.prompts_per_step=1", "eval.samples=2", "log.tensorboard=false", "device=cpu", *changes,
        ],
    )  # fmt: skip


def test_two_turns_with_feedback(model, tmp_path):
    folder = train(small(model), tmp_path / "run")
    lines = read_metrics(folder / "metrics.jsonl")
    assert [(line["kind"], line["step"]) for line in lines] == [("eval", 0), ("train", 1), ("train", 2), ("eval", 2)]
    assert lines[0]["passes"] == {"pass@1": 0.0, "pass@2": 0.0}
    assert lines[1]["metric/pass@4"] == 0.0  # a tree of two turns with two branches has four leaves
    assert {"component/tests", "component/no_wrapper", "metric/solved", "metric/wrapper"} <= set(lines[1])
    episodes = [json.loads(line) for line in (folder / "episodes" / "train-000001.jsonl").read_text().splitlines()]
    assert len(episodes) == 4
    for episode in episodes:
        first, second = episode["turns"]
        assert second["observations"]["aux"].startswith("Turn 2 of 2.\nWhat became of the last turn:\n- `aux`: missing")
        assert first["reason"].startswith("no function ")


def answered(texts):
    """A policy's `act` that says prepared texts, by seat, with tokens of its own sampling."""

    def wrap(act):
        def said(requests):
            found = act(requests)
            for request, answers in zip(requests, found, strict=True):
                answers[:] = [_with(answer, texts[request.agent]) for answer in answers]
            return found

        return said

    return wrap


def _with(answer, text):
    from dataclasses import replace

    return replace(answer, text=text)


@pytest.fixture
def programs(monkeypatch):
    """Teams that write something that can be run."""
    from palaver.agents.llm.policies.llm_policy import LLMPolicy

    texts = {"aux": "def aux(*x):\n    return 1\n", "main": "def {name}(*x):\n    return aux(*x)\n"}
    names = ("busiest_hour", "mirror_sum", "rooms_needed", "tidy_title", "steps_to_one", "shared_letters", "change_for",
             "grid_peaks", "decode_runs", "prime_gaps", "rank_players", "longest_climb", "clock_angle", "merge_stock",
             "second_word", "balance_point")  # fmt: skip
    texts["main"] = "\n".join(texts["main"].format(name=name) for name in names)
    original = LLMPolicy.act
    monkeypatch.setattr(LLMPolicy, "act", lambda self, requests: answered(texts)(lambda r: original(self, r))(requests))
    monkeypatch.setattr(scoring, "_reports", type(scoring._reports)())


def test_a_scorer_that_fails_now_and_then_costs_episodes_and_no_reward(model, tmp_path, monkeypatch, programs):
    calls, real = [], scoring.score

    def failing(*arguments, **keywords):
        calls.append(1)
        if len(calls) % 3 == 0:
            return Report("sandbox_error", 0, 1, (), 0.0, "", "lost")
        return real(*arguments, **keywords)

    monkeypatch.setattr(scoring, "score", failing)
    monkeypatch.setattr(scoring, "LASTING", frozenset())
    folder = train(small(model, "train.workers=1", "train.steps=1"), tmp_path / "run")
    before, step, after = read_metrics(folder / "metrics.jsonl")
    assert before["unscored"] + after["unscored"] > 0
    assert step["episodes/unscored"] > 0
    for line in (before, after):
        assert line["n"] + line["unscored"] == 4
    assert step["reward/mean"] >= 1.5  # every program parses: no episode counts as 0


def test_a_scorer_that_never_works_ends_the_run(model, tmp_path, monkeypatch, programs):
    monkeypatch.setattr(scoring, "score", lambda *_, **__: Report("sandbox_error", 0, 1, (), 0.0, "", "no worker"))
    with pytest.raises(ScoringError, match=r"none of the 4 episodes in the evaluation could be scored.*no worker"):
        train(small(model), tmp_path / "run")


@pytest.mark.parametrize("recipe", ["che-magrpo", "coding-mini-magrpo"])
def test_the_recipes_fit_their_environments(recipe):
    _, env, held_out = prepare(load(recipe))
    assert env.num_turns == (2 if recipe == "che-magrpo" else 1)
    assert not {task.id for task in env.tasks} & {task.id for task in held_out.tasks}


def test_the_published_settings():
    config = load("che-magrpo-qwen25-coder")
    assert (config.env.id, config.env.tasks) == ("coophumaneval-v0", "hf:OpenMLRL/CoopHumanEval:train[16:]")
    assert config.eval.tasks == "hf:OpenMLRL/CoopHumanEval:train[:16]"
    keywords = config.env.keywords()
    assert (keywords["num_turns"], keywords["feedback"], keywords["visible_tests"]) == (2, "level", 1)
    assert (keywords["shift"], config.algorithm.stop_above) == (-4, -0.2)
    assert (config.policy.model, config.policy.dtype) == ("Qwen/Qwen2.5-Coder-3B", "bf16")
    assert (config.policy.temperature, config.policy.top_p, config.policy.top_k) == (0.6, 0.6, 0)
    assert (config.policy.max_tokens, config.optim.lr, config.seed) == (256, 2e-5, 42)
    row = config.algorithm
    assert (row.group_size, row.joint, row.turns, row.discount) == (4, "aligned", "tree", 0.9)
    assert (row.normalize, row.std, row.aggregate, config.kl.coef) == ("std", "population", "sum", 0.0)
    assert config.train.steps * config.train.prompts_per_step == 8 * 66
