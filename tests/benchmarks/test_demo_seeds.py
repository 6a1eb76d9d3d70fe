"""The demo from many seeds: a line a run, the table, and the kept file behind docs/demo.md."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from palaver.benchmarks.experiments import demo_seeds
from palaver.benchmarks.experiments.demo_seeds import ACTS, instruction_set, main, read, table

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "runs" / "demo-seeds" / "runs.jsonl"
SMALL = (
    "policy.max_tokens=4", "algorithm.group_size=2", "train.steps=1", "train.prompts_per_step=1", "eval.n=2",
    "eval.samples=1",
)  # fmt: skip


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(demo_seeds, "greedy_solved", lambda *_: "2 of 2")


def test_a_line_a_run_and_none_twice(tmp_path, quiet, capsys, monkeypatch):
    out = tmp_path / "runs.jsonl"
    assert main(["coding", *SMALL, "--seeds", "3", "--out", str(out)]) == 0
    (line,) = read(out)
    assert (line["act"], line["seed"], line["greedy"], line["overrides"]) == ("coding", 3, 2, list(SMALL))
    assert (line["isa"], line["onednn"]) == tuple(instruction_set().values())
    assert isinstance(line["after"], int)
    assert [len(each) for each in line["warm_start"]] == [32]
    assert set(line["metrics"]) == set(ACTS["coding"].metrics)
    monkeypatch.setattr(demo_seeds, "run", lambda act, seed, *_: {**line, "seed": seed})
    assert main(["coding", *SMALL, "--seeds", "3-5", "--out", str(out)]) == 0
    assert [each["seed"] for each in read(out)] == [3, 4, 5]
    assert main(["coding", "--seeds", "1", "nonsense=1", "--out", str(tmp_path / "absent" / "x")]) == 2
    assert capsys.readouterr().err.endswith("No such file or directory: " + repr(str(tmp_path / "absent" / "x")) + "\n")


def test_an_interrupted_run_is_no_line(tmp_path, monkeypatch):
    def train(config, folder, launch):
        folder.mkdir()
        (folder / "status.json").write_text('{"status": "interrupted", "step": 7}')
        return folder

    monkeypatch.setattr("palaver.trainers.train.train", train)
    assert main(["writing", "--seeds", "1-2", "--out", str(tmp_path / "x")]) == 130
    assert not (tmp_path / "x").exists()


def test_a_mistake_is_one_line(tmp_path, capsys):
    assert main(["writing", "train.stps=1", "--seeds", "1", "--out", str(tmp_path / "x")]) == 2
    assert "unknown key 'train.stps'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def line(seed, after, isa="AVX2", **more):
    metrics = {"aux_map": 0.5, "aux_test": 0.25, "aux_list": 0.25}
    return {
        "act": "coding", "seed": seed, "isa": isa, "before": 20, "after": after, "greedy": after, "cpu_s": 10.4,
        "metrics": metrics, **more,
    }  # fmt: skip


def test_table(capsys, tmp_path):
    lines = [line(0, 54), line(1, 49), line(2, 60), line(0, 58, "DEFAULT"), {"act": "writing", "isa": "AVX2"}]
    head, rule, first, second = table("coding", lines).splitlines()
    assert head.startswith(
        "| instruction set | seeds | before | mean after | lowest | highest | at least 54 | below 50 |"
    )
    assert rule.count("---") == head.count("|") - 1
    assert first == "| AVX2 | 0 to 2 | 20 | 54.3 | 49 | 60 | 2 of 3 | 1 | 49 | 0.500 | 0.250 | 0.250 | 10 |"
    assert second == "| DEFAULT | 0 to 0 | 20 | 58 | 58 | 58 | 1 of 1 | 0 | 58 | 0.500 | 0.250 | 0.250 | 10 |"
    (tmp_path / "x").write_text("".join(json.dumps(each) + "\n" for each in lines))
    assert main(["coding", "--out", str(tmp_path / "x")]) == 0
    assert capsys.readouterr().out.splitlines() == [head, rule, first, second]


# --- what is kept ---


@pytest.mark.parametrize("act", sorted(ACTS))
def test_the_kept_runs_are_those_that_were_asked_for(act):
    """Each seed once, from one warm start and one commit without changes, with the settings of the demo."""
    lines = [each for each in read(KEPT) if each["act"] == act]
    sets = {isa: sorted(each["seed"] for each in lines if each["isa"] == isa) for isa in {e["isa"] for e in lines}}
    assert sorted(sets.values(), key=len) == [list(range(5)), list(range(5)), list(range(20))]
    assert {isa for isa, seeds in sets.items() if len(seeds) == 5} == {"AVX2", "DEFAULT"}
    assert {tuple(each["overrides"]) for each in lines} == {()}
    assert len({tuple(each["warm_start"]) for each in lines}) == 1
    assert all(re.fullmatch(r"[0-9a-f]{12}", each["commit"]) for each in lines)
    assert len({each["before"] for each in lines if each["isa"] == "AVX2"}) == 1


@pytest.mark.parametrize("act", sorted(ACTS))
def test_28_of_30_runs_reach_the_bar(act):
    after = [each["after"] for each in read(KEPT) if each["act"] == act]
    assert len(after) == 30
    assert sum(score >= ACTS[act].bar for score in after) >= 28


@pytest.mark.parametrize("act", sorted(ACTS))
def test_no_run_is_below_the_floor(act):
    after = [each["after"] for each in read(KEPT) if each["act"] == act]
    assert len(after) == 30
    assert min(after) >= ACTS[act].floor


@pytest.mark.parametrize("act", sorted(ACTS))
def test_the_page_shows_the_table_of_the_kept_file(act):
    assert table(act, read(KEPT)) in (ROOT / "docs" / "demo.md").read_text(encoding="utf-8")


def test_the_page_names_the_settings():
    page = (ROOT / "docs" / "demo.md").read_text(encoding="utf-8")
    assert f"`{' '.join(ACTS['writing'].overrides)}`" in page
