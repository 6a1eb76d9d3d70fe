from __future__ import annotations

import re

import pytest

from palaver.cli import main
from tests.overlap import overlapping_texts


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def test_one_run(fabricate, capsys):
    folder = fabricate()
    assert run("report", folder) == 0
    assert capsys.readouterr().out.split() == [f"{folder}/report.html", f"{folder}/curve.png"]


def test_several_runs_are_laid_over_each_other(fabricate, tmp_path):
    assert run("report", fabricate("one"), fabricate("two", steps=3, evals=())) == 0
    assert {"comparison.html", "comparison.png"} <= {path.name for path in tmp_path.iterdir()}


def test_every_folder_is_read_once(fabricate, monkeypatch):
    from palaver.benchmarks.reports import run_folder as runs

    asked, real = [], runs._config
    monkeypatch.setattr(runs, "_config", lambda path, notes: asked.append(path.parent.name) or real(path, notes))
    assert run("report", fabricate("one"), fabricate("two")) == 0
    assert asked == ["one", "two"]


def test_a_mistake_in_the_last_name_shows_before_the_first_page(fabricate, tmp_path, capsys):
    folder = fabricate()
    assert run("report", folder, tmp_path / "nope") == 2
    assert capsys.readouterr().err == f"error: there is no run folder '{tmp_path}/nope'\n"
    assert not (folder / "report.html").exists()


def test_the_summary_after_a_run(fabricate, capsys):
    from palaver.benchmarks.reports.run_folder import read
    from palaver.cli import outcome

    outcome.show(read(fabricate(text="[bold]x[/bold] \x1b[2J")))
    shown = capsys.readouterr().out
    assert "[bold]x[/bold] \u241b[2J" in " ".join(shown.split())
    assert "0.200" in shown
    assert "2.200" in shown
    assert "+2.000" in shown
    assert "2.100 – 2.400" in shown


def test_the_summary_shows_no_interval_where_there_is_none(fabricate, capsys):
    from palaver.benchmarks.reports.run_folder import read
    from palaver.cli import outcome

    folder = fabricate()
    path = folder / "metrics.jsonl"
    path.write_text(re.sub(r'"(low|high)": [\d.]+', r'"\1": null', path.read_text(encoding="utf-8")), encoding="utf-8")
    outcome.show(read(folder))
    assert re.search(r"95 % interval\s+–\s+–\s", capsys.readouterr().out)


def contents(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def test_runs_are_not_written_to_when_they_are_overlaid(fabricate, tmp_path):
    folders = [fabricate("one"), fabricate("two", steps=3, evals=())]
    before = [contents(folder) for folder in folders]
    assert run("report", *folders, "--out", tmp_path / "both") == 0
    assert [contents(folder) for folder in folders] == before
    assert {path.name for path in (tmp_path / "both").iterdir()} == {"comparison.html", "comparison.png"}


def test_environments_are_not_drawn_on_the_same_axes(fabricate, tmp_path, monkeypatch):
    from palaver.benchmarks.reports import charts

    drawn = []
    monkeypatch.setattr(charts, "png", lambda drawing: drawn.append(drawing) or b"")
    one, other = fabricate("one"), fabricate("two")
    config = other / "config.yaml"
    config.write_text(config.read_text().replace("id: arxiv-v0", "id: echo-v0"))
    assert run("report", one, other, fabricate("three"), "--out", tmp_path / "both") == 0
    labels = [axes.get_ylabel() for axes in drawn[0].axes]
    assert labels == ["reward in arxiv-v0", "reward in echo-v0"]
    assert [len(axes.get_legend().get_texts()) for axes in drawn[0].axes] == [2, 1]
    assert overlapping_texts(drawn[0]) == []


def test_a_report_of_one_run_may_have_another_place(fabricate, tmp_path):
    folder = fabricate()
    before = contents(folder)
    assert run("report", folder, "--out", tmp_path / "new" / "x") == 0
    assert contents(folder) == before
    page = tmp_path / "new" / "x" / "report.html"
    assert {path.name for path in page.parent.iterdir()} == {"report.html", "curve.png", "episodes.html"}
    assert 'href="episodes.html"' in page.read_text(encoding="utf-8")
