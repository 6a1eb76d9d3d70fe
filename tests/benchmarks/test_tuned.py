"""Seeds and tasks that settings were chosen on cannot be reported, by any command that makes a row."""

from __future__ import annotations

import pytest

from palaver.benchmarks.comparison import finished_runs
from palaver.benchmarks.experiments.matrix_games import plan
from palaver.benchmarks.experiments.reasoning import plan as table
from palaver.benchmarks.experiments.reasoning import study
from palaver.benchmarks.leaderboard import board
from palaver.benchmarks.leaderboard.board import BoardEntry
from palaver.core import ConfigError
from palaver.trainers.config.loading import load
from palaver.utils.config import recipes

SEED = r"chosen on seed 0 \(tuning.seeds\)"


def test_a_seed():
    assert "seed 0" in finished_runs.complaint(load("arxiv-ippo"))
    assert finished_runs.complaint(load("arxiv-ippo", ["seed=1"])) == ""
    assert finished_runs.complaint(load("arxiv-magrpo")) == ""


def test_recipes_name_the_seed_that_they_were_tuned_on():
    tried = ("arxiv-cory", "arxiv-happo", "arxiv-iac", "arxiv-ippo", "arxiv-maac", "arxiv-mappo")
    assert {name for name in recipes("run") if 0 in load(name).tuning.seeds} >= set(tried)


@pytest.mark.parametrize(
    ("chosen_on", "evaluated", "both"),
    [("sample[4:12]", "sample[:8]", "4 of its tasks"), ("sample[8:16]", "sample[:8]", ""), ("sample[8:16]", None, "")],
)
def test_tasks(chosen_on, evaluated, both):
    """By id: `sample[4:12]` and the first eight share four."""
    settings = ["eval.n=8", f"tuning.tasks=['{chosen_on}']"] + ([f"eval.tasks='{evaluated}'"] if evaluated else [])
    found = finished_runs.complaint(load("matrix-magrpo-3", [*settings, "env.tasks=sample"]))
    assert (both in found) if both else found == ""


def test_tasks_of_the_result_count_and_not_those_of_the_config():
    config = load("matrix-magrpo-3", ["tuning.tasks=['sample[:1]']", "eval.tasks='sample[8:16]'"])
    (first,) = finished_runs._ids(config, "sample[:1]")
    assert finished_runs.complaint(config) == ""
    assert repr(first) in finished_runs.complaint(config, [first])


def test_a_cell_of_a_laboratory():
    own = "lab.settings.rae.tuning.seeds=[103]"
    cells = ["lab.games=[xor]", "lab.algorithms=[rae,magrpo]", own]
    with pytest.raises(ConfigError, match=r"rae on xor cannot be reported: its settings were chosen on seed 103"):
        plan.load("lab", cells)
    assert len(plan.load("lab", [*cells, "seed=104"]).cells) == 20


def test_a_row_of_the_board():
    rows = {"trained": "recipe:arxiv-cory"}
    entry = BoardEntry(what="pioneer-v0", rows=rows, missing={"reference": "-", "random": "-", "untrained": "-"})
    with pytest.raises(ConfigError, match=SEED):
        board._measure(entry, "trained", None, print)


def test_the_table_of_the_maths_study(tmp_path):
    with pytest.raises(ConfigError, match=SEED):
        study.prepare(table.read("maths", ["tuning.seeds=[0]"]), (0, 1), tmp_path)
