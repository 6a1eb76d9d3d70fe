"""Questions of first order alone and of both: a line a run, and the table with numbers worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palaver.benchmarks.experiments import orders
from palaver.benchmarks.experiments.orders import ARMS, HEADS, main, of_evaluation, read, table
from palaver.trainers.config.loading import load

KEPT = Path(__file__).parents[2] / "docs" / "runs" / "infer" / "orders" / "runs.jsonl"


def line(arm, seed, value):
    return {"arm": arm, "seed": seed, "overrides": [], **dict.fromkeys(HEADS, value), "tokens": 1000 * value}


def test_arms_differ_in_the_questions_and_make_as_many_completions():
    one, two = (load(orders.RECIPE, ARMS[arm]) for arm in ("first", "both"))
    assert (one.env.keywords()["infer"]["order"], two.env.keywords()["infer"]["order"]) == (1, 2)
    assert one.algorithm.group_size * 2 == two.algorithm.group_size * 3  # turns of an episode
    assert one.train.prompts_per_step == two.train.prompts_per_step
    differ = {"env", "algorithm"}
    assert {name for name in type(one).model_fields if getattr(one, name) != getattr(two, name)} == differ


def test_means_and_intervals():
    """Two seeds, 1 and 3: 2 ± 12.706 · 1, as t(1) = 12.706; differences of pairs 1 and 1: no width."""
    lines = [line("first", 1, 1.0), line("first", 2, 3.0), line("both", 1, 2.0), line("both", 2, 4.0)]
    _, _, first, both, difference = table(lines).splitlines()
    assert first.startswith("| first order | 2 | 2.000 [-10.706, 14.706] |")
    assert both.startswith("| first and second order | 2 | 3.000 [-9.706, 15.706] |")
    assert difference.startswith("| first and second order, less first order | 2 | +1.000 [+1.000, +1.000] |")
    assert difference.endswith("| +1,000 | +1 |")


def test_a_return_is_without_the_reward_for_guesses():
    found = of_evaluation(
        {
            "step": 40,
            "components": {"inference": 0.4, "right": 0.75, "wrong": -0.25, "twice": 0.0, "complete": 0.0},
            "metrics": {"inference/accuracy/builder1": 0.9, "iou": 0.5, "by_several": 0.1},
        }
    )
    assert found == {"step": 40, "first": 0.9, "return": 0.5, "iou": 0.5, "twice": 0.1}


def test_runs_are_kept_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(orders, "run", lambda arm, seed, *_: line(arm, seed, 1.0))
    out = tmp_path / "new" / "runs.jsonl"
    assert main(["--seeds", "1-2", "--arms", "first", "both", "--out", str(out)]) == 0
    assert main(["--seeds", "1-2", "--arms", "first", "--out", str(out)]) == 0
    assert [(one["arm"], one["seed"]) for one in read(out)] == [("first", 1), ("both", 1), ("first", 2), ("both", 2)]
    capsys.readouterr()
    assert main(["--out", str(out)]) == 0
    assert "first and second order, less first order" in capsys.readouterr().out


def test_a_mistake_is_one_line(tmp_path, capsys):
    assert main(["nonsense=1", "--seeds", "1", "--out", str(tmp_path / "x")]) == 2
    assert "unknown key 'nonsense'" in capsys.readouterr().err


@pytest.mark.skipif(not KEPT.is_file(), reason="the runs are not part of this copy")
def test_kept_runs_are_of_the_shipped_recipe():
    kept = [json.loads(text) for text in KEPT.read_text().splitlines()]
    assert {tuple(one["overrides"]) for one in kept} == {()}
    assert {one["updates"] for one in kept} == {load(orders.RECIPE).train.steps}
    assert len({(one["arm"], one["seed"]) for one in kept}) == len(kept)
