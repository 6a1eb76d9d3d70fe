"""Finished runs compared: groups, scales, samples, what is refused, what is kept, and the figure."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from markdown_it import MarkdownIt

from palaver.benchmarks.comparison.charts import write_figure
from palaver.benchmarks.comparison.curves import panels
from palaver.benchmarks.comparison.export import export_runs
from palaver.benchmarks.comparison.finished_runs import find
from palaver.benchmarks.comparison.groups import compare
from palaver.benchmarks.comparison.table import captions, columns, markdown, rows
from palaver.benchmarks.reports.charts import spread
from palaver.core import CheckpointError, ConfigError
from tests.benchmarks.finished import TWICE, make_run

KEPT = Path(__file__).parents[2] / "docs" / "runs" / "arxiv-magrpo"
READER = MarkdownIt("commonmark").enable("table")


@pytest.fixture
def run(tmp_path):
    return lambda name, *args, **choices: make_run(tmp_path / "runs", name, *args, **choices)


def compared(*folders: Path, **choices):
    return compare(find(folders)[0], **choices)


def test_seeds_are_repeats_and_the_best_stands_first(run):
    found = compared(run("a0", gain=0.25), run("a1", seed=1, gain=0.5), run("b0", "ippo", gain=0.625))
    assert [(group.name, [each.config.seed for each in group.trials]) for group in found.groups] == [
        ("ippo", [0]), ("magrpo", [0, 1]),
    ]  # fmt: skip
    group = found.groups[1]
    assert (group.before, group.after, group.max_return, group.samples) == (0.5, 2.0, 3.0, 40.0)
    assert (group.spent("wall_s"), group.spent("cpu_s")) == (6.0, 8.0)
    change = group.improvement
    assert (change.mean, change.low, change.high) == (1.5, 1.0, 2.0)
    assert change.over == "2 seeds and 2 tasks"
    assert found.title == "2 algorithms on arxiv-v0, 1 to 2 seeds each"
    assert not found.shares
    assert found.notes == ()


@pytest.mark.parametrize(("kind", "samples"), [("separate", 40.0), ("shared", 16.0)])
def test_samples_of_runs_that_did_not_count_them(run, kind, samples):
    """a trains on 4 a step and b on 6; a shared policy tells its own number under every agent."""
    assert compared(run("a0", counted=False, kind=kind)).groups[0].samples == samples


def test_without_returns_by_task_the_seeds_means_are_compared(run):
    found = compared(*(run(f"a{seed}", seed=seed, gain=0.25 * (1 + seed), by_task=False) for seed in range(3)))
    change = found.groups[0].improvement
    assert (change.mean, change.low, change.high) == pytest.approx((2.0, -0.484138, 4.484138), abs=1e-5)
    alone = compared(run("b0", "ippo", by_task=False))
    assert rows(alone)[0]["improvement"] == "+1.00 [–]"
    assert "No interval for ippo" in captions(alone)[-1]


def test_returns_by_task_come_from_the_episodes_where_the_metrics_do_not_tell_them():
    """The demo's runs, kept before returns by task were logged; their figures stand in docs/demo.md."""
    found = compared(KEPT)
    (group,) = found.groups
    assert [round(each.after.mean, 2) for each in group.trials] == [2.31, 2.11, 2.29]
    assert round(group.before, 2) == 0.44
    assert group.improvement.over == "3 seeds and 48 tasks"
    assert group.improvement.mean == pytest.approx(group.after - group.before)
    assert 1.4 < group.improvement.low < group.improvement.mean < group.improvement.high < 2.2
    assert group.improvement.verdict == "yes"
    table = markdown(found)
    assert table.startswith("| algorithm | seeds | reward | improvement |")
    assert "| magrpo | 3 | 0.44 → 2.24 | +1.79 [" in table


def test_other_environments_are_compared_as_shares(run):
    """arxiv-v0 pays 3 at most, pioneer-v0 two answers: 0.5 to 1.5 of 3 is 1/6 to 1/2, 0.5 to 2.5 of 6 1/12 to 5/12."""
    found = compared(run("a0", gain=0.25), run("c0", "ippo", gain=0.5, env=TWICE))
    assert found.shares
    assert [(group.name, group.max_return) for group in found.groups] == [("magrpo", 3.0), ("ippo", 6.0)]
    assert "shares of the most" in found.notes[0]
    one, other = rows(found)
    assert (one["reward"], one["most"], one["share"]) == ("0.50 → 1.50", "3", "0.17 → 0.50")
    assert (other["reward"], other["most"], other["share"]) == ("0.50 → 2.50", "6", "0.08 → 0.42")
    assert (one["improvement"], one["of which"]) == ("+1.00 [1.00, 1.00]", "+0.33 [0.33, 0.33]")
    assert (other["improvement"], other["of which"]) == ("+2.00 [2.00, 2.00]", "+0.33 [0.33, 0.33]")
    assert "of which" in columns(found, "wall s")
    assert "arxiv-v0 and pioneer-v0" in found.title


def test_groups_by_any_key(run):
    folders = [run("a0"), run("a1", kind="shared"), run("b0", "rae", kind="shared")]
    assert {group.name for group in compared(*folders, by="team").groups} == {"separate", "shared"}
    assert {group.name for group in compared(*folders, by="team.kind").groups} == {"separate", "shared"}
    assert {group.name for group in compared(*folders, by="env.length").groups} == {"[32, 64]"}
    found = compared(*folders, by="team")
    assert found.notes == ("the runs of shared differ in algorithm.name besides the seed",)
    for by, message in (("team.kimd", "Did you mean 'kind'"), ("algorithms", "'algorithm'"), ("optim", "a section")):
        with pytest.raises(ConfigError, match=message):
            compared(*folders, by=by)


def test_groups_by_a_key_of_a_keyword(run):
    folders = [run(f"a{n}", env={"infer": {"alpha": n}}) for n in range(2)]
    assert {group.name for group in compared(*folders, by="env.infer.alpha").groups} == {"0", "1"}
    with pytest.raises(ConfigError, match="Did you mean 'alpha'"):
        compared(*folders, by="env.infer.alfa")


def test_what_differs_besides_the_seed_is_told(run):
    notes = compared(run("a0"), run("a1", seed=1, optim={"lr": 1e-3}, threads=3)).notes
    assert notes == ("the runs of magrpo differ in optim.lr besides the seed",)


def test_what_has_no_common_scale_is_refused(run):
    first = run("a0")
    for name, other, message in (
        ("b0", {"eval": {"greedy": True}}, None),
        ("b1", {"env": {"id": "echo-v0"}, "algorithm": "ippo", "by_task": False}, "different tasks"),
        ("b2", {"eval": {"tasks": "sample[48:]"}, "by_task": False}, "different tasks"),
        ("b3", {"env": {"id": "arxiv-v0", "length": [1, 2]}}, "add --by env.id"),
        ("b4", {}, "one run: the same settings and the same seed"),
    ):
        folder = run(name, **other)
        if message is None:
            text = (folder / "metrics.jsonl").read_text().replace('"greedy": false', '"greedy": true')
            (folder / "metrics.jsonl").write_text(text)
            message = "greedily"
        with pytest.raises(ConfigError, match=message) as caught:
            compared(first, folder)
        assert "\n" not in str(caught.value)


def test_other_tasks_are_refused_by_name(run):
    one, other = run("a0"), run("b0", "ippo")
    text = (other / "metrics.jsonl").read_text().replace('"s":', '"r":')
    (other / "metrics.jsonl").write_text(text)
    with pytest.raises(ConfigError, match="different tasks"):
        compared(one, other)


def test_what_is_no_finished_run_is_refused_or_left_out(run, tmp_path):
    good = run("good")
    bad = {
        "short": (run("short", steps=2, evals=(0, 2)), "not finished, at step 2 of 4"),
        "before": (run("before", evals=(4,)), "no evaluation before"),
        "after": (run("after", evals=(0,)), "no evaluation after"),
        "bare": (run("bare"), "config.yaml is missing"),
        "empty": (run("empty", steps=0, evals=()), "holds no step"),
    }
    (bad["bare"][0] / "config.yaml").unlink()
    for folder, message in bad.values():
        with pytest.raises(CheckpointError, match=message) as caught:
            find([good, folder])
        assert "\n" not in str(caught.value)
    found, left = find([good.parent])
    assert [each.name for each in found] == [str(good)]
    assert len(left) == len(bad)
    with pytest.raises(CheckpointError, match="no run folder"):
        find([tmp_path / "nowhere"])
    with pytest.raises(CheckpointError, match="there is no run in"):
        find([tmp_path])
    for folder in (good, *(folder for name, (folder, _) in bad.items() if name != "short")):
        shutil.rmtree(folder)
    with pytest.raises(CheckpointError, match=r"no run is finished: .*short"):
        find([good.parent])


def test_a_run_that_was_tuned_on_is_refused_or_left_out(run):
    """Without tasks in its metrics those of its config count: `sample[:16]` are the ones evaluated by default."""
    run("other", seed=2, tuning={"seeds": [1], "tasks": ["sample[40:48]"]})
    seen = run("seen", seed=1, tuning={"seeds": [1]})
    with pytest.raises(CheckpointError, match=r"chosen on seed 1 \(tuning.seeds\)"):
        find([seen])
    tasks = run("tasks", seed=3, by_task=False, tuning={"tasks": ["sample[15:20]"]})
    with pytest.raises(CheckpointError, match=r"chosen on 1 of its tasks"):
        find([tasks])
    found, left = find([seen.parent])
    assert [each.config.seed for each in found] == [2]
    assert len(left) == 2


def test_a_run_named_twice_counts_once(run):
    folder = run("a0")
    assert len(find([folder, folder.parent, folder])[0]) == 1


def test_what_is_kept_compares_as_the_whole(tmp_path):
    whole = compared(KEPT)
    kept = export_runs(whole.groups, tmp_path / "kept")
    assert [path.name for path in kept] == ["magrpo-0", "magrpo-1", "magrpo-2"]
    assert {file.name for path in kept for file in path.iterdir()} == {"config.yaml", "metrics.jsonl"}
    assert all(sum(file.stat().st_size for file in path.iterdir()) < 32_000 for path in kept), "130 updates, 48 tasks"
    again = compared(tmp_path / "kept")
    assert rows(again) == rows(whole)
    assert markdown(again) == markdown(whole)
    for one, other in zip(panels(whole)[0], panels(again)[0], strict=True):
        before, after = one.curves[0], other.curves[0]
        assert np.array_equal(before.mean, after.mean)
        assert np.array_equal(before.band, after.band)
        assert all(np.array_equal(before.at[axis], after.at[axis]) for axis in before.at)
    with pytest.raises(ConfigError, match="already there"):
        export_runs(whole.groups, tmp_path / "kept")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write"):
        export_runs(whole.groups, tmp_path / "file" / "sub")


def test_metrics_that_are_named_are_kept_at_all_steps(run, tmp_path):
    folder = run("a0")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    last = max(line["step"] for line in lines)
    found = {0: 0.5, last // 2: 0.25, last: 0.125}
    middle = {"kind": "eval", "step": last // 2, "wall_s": 1.0, "cpu_s": 1.0, "mean": 0.0}
    evals = [line for line in lines if line["kind"] == "eval"]
    lines = [evals[0], *(line for line in lines if line["kind"] != "eval"), middle, evals[-1]]
    for line in lines:
        if line["kind"] == "eval":
            line["gap"] = found[line["step"]]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    [kept] = export_runs(compared(folder).groups, tmp_path / "kept", ["eval/gap"])
    again = [json.loads(line) for line in (kept / "metrics.jsonl").read_text().splitlines()]
    assert {line["step"]: line["gap"] for line in again if line["kind"] == "eval"} == found


def test_kept_folders_are_names_of_files(run, tmp_path):
    found = compared(run("a0", policy={"model": "../up and/away"}), by="model")
    assert [path.name for path in export_runs(found.groups, tmp_path / "kept")] == ["up-and-away-0"]


def test_names_are_moved_apart_and_kept_in_order():
    near = [[True] * 4] * 4
    placed = spread([0.5, 0.52, 0.1, 0.51], near, 0.1)
    assert sorted(range(4), key=placed.__getitem__) == [2, 0, 3, 1]
    assert min(b - a for a, b in itertools.pairwise(sorted(placed))) > 0.1 - 1e-6
    assert placed[2] == pytest.approx(0.1, abs=1e-5)
    assert sum(placed) == pytest.approx(1.63, abs=1e-5)
    apart = [[False] * 4] * 4
    assert spread([0.5, 0.5, 0.5, 0.5], apart, 0.1) == pytest.approx([0.5] * 4, abs=1e-5)


def test_a_picture_is_made_of_hostile_names_and_short_runs(run, tmp_path):
    found = compared(run("a0", policy={"model": "$x_{\\frac $ \x1b[2J"}), by="model")
    write_figure(found, str(tmp_path / "x.png"))
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_names_of_groups_and_notes_are_text_in_markdown(run):
    found = compared(run("a0", gain=0.25), run("b0", "ippo", gain=0.5))
    odd = replace(
        found,
        groups=tuple(replace(group, name=f"{group.name}|`<b>](javascript:x)`") for group in found.groups),
        notes=("<script> of ![x](http://a.test)",),
    )
    elements = [each for token in READER.parse(markdown(odd)) for each in token.children or []]
    assert {each.type for each in elements} <= {"text", "softbreak"}
    assert "magrpo|`<b>](javascript:x)`" in [each.content for each in elements]
