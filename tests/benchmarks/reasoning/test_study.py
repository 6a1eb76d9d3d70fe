"""A table at work, with scripted teams and, slowly, with a small model that is trained."""

from __future__ import annotations

import json

import pytest

from palaver.agents.llm.model.load import save_pretrained
from palaver.benchmarks.experiments.reasoning import study
from palaver.benchmarks.experiments.reasoning.plan import read
from palaver.benchmarks.experiments.reasoning.results import RESULTS, load
from palaver.benchmarks.experiments.reasoning.table import export_runs
from palaver.core import ConfigError
from tests.models import byte_tokenizer, tiny_qwen3

SCRIPTED = """
env: maths-mini-v0
keywords: {tasks: "sample[:6]"}
model: scripted:muddler
baseline: alone
rows:
  - {name: alone, play: {workflow: parallel, agents: 1}}
  - {name: vote, play: {workflow: vote, agents: 3}}
"""
TRAINED = """
env: maths-mini-v0
keywords: {tasks: "sample[:4]"}
max_tokens: 8
baseline: taught
rows:
  - {name: taught, recipe: maths-single}
  - {name: debating, recipe: maths-single, play: {workflow: debate}}
"""


@pytest.fixture
def plan(tmp_path):
    def written(text, *overrides):
        path = tmp_path / "own.yaml"
        path.write_text(text)
        return read(str(path), overrides)

    return written


def test_what_is_done_is_not_done_again(plan, tmp_path, monkeypatch):
    work = study.prepare(plan(SCRIPTED), (0, 1), tmp_path / "table")
    assert work.todo == ()
    found, failed = study.run(work, 1, {"commit": "c"})
    assert failed == []
    assert [(cell.row, cell.seed) for cell in found.cells] == [("alone", 0), ("vote", 0), ("alone", 1), ("vote", 1)]
    assert len(found.tasks) == len(found.cells[0].sampled) == 6
    assert set(found.cells[0].sampled) <= {0.0, 1.0}
    monkeypatch.setattr(study, "play", lambda *_: pytest.fail("played again"))
    again, _ = study.run(study.prepare(plan(SCRIPTED), (0, 1), tmp_path / "table"), 1, {"commit": "c"})
    assert again == found == load(tmp_path / "table")


def test_another_setting_is_played_anew(plan, tmp_path):
    study.run(study.prepare(plan(SCRIPTED), (0,), tmp_path / "table"), 1, {})
    other = plan(SCRIPTED.replace("agents: 3", "agents: 5"))
    said = []
    study.run(study.prepare(other, (0,), tmp_path / "table"), 1, {}, said.append)
    assert [line.partition(":")[0] for line in said] == ["vote, seed 0"]


def test_a_reference_is_right(plan, tmp_path):
    reference = plan(SCRIPTED.replace("muddler", "reference"))
    found, _ = study.run(study.prepare(reference, (0,), tmp_path / "table"), 1, {})
    assert {value for cell in found.cells for value in (*cell.sampled, *cell.greedy)} == {1.0}


def test_a_setting_that_does_not_fit_is_found_before_anything_is_done(plan, tmp_path):
    with pytest.raises(ConfigError, match="agents"):
        study.prepare(plan(SCRIPTED.replace("agents: 3", "agents: 0")), (0,), tmp_path / "table")
    with pytest.raises(ConfigError, match="trian"):
        study.prepare(plan(TRAINED, "trian.steps=1"), (0,), tmp_path / "table")
    assert not (tmp_path / "table").exists()


def test_a_run_with_other_settings_is_refused(plan, tmp_path):
    folder = tmp_path / "table" / "runs" / "maths-single-0"
    folder.mkdir(parents=True)
    (folder / "status.json").write_text(json.dumps({"status": "done"}))
    (folder / "config.yaml").write_text("seed: 9\n")
    with pytest.raises(ConfigError, match="other settings"):
        study.prepare(plan(TRAINED), (0,), tmp_path / "table")


@pytest.mark.slow
def test_training_playing_and_keeping(plan, tmp_path):
    save_pretrained(tiny_qwen3(max_position_embeddings=4096), byte_tokenizer(template=True), tmp_path / "m")
    small = ["policy.max_tokens=8", "eval.n=2", "train.steps=2", "train.prompts_per_step=1", "algorithm.group_size=2"]
    asked = plan(TRAINED, f"policy.model={tmp_path / 'm'}", *small, "log.tensorboard=false", "device=cpu")
    work = study.prepare(asked, (0,), tmp_path / "table")
    assert [each.recipe for each in work.todo] == ["maths-single"]
    found, failed = study.run(work, 1, {})
    assert failed == []
    taught, debating = found.cells
    assert (
        2 <= taught.training_tokens == debating.training_tokens <= 2 * 2 * 9
    )  # 2 steps, 2 answers, 8 tokens and an end
    assert study.prepare(asked, (0,), tmp_path / "table").todo == ()
    kept = export_runs(tmp_path / "table", tmp_path / "kept")
    assert {path.name for path in kept.iterdir()} == {RESULTS, "teams.png", "runs"}
    assert {path.name for path in (kept / "runs" / "maths-single-0").iterdir()} == {
        "config.yaml", "metrics.jsonl", "launch.json",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="already there"):
        export_runs(tmp_path / "table", kept)
