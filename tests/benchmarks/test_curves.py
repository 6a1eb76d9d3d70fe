"""Curves of any metric: means over seeds, intervals, axes of each environment, tests between groups, the figures."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from palaver.benchmarks.comparison.charts import write_panels
from palaver.benchmarks.comparison.curves import band_note, panels
from palaver.benchmarks.comparison.differences import paired_tests, settings_that_differ
from palaver.benchmarks.comparison.finished_runs import find
from palaver.benchmarks.comparison.groups import compare
from palaver.benchmarks.comparison.page import write_page
from palaver.benchmarks.reports import charts
from palaver.core import ConfigError
from palaver.utils.stats.improvement import paired_difference
from tests.benchmarks.finished import TWICE, make_run
from tests.overlap import overlapping_texts

KEPT = Path(__file__).parents[2] / "docs" / "runs" / "comparison"


@pytest.fixture
def run(tmp_path):
    return lambda name, *args, **choices: make_run(tmp_path / "runs", name, *args, **choices)


@pytest.fixture
def drawn(monkeypatch):
    """Figures that are written, before they become a PNG."""
    found: list = []
    monkeypatch.setattr(charts, "png", lambda drawing: found.append(drawing) or b"")
    return found


def compared(*folders: Path, **choices):
    return compare(find(folders)[0], **choices)


def only_curve(comparison, metric: str = "reward/mean"):
    ((panel,), _) = panels(comparison, [metric])
    (curve,) = panel.curves
    return curve


def test_the_curve_is_the_mean_of_moving_means_with_students_interval(run):
    curve = only_curve(compared(run("a0", gain=0.2), run("a1", seed=1, gain=0.6), window=2))
    assert curve.at["samples"].tolist() == [10.0, 20.0, 30.0, 40.0]
    assert curve.at["wall_s"].tolist() == [1.5, 3.0, 4.5, 6.0]
    assert curve.at["cpu_s"].tolist() == [2.0, 4.0, 6.0, 8.0]
    assert curve.at["step"].tolist() == [1.0, 2.0, 3.0, 4.0]
    one = np.array([0.2, 0.3, 0.5, 0.7])
    assert curve.mean == pytest.approx(2 * one)
    # two values 2d apart: mean ± t(1) d, t(1) = 12.7062
    assert curve.band[0] == pytest.approx(2 * one - 12.7062047 * one)
    assert curve.band[1] == pytest.approx(2 * one + 12.7062047 * one)
    assert curve.extent == pytest.approx((0.2, 2.1))


def test_one_seed_has_no_band(run):
    found = compared(run("a0"))
    assert only_curve(found).band is None
    assert band_note(panels(found)[0]) == "Line: one seed."


def test_metrics_of_evaluations_stand_at_their_samples(run):
    curve = only_curve(compared(run("a0"), run("a1", seed=1)), "eval/mean")
    assert curve.at["samples"].tolist() == [0.0, 40.0]
    assert curve.mean.tolist() == [0.5, 1.5]
    assert np.isnan(curve.at["wall_s"]).all(), "these evaluations did not record the time"


def test_no_point_without_a_measured_value(run, tmp_path, drawn):
    """A step that one seed lacks is left out of the mean, and a value that is no number is not 0."""
    one, other = run("a0"), run("a1", seed=1)
    lines = [json.loads(line) for line in (other / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        if line["kind"] == "train":
            line["extra"] = None if line["step"] == 2 else 5.0
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (other / "metrics.jsonl").write_text(text)
    (one / "metrics.jsonl").write_text(text)
    found = compared(one, other)
    curve = only_curve(found, "extra")
    assert curve.at["step"].tolist() == [1.0, 3.0, 4.0]
    assert curve.mean.tolist() == [5.0, 5.0, 5.0]
    write_panels(panels(found, ["eval/mean"])[0], "t", str(tmp_path / "x.png"), "wall_s")
    points = [x for line in drawn[0].axes[1].lines for x in line.get_xdata() if math.isfinite(x)]
    assert points == [], "their seconds are unknown"


def test_an_unknown_metric_names_the_known_ones(run):
    found = compared(run("a0"))
    with pytest.raises(ConfigError, match="Did you mean 'reward/mean'"):
        panels(found, ["reward/men"])
    with pytest.raises(ConfigError, match=r"Known: .*eval/mean"):
        panels(found, ["qqq"])


def test_a_group_without_the_metric_is_named(run):
    one, other = run("a0"), run("b0", "ippo")
    text = (other / "metrics.jsonl").read_text().replace('"reward/mean"', '"only": 1.0, "reward/mean"')
    (other / "metrics.jsonl").write_text(text)
    drawn, notes = panels(compared(one, other), ["only"])
    assert [curve.name for panel in drawn for curve in panel.curves] == ["ippo"]
    assert notes == ["magrpo not drawn: no only at a step of all seeds"]


def test_environments_have_axes_of_their_own(run, tmp_path, drawn):
    found = compared(run("a0"), run("b0", "ippo"), run("c0", "cory", gain=0.5, env=TWICE))
    parts, _ = panels(found, ["reward/mean", "eval/mean"])
    assert [(part.env, [curve.name for curve in part.curves]) for part in parts] == [
        ("arxiv-v0", ["magrpo", "ippo"]), ("pioneer-v0", ["cory"]),
    ] * 2  # fmt: skip
    write_panels(parts, found.title, str(tmp_path / "x.png"))
    titles = [axes.get_title(loc="left") for axes in drawn[0].axes]
    assert titles == ["arxiv-v0", "", "pioneer-v0", "", "arxiv-v0", "", "pioneer-v0", ""]
    assert "of 3" in drawn[0].axes[0].get_ylabel()
    assert "of 6" in drawn[0].axes[2].get_ylabel()


def test_a_group_is_tested_against_the_best_of_its_environment(run):
    """By task (s, t): 1.25, 1.75 of one seed of magrpo, 2.25, 2.75 of ippo; pioneer has none to be compared with."""
    found = compared(run("a0"), run("b0", "ippo", gain=0.5), run("c0", "cory", gain=0.5, env=TWICE))
    (test,) = paired_tests(found)
    assert (test.first, test.second, test.verdict) == ("magrpo", "ippo", "lower")
    assert (test.change.mean, test.change.low, test.change.high) == (-1.0, -1.0, -1.0)
    assert test.change.over == "2 tasks of one seed each"


def test_a_paired_difference_by_hand():
    first = [{"s": 1.0, "t": 3.0, "only": 9.0}, {"s": 2.0, "t": 4.0}]
    second = [{"s": 1.0, "t": 1.0}]
    found = paired_difference(first, second)
    assert found.mean == 1.5, "(1 + 3 + 2 + 4) / 4 less 1, on the common tasks"
    # draws: a seed's mean part is 0, 0.5 or 1, of the tasks 0, 1 or 2
    assert (found.low, found.high) == (0.0, 3.0)
    assert found.over == "2 and 1 seeds and 2 tasks"
    assert paired_difference(first, [{"other": 1.0}]) is None


def test_the_interval_covers_the_difference():
    """95 % intervals of pairs of settings that differ by 1: at least 51 of 60 hold it."""
    rng, hits = np.random.default_rng(0), 0
    for _ in range(60):
        tasks = rng.normal(size=20)

        def setting(shift, tasks=tasks):
            returns = shift + tasks[None] + 0.2 * rng.normal(size=(4, 1)) + 0.5 * rng.normal(size=(4, 20))
            return [{str(n): value for n, value in enumerate(row)} for row in returns]

        found = paired_difference(setting(1.0), setting(0.0))
        hits += found.low <= 1.0 <= found.high
    assert hits >= 51


def test_settings_that_differ_but_for_those_that_define_the_groups(run):
    found = compared(run("a0", optim={"lr": 1e-3}), run("b0", "ippo", optim={"lr": 2e-3}, threads=3))
    settings = settings_that_differ(found)
    assert settings["optim.lr"] == {"magrpo": "0.001", "ippo": "0.002"}
    assert "algorithm.name" not in settings
    assert not {"threads", "out", "seed"} & settings.keys()


NAMES = ["magrpo", "ippo", "happo", "iac", "maac", "rae", "marloo", "mappo"]


@pytest.mark.parametrize("time", ["wall_s", "cpu_s"])
@pytest.mark.parametrize("gain", [0.0, 0.002, 0.05])
def test_every_line_is_named_and_no_label_lies_over_another(run, tmp_path, drawn, time, gain):
    folders = [run(f"{name}-{seed}", name, seed, 0.1 + gain * n) for n, name in enumerate(NAMES) for seed in (0, 1)]
    found = compared(*folders)
    parts, _ = panels(found, ["reward/mean"])
    write_panels(parts, found.title, str(tmp_path / "x.png"), time)
    left, right = drawn[0].axes
    assert sorted(text.get_text() for text in left.texts) == sorted(NAMES)
    assert sorted(text.get_text() for text in right.texts) == sorted(NAMES)
    assert left.get_xlabel() == "samples (completions to learn from)"
    assert right.get_xlabel() == {"wall_s": "wall seconds", "cpu_s": "CPU seconds"}[time]
    assert "training reward of 3" in left.get_ylabel()
    assert "95 % interval of that mean over seeds" in drawn[0]._supxlabel.get_text()
    assert overlapping_texts(drawn[0]) == []


def test_the_kept_figure_has_no_label_over_another(drawn, tmp_path):
    found = compare([trial for trial in find([KEPT])[0] if trial.config.seed < 6])
    parts, _ = panels(found, ["reward/mean", "eval/mean"])
    write_panels(parts, found.title, str(tmp_path / "x.png"), "cpu_s")
    assert overlapping_texts(drawn[0]) == []


def test_overlaps_are_seen(drawn, tmp_path):
    """The check itself: two labels at one place."""

    def draw(chart):
        chart.line([0, 1], [0, 1], chart.color(0))
        chart.note("one", 0.5, 0.5, (0, 0))
        chart.note("other", 0.5, 0.5, (4, 0))

    charts.save_figure(tmp_path / "x.png", "", (4, 3), draw)
    assert ("one", "other") in overlapping_texts(drawn[0])


def test_an_svg_is_the_same_every_time_and_loads_nothing(run, tmp_path):
    found = compared(run("a0"), run("b0", "ippo"))
    for name in ("x.svg", "y.svg"):
        write_panels(panels(found)[0], found.title, str(tmp_path / name))
    text = (tmp_path / "x.svg").read_text()
    ElementTree.fromstring(text)
    assert text == (tmp_path / "y.svg").read_text()
    assert "<image" not in text


def test_the_page_is_one_file_of_escaped_text(run, tmp_path):
    found = compared(
        run("a0", policy={"model": "</script><b>x"}), run("b0", policy={"model": "y"}, gain=0.5), by="model"
    )
    write_page(found, panels(found)[0], tmp_path / "x.html", ["a <remark>"])
    text = (tmp_path / "x.html").read_text()
    assert text.count("</script>") == 2
    assert "</script><b>x" not in text
    assert "a &lt;remark&gt;" in text
    assert "default-src 'none'" in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert SimpleNamespace(**json.loads(text.split('id="data">')[1].split("</script>")[0])[0]).axes["step"] == "updates"
