from __future__ import annotations

import io
import json
import re
from xml.etree import ElementTree

import pytest
from PIL import Image

from palaver.benchmarks.reports import charts
from palaver.benchmarks.reports.palette import PAPER
from palaver.benchmarks.reports.run_folder import read
from palaver.benchmarks.reports.run_report import curves
from tests.overlap import overlapping_texts


def test_moving_mean_by_hand():
    assert charts.moving_mean([1.0, 2.0, 6.0, 3.0], 3).tolist() == pytest.approx([1.0, 1.5, 3.0, 11 / 3])
    assert charts.moving_mean([], 3).tolist() == []
    assert charts.moving_mean([0.1] * 50, 7).tolist() == [0.1] * 50


def test_the_window_is_a_tenth_of_the_run_within_bounds():
    assert [charts.window_of(n) for n in (0, 5, 140, 5000)] == [1, 1, 14, 20]


def test_panels_show_what_there_is(fabricate):
    titles = [drawing.title for drawing in curves.panels(read(fabricate())).values()]
    assert titles == [
        "Reward components", "Tokens per completion", "Loss", "Gradient norm", "KL to the start",
        "Tokens per second", "Seconds per step",
    ]  # fmt: skip


def test_measurements_are_drawn_apart(fabricate):
    assert [drawing.title for drawing in curves.measured(read(fabricate())).values()] == ["Off topic"]


def test_drawings_are_xml_with_page_colours_and_no_ids_in_common(fabricate):
    run = read(fabricate())
    named = {"reward": curves.reward(run, 3.0)} | curves.panels(run) | curves.measured(run)
    drawings = [drawing.svg(name) for name, drawing in named.items()]
    ids: list[str] = []
    for drawing in drawings:
        ElementTree.fromstring(drawing)
        assert "var(--s1)" in drawing
        assert "#0101" not in drawing
        assert "#0102" not in drawing
        ids += set(re.findall(r' id="([^"]+)"', drawing))
    assert len(ids) == len(set(ids))


def test_names_of_components_reach_the_drawing_as_text(fabricate):
    folder = fabricate()
    path = folder / "metrics.jsonl"
    hostile = r"component/<script>x</script>$\\frac{1}$"
    path.write_text(path.read_text(encoding="utf-8").replace("component/style", hostile), encoding="utf-8")
    drawing = curves.panels(read(folder))["panel0"].svg("panel0")
    ElementTree.fromstring(drawing)
    assert "<script" not in drawing
    assert "&lt;script&gt;" in drawing


def lines_of(folder, change):
    """Rewrites the train lines of a run."""
    path = folder / "metrics.jsonl"
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    path.write_text("".join(json.dumps(change(line)) + "\n" for line in lines), encoding="utf-8")


def test_times_that_no_step_has_together_are_drawn(fabricate):
    folder = fabricate(steps=4)
    missing = {1: "time/rollout_s", 0: "time/update_s"}
    lines_of(folder, lambda line: {k: v for k, v in line.items() if k != missing[line["step"] % 2]})
    drawing = charts.figure(PAPER, (4, 3), lambda chart: curves.draw_time(chart, read(folder)))
    # steps 1 and 3 have 0.4 s of update alone, steps 2 and 4 have 0.7 s of rollout alone, which is stacked on top
    heights = [part.get_paths()[0].vertices[:, 1].max() for part in drawing.axes[0].collections]
    assert heights == [pytest.approx(0.4), pytest.approx(0.7)]


def test_a_title_of_a_hundred_characters_stands_whole_on_the_picture(fabricate, tmp_path, monkeypatch):
    title, drawings = "arxiv-magrpo-with-a-longer-name-than-most-recipes-have: 0.20 → 2.20 in 120 steps", []
    monkeypatch.setattr(charts, "png", lambda drawing: drawings.append(drawing) or b"")
    curves.write_png(read(fabricate()), tmp_path / "curve.png", 3.0, title)
    (drawing,) = drawings
    assert drawing._suptitle.get_text() == title
    drawing.savefig(io.BytesIO())  # lays it out
    assert drawing._suptitle.get_window_extent().x1 < drawing.bbox.width


@pytest.mark.parametrize(("bound", "note"), [(3.0, "most possible 3"), (300.0, "most possible 300, not drawn")])
def test_a_bound_far_above_the_curve_is_named_and_leaves_it_its_height(fabricate, bound, note):
    drawing = charts.figure(PAPER, (10, 3.6), lambda chart: curves.draw_reward(chart, read(fabricate()), bound))
    (axes,) = drawing.axes
    assert 2.3 < axes.get_ylim()[1] < 3.5
    assert [text.get_text() for text in axes.texts] == [note]


def colours(path, colour):
    """How many pixels of a picture are of (nearly) this colour."""
    wanted = tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
    with Image.open(path) as picture:
        counted = picture.convert("RGB").getcolors(1_000_000)
    return sum(n for n, pixel in counted if all(abs(a - b) < 8 for a, b in zip(pixel, wanted, strict=True)))


@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")
@pytest.mark.parametrize(("steps", "evals"), [(30, (0, 30)), (1, ()), (0, (0,)), (0, ())])
def test_a_picture_is_made_of_any_run(fabricate, tmp_path, steps, evals):
    path = tmp_path / "curve.png"
    curves.write_png(read(fabricate(steps=steps, evals=evals)), path, 3.0, "name with $ and \x1b")
    with Image.open(path) as picture:
        assert picture.width >= 1000
    # the algorithm's colour draws the training; components are drawn in the first two
    assert [colours(path, PAPER.color(n)) > 100 for n in (0, 1)] == [steps > 0, steps > 0]


def test_figures_of_a_report_have_no_label_over_another(fabricate, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(charts, "png", lambda drawing: drawn.append(drawing) or b"")
    run = read(fabricate())
    curves.write_png(run, tmp_path / "curve.png", 3.0, "a title")
    figures = [curves.reward(run, 3.0), *curves.panels(run).values(), *curves.measured(run).values()]
    drawn += [charts.figure(PAPER, figure.size, figure.draw) for figure in figures]
    assert [overlapping_texts(each) for each in drawn] == [[] for _ in drawn]
