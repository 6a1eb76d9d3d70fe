from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from PIL import Image

from palaver.benchmarks import charts
from palaver.benchmarks.runs import read


def test_moving_mean_by_hand():
    assert charts.moving_mean([1.0, 2.0, 6.0, 3.0], 3).tolist() == pytest.approx([1.0, 1.5, 3.0, 11 / 3])
    assert charts.moving_mean([], 3).tolist() == []
    assert charts.moving_mean([0.1] * 50, 7).tolist() == [0.1] * 50


def test_the_window_is_a_tenth_of_the_run_within_bounds():
    assert [charts.window_of(n) for n in (0, 5, 140, 5000)] == [1, 1, 14, 20]


def test_panels_show_what_there_is(fabricate):
    titles = [panel.title for panel in charts.panels(read(fabricate()))]
    assert titles == [
        "Reward components", "Tokens per utterance", "Loss", "Gradient norm", "KL to the start",
        "Tokens per second", "Seconds per step",
    ]  # fmt: skip


def test_measurements_are_drawn_apart(fabricate):
    assert [panel.title for panel in charts.measured(read(fabricate()))] == ["Off topic"]


def test_drawings_are_xml_with_page_colours_and_no_ids_in_common(fabricate):
    run = read(fabricate())
    drawings = [charts.main_panel(run, 3.0), *(panel.svg for panel in charts.panels(run) + charts.measured(run))]
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
    drawing = charts.panels(read(folder))[0].svg
    ElementTree.fromstring(drawing)
    assert "<script" not in drawing
    assert "&lt;script&gt;" in drawing


@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")
@pytest.mark.parametrize(("steps", "evals"), [(30, (0, 30)), (1, ()), (0, (0,)), (0, ())])
def test_a_picture_is_made_of_any_run(fabricate, tmp_path, steps, evals):
    path = tmp_path / "curve.png"
    charts.write_png(read(fabricate(steps=steps, evals=evals)), str(path), 3.0, "name with $ and \x1b")
    with Image.open(path) as picture:
        assert picture.width >= 1000
        assert len(picture.convert("RGB").resize((60, 30)).getcolors(10_000)) > 2
