"""The check of engines with a copy of the weights, by arithmetic and with engines that are wrong; no vLLM is needed."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from palaver.agents.llm.generation import engine as engines
from palaver.agents.llm.generation.engine import Engine
from palaver.agents.llm.generation.requests import GenerationResult
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.llm.policies.llm_policy import generator_of
from palaver.agents.llm.vllm import generator as vllm
from palaver.core import Completion, ConfigError
from palaver.trainers.config.loading import parse
from palaver.trainers.config.run import RunConfig
from palaver.trainers.placement import checks
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import train
from palaver.trainers.update.engine_drift import bound, check_engine
from tests.trainers.learning import config as small
from tests.trainers.learning import learners, played, policy
from tests.trainers.toys import SEATS, register_toy, save_model

TIMINGS = ("wall_s", "cpu_s", "tokens_per_s", "time/")


@dataclass(frozen=True)
class Table:
    """One agent's rows, as far as the check reads a batch."""

    completions: tuple[Completion, ...]

    def rows_of(self, agents) -> list[int]:
        return list(range(len(self.completions)))


def table(*logprobs: tuple[float, ...], drawn: bool = True) -> Table:
    return Table(tuple(Completion("", (1,), (2,) * len(row), row, row if drawn else ()) for row in logprobs))


class Learner:
    """Knows the log-probs of rows; those of the drawn distribution are twice as large."""

    def __init__(self, *logprobs: tuple[float, ...]) -> None:
        self.logprobs, self.agents = logprobs, ("a",)
        self.policy = SimpleNamespace(name="a")

    def log_probs(self, batch, rows, sampling=None):
        return {row: torch.tensor(self.logprobs[row]) * (2 if sampling is None else 1) for row in rows}


def test_the_drift_is_a_mean_over_tokens_and_names_the_rows_above_the_bound():
    """Differences 0.2 | 0, 0.1, 0: 0.3 over four tokens is 0.075; the second row's own mean is 0.033."""
    engine, weights = ((-1.0,), (-1.0, -2.0, -3.0)), ((-1.2,), (-1.0, -2.1, -3.0))
    _, drift = check_engine(table(*engine), Learner(*weights), 0.08)
    assert drift == pytest.approx(0.075, abs=1e-6)
    with pytest.raises(NumericalError, match=r"differ by 0\.075 on average .* more than 0\.05") as failure:
        check_engine(table(*engine), Learner(*weights), 0.05)
    assert failure.value.rows == [0]


@pytest.mark.parametrize(("dtype", "limit"), [("fp32", 1e-4), ("bf16", 0.05)])
def test_the_bound_depends_on_the_dtype(dtype, limit):
    config = RunConfig.model_validate({"policy": {"dtype": dtype}})
    assert bound(config) == limit
    assert bound(RunConfig.model_validate({"policy": {"dtype": dtype}, "vllm": {"max_drift": 0.5}})) == 0.5
    near, far = ((-1.0 - share * limit,) for share in (0.9, 1.1))
    check_engine(table((-1.0,)), Learner(near), bound(config))
    with pytest.raises(NumericalError):
        check_engine(table((-1.0,)), Learner(far), bound(config))


def test_a_drift_that_is_no_number_is_above_every_bound():
    with pytest.raises(NumericalError) as failure:
        check_engine(table((-1.0,), (-1.0,)), Learner((-1.0,), (math.nan,)), 100.0)
    assert failure.value.rows == [1]


def test_a_policy_without_rows_has_no_drift():
    assert check_engine(table(), Learner(), 1e-4)[1] == 0.0


def test_rows_without_log_probs_of_the_draw_get_those_of_the_policy():
    known = table((-1.0, -2.0))
    assert check_engine(known, Learner((-1.0, -2.0)), 1e-4)[0].completions == known.completions
    batch, drift = check_engine(table((-1.0, -2.0), drawn=False), Learner((-1.0, -2.0)), 1e-4)
    assert drift == 0.0
    assert batch.completions[0].sample_logprobs == (-2.0, -4.0)
    assert batch.completions[0].logprobs == (-1.0, -2.0)


class Pretended:
    """In place of `VllmGenerator`: the own engine, whose results are changed; drawn log-probs as vLLM tells them."""

    change: float = 0.0

    def __init__(self, model, end_ids, decode, options, name, adapters=None) -> None:
        from palaver.agents.llm.model.inference_copy import InferenceCopy

        own = InferenceCopy(model, torch.float32)
        self.own = Engine(engines.find_forward(own, adapters)[0], end_ids, decode)

    def refresh(self) -> None:
        self.own.refresh()

    def generate(self, prompts, rows):
        def told(row, result: GenerationResult) -> GenerationResult:
            plain = tuple(value + self.change for value in result.logprobs)
            return replace(result, logprobs=plain, sample_logprobs=vllm.drawn_logprobs(row.sampling, plain))

        return [told(row, result) for row, result in zip(rows, self.own.generate(prompts, rows), strict=True)]


@pytest.fixture
def pretended(monkeypatch):
    """vLLM is installed, so to say."""
    monkeypatch.setattr(vllm, "VllmGenerator", Pretended)
    monkeypatch.setattr(checks, "need", lambda *_: None)
    return Pretended


def test_the_drawn_log_probs_are_those_of_the_own_engine(pretended):
    """At temperature 0.7 the policy completes what vLLM leaves out, within rounding of what the own sampler had."""
    made = small(policy={"max_tokens": 12, "temperature": 0.7})
    one = policy()
    team = dict.fromkeys(SEATS, one)
    own = played(team, made, temperature=0.7)
    emptied = replace(own, completions=tuple(replace(c, sample_logprobs=()) for c in own.completions))
    (learner,) = learners(team, made)
    completed, drift = check_engine(emptied, learner, bound(made))
    assert 0 <= drift < 1e-5
    for one, other in zip(own.completions, completed.completions, strict=True):
        assert one.sample_logprobs == pytest.approx(other.sample_logprobs, abs=1e-5)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    register_toy()
    return save_model(tmp_path_factory.mktemp("model") / "m")


def run_config(model: str, engine: str, **policy: Any) -> RunConfig:
    values = {
        "env": {"id": "lengths-v0"},
        "policy": {"model": model, "max_tokens": 12, "engine": engine, **policy},
        "algorithm": {"group_size": 2},
        "optim": {"lr": 1e-3},
        "train": {"steps": 3, "checkpoint_every": 3},
        "eval": {"n": 0},
        "log": {"tensorboard": False},
        "device": "cpu",
    }
    return parse(values)


def numbers(folder) -> list[dict[str, Any]]:
    lines = read_metrics(folder / "metrics.jsonl")
    return [{k: v for k, v in line.items() if not k.startswith(TIMINGS) and not k.endswith("drift")} for line in lines]


@pytest.mark.parametrize("kind", ["separate", "lora"])
def test_a_right_engine_changes_nothing_but_one_metric(model, pretended, tmp_path, kind):
    runs = {}
    for engine in ("palaver", "vllm"):
        made = run_config(model, engine)
        made = made.model_copy(update={"team": made.team.model_copy(update={"kind": kind})})
        runs[engine] = train(made, tmp_path / engine)
    assert numbers(runs["vllm"]) == numbers(runs["palaver"])
    own, copied = (read_metrics(runs[engine] / "metrics.jsonl") for engine in ("palaver", "vllm"))
    assert len(copied) == 3
    assert all(line[f"{seat}/engine_drift"] < 1e-5 for line in copied for seat in SEATS)
    assert not any("a/engine_drift" in line for line in own)


def test_a_run_on_other_weights_stops_and_saves_the_rows(model, pretended, tmp_path, monkeypatch):
    monkeypatch.setattr(pretended, "change", -1e-3)
    with pytest.raises(NumericalError, match=r"'a' in vLLM differ by 0\.001 .* at step 1; its rows are in") as failure:
        train(run_config(model, "vllm"), tmp_path / "run")
    (saved,) = (tmp_path / "run").glob("not-finite-000001.json")
    assert str(saved) in str(failure.value)
    rows = json.loads(saved.read_text())
    assert rows
    assert {row["agent"] for row in rows} == {"a"}
    assert "\n" not in str(failure.value)


def test_a_wider_bound_lets_it_pass(model, pretended, tmp_path, monkeypatch):
    monkeypatch.setattr(pretended, "change", -1e-3)
    made = run_config(model, "vllm")
    folder = train(made.model_copy(update={"vllm": made.vllm.model_copy(update={"max_drift": 0.01})}), tmp_path / "run")
    drifts = [line["a/engine_drift"] for line in read_metrics(folder / "metrics.jsonl") if line["kind"] == "train"]
    assert drifts == pytest.approx([1e-3] * 3, rel=0.02)


def test_it_is_refused_in_one_line_where_it_is_missing(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    line = r"^policy.engine=vllm needs vllm; install it with: pip install 'palaver\[vllm\]'$"
    with pytest.raises(ConfigError, match=line):
        train(run_config(model, "vllm"), tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
    made = parse({"team": {"kind": "heterogeneous", "agents": {"b": {"engine": "vllm"}}}})
    with pytest.raises(ConfigError, match=r"^team\.agents\.b\.engine=vllm needs vllm;"):
        checks.refuse_vllm(made, ("a", "b"))
    checks.refuse_vllm(made, ("a",))


def test_several_processes_are_refused(monkeypatch):
    monkeypatch.setattr(checks, "need", lambda *_: None)
    made = parse({"policy": {"engine": "vllm"}})
    checks.refuse_vllm(made, ("a",))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"start one process, or set policy\.engine=auto"):
        checks.refuse_vllm(made, ("a",))


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"vllm": {"share": 1.0}}, "share"),
        ({"vllm": {"share": 0}}, "share"),
        ({"vllm": {"max_drift": 0}}, "max_drift"),
        ({"vllm": {"place": "apart"}}, "place"),
        ({"policy": {"engine": "vlm"}}, "engine"),
    ],
)
def test_settings_out_of_range_are_refused(values, key):
    with pytest.raises(ConfigError, match=key):
        parse(values)


def test_the_automatic_choice_is_never_vllm(pretended):
    one = policy()
    assert isinstance(generator_of(one.model, one._renderer, ModelOptions(device="cpu"), "a"), Engine)
    asked = generator_of(one.model, one._renderer, ModelOptions(device="cpu", engine="vllm"), "a")
    assert isinstance(asked, pretended)
