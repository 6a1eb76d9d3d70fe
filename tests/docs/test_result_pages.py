"""Pages written from kept files: they are up to date, and their sentences say what small made-up files hold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from docs.build import __main__ as command
from docs.build import comparison, demo, lab
from docs.build.parts import filled
from palaver.benchmarks.experiments.matrix_games.plan import Column
from palaver.benchmarks.experiments.matrix_games.results import Lab, MatrixGameResult
from palaver.benchmarks.reports.summary import complete
from palaver.core import CheckpointError, ConfigError
from palaver.trainers.config.loading import parse
from palaver.utils.config import dump

RUNS = Path(__file__).parents[2] / "docs" / "runs"
OLDER = {  # made before runs named all of it; a folder goes from this list when its runs are made again
    *(f"maths/runs/maths-{name}-{seed}"
      for name in ("debate-ippo", "debate-magrpo", "qmix", "single", "vdn", "vote-ttrl") for seed in (0, 1, 2)),
    *(f"{name}/seed-{seed}" for name in ("arxiv-magrpo", "build-mini") for seed in (0, 1, 2)),
    *(f"coding-mini/seed-{seed}" for seed in (0, 3, 4)),
}  # fmt: skip
OLDER_TABLES: set[str] = set()  # likewise


def test_the_pages_are_up_to_date(capsys):
    assert command.main(["--check"]) == 0, capsys.readouterr().err


def test_stale_pages_are_named_and_mended(tmp_path, monkeypatch, capsys):
    page = tmp_path / "marloo.md"
    page.write_text("before\n<!-- computed: row -->\n| old |\n<!-- end -->\nafter\n")
    wanted = {page: "new", tmp_path / "docs" / "other.md": "other"}
    monkeypatch.setattr(command, "wanted", lambda: wanted)
    assert command.main(["--check"]) == 1
    assert "out of date: marloo.md, other.md; run python -m docs.build" in capsys.readouterr().err
    assert "| old |" in page.read_text()
    assert command.main([]) == 0
    assert {path: path.read_text() for path in wanted} == wanted
    assert command.main(["--check"]) == 0


def test_kept_runs_name_commit_version_and_warm_start():
    missing = set()
    for config in RUNS.rglob("config.yaml"):
        launch = config.with_name("launch.json")
        if not launch.is_file() or not complete(json.loads(launch.read_text(encoding="utf-8"))):
            missing.add(str(config.parent.relative_to(RUNS)))
    assert missing <= OLDER


def test_kept_laboratories_name_them_too():
    for path in RUNS.rglob("lab.json"):
        told = json.loads(path.read_text(encoding="utf-8"))["provenance"]
        assert complete(told) or str(path.relative_to(RUNS)) in OLDER_TABLES


@pytest.mark.parametrize("lacks", ["commit", "palaver", "warm_starts"])
def test_what_a_launch_must_name(lacks):
    launch = {"commit": "c", "palaver": "1", "warm_starts": {}}
    assert complete(launch)
    assert not complete({key: value for key, value in launch.items() if key != lacks})


def test_parts_of_a_page():
    page = "a\n<!-- computed: x -->\nold\n<!-- end -->\nb"
    assert filled(page, {"x": "new"}) == "a\n<!-- computed: x -->\nnew\n<!-- end -->\nb"
    with pytest.raises(ConfigError, match="differ in y"):
        filled(page, {"x": "new", "y": "lost"})


# --- the laboratory ---


def laboratory(**returns):
    found = [
        MatrixGameResult(name, "penalty", seed, "done", -20.0, value)
        for name, values in returns.items()
        for seed, value in enumerate(values)
    ]
    columns = {"penalty": Column("penalty k=-100", 10.0, -20.0)}
    provenance = {"palaver": "1.2", "commit": "c0ffee", "warm_starts": {"tiny": "abc"}}
    return Lab(tuple(returns), columns, tuple(found), provenance, 0.0, {"grpo": "it has one agent"})


def test_laws_are_stated_where_intervals_carry_them():
    """Half widths: 12.7062 x s / √2, so 1.27 for values 0.2 apart and 12.7 for values 2 apart."""
    found = lab.laws(laboratory(low=[1.0, 1.2], wide=[4.0, 6.0], high=[8.0, 8.2], same=[8.0, 8.0]))
    assert found.splitlines() == [
        "Intervals of 95 % of the mean over seeds that lie wholly above others, of 6 pairs compared:",
        "",
        "* **penalty**: `high` and `same` above `low`",
    ]
    assert lab.laws(laboratory(a=[1.0, 1.2], b=[2.0, 2.2])) == "No interval lies above another, of 1 pair compared."
    assert "no order" in lab.laws(laboratory(a=[1.0], b=[9.0]))


def test_cells_that_other_seeds_reproduce():
    """Equal values have the interval of their difference, 0 and 3; [1, 3] against [2, 2]: 0 +- 12.7 x 1."""
    again = laboratory(same=[1.0, 1.0], wide=[1.0, 3.0], other=[4.0, 4.0])
    again = replace(again, results=tuple(replace(each, seed=each.seed + 50) for each in again.results))
    found = lab.reproduced(laboratory(same=[1.0, 1.0], wide=[2.0, 2.0], other=[1.0, 1.0]), again)
    assert found.splitlines() == [
        "Seeds 50 to 51, in 1 of 1 games: 2 of 3 cells (66.7%): the interval of (fresh - printed) contains 0.",
        "",
        "* other on penalty: [+3.00, +3.00]",
    ]


def test_seeds_and_what_the_table_was_made_from():
    found = laboratory(same=[2.0, 2.1, 2.2, 2.3], two=[2.0, 2.0, 10.0, 10.0])
    assert lab.seeds(found).splitlines() == [
        "In 1 of 2 cells all seeds agree; cells with two modes: 1.",
        "* `two` in penalty: 2 of 4 near 10.0, 2 near 2.00",
    ]
    table = lab.table(found)
    assert "| **same** | 2.15 4 of 4 |" in table
    assert "seeds 0 to 3: 0 CPU minutes, Palaver 1.2, commit c0ffee, warm start tiny (abc)." in table
    assert "Without `grpo`: it has one agent." in table
    assert lab.ONE_SEED not in table
    assert lab.ONE_SEED in lab.table(laboratory(a=[1.0]))


# --- the comparison ---


def kept(folder, name, seed, gain):
    """A run of one update that lifts both its tasks by `gain`."""
    here = folder / "comparison" / f"{name}-{seed}"
    here.mkdir(parents=True)
    values = {"env": {"id": "arxiv-v0"}, "algorithm": {"name": name}, "seed": seed, "train": {"steps": 1}}
    (here / "config.yaml").write_text(dump(parse(values)))
    (here / "launch.json").write_text('{"palaver": "1", "commit": "c", "warm_starts": {}}')
    lines = [
        {"kind": "eval", "step": step, "mean": 1 + step * gain, "n": 2, "tasks": 2, "greedy": False,
         "by_task": {"s": 1 + step * gain, "t": 1 + step * gain}} for step in (0, 1)
    ]  # fmt: skip
    train = {"kind": "train", "step": 1, "wall_s": 1.0, "cpu_s": 1.0, "reward/mean": 1.0, "completions": 4}
    (here / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (lines[0], train, lines[1])))


def test_fresh_seeds_reproduce_or_do_not(tmp_path):
    """Seeds 0 and 1 gain 1 and 2: the bootstrap over seeds is [1, 2]."""
    for name, fresh in (("magrpo", 1.5), ("mappo", 2.5)):
        for seed, gain in enumerate((1.0, 2.0)):
            kept(tmp_path, name, seed, gain)
        kept(tmp_path, name, 6, fresh)
    found = comparison.parts(tmp_path)
    assert "| magrpo | +1.50 [1.00, 2.00] | +1.50 [1.50, 1.50] | inside |" in found["fresh"]
    assert "| mappo | +1.50 [1.00, 2.00] | +2.50 [2.50, 2.50] | outside |" in found["fresh"]
    assert found["fresh"].endswith("1 of 2 reproduce.")
    assert found["seeds"] == "Reported: seeds 0, 1. Fresh: seeds 6."
    assert "| magrpo | aligned | 2 | 1.00 → 2.50 |" in found["table"]
    assert "commit c" in found["table"]
    assert found["tuning"] == "No trials are kept: `tuning.json` is not there."


def test_what_was_tuned(tmp_path):
    kept(tmp_path, "magrpo", 0, 1.0)
    tried = [("arxiv-ippo", 1e-3, 100, 2.0), ("arxiv-ippo", 1e-3, 101, 2.5), ("arxiv-iac", 2e-3, 0, 1.0)]
    path = tmp_path / "comparison" / "tuning.json"
    path.write_text(json.dumps([
        {"recipe": recipe, "settings": {"optim.lr": rate}, "seed": seed, "before": 0.5, "after": after}
        for recipe, rate, seed, after in tried
    ]))  # fmt: skip
    found = comparison.parts(tmp_path)["tuning"]
    assert "| `arxiv-ippo` | `optim.lr=0.001` | 100 101 | 0.50 → 2.25 |" in found
    assert found.endswith("The effort differs: from 1 to 2 runs a recipe. Seeds [0] are on this page, too.")
    path.write_text("[{}]")
    with pytest.raises(CheckpointError, match="holds no trials"):
        comparison.parts(tmp_path)


# --- the demo ---


def test_how_many_runs_reach_the_bar():
    line = {"act": "writing", "isa": "X", "commit": "c", "warm_start": ["w"]}
    ill = {"metrics": {"ill_formed_share": 0.25}}
    lines = [
        line | ill | {"seed": 3, "after": 1.95},
        line | {"seed": 4, "after": 1.25},
        line | {"act": "coding", "seed": 0},
    ]
    assert demo.reached("writing", lines) == (
        "1 of 2 runs reach 1.9, and 1 is below 1.7; the lowest is seed 4 with 1.25 (X). "
        "Most ill-formed sentences: seed 3, 0.250 (X). Commit c, warm start w."
    )
