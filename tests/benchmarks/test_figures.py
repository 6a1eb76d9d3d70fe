"""Every figure that results are drawn in: no text over another, nothing drawn that was not measured, one environment on
its axes. Runs and their comparison have tests of their own, see `FIGURES`.
"""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest

import palaver
from docs.build import env_figures, first_screen
from palaver.benchmarks.arena import tables as arena
from palaver.benchmarks.comparison.finished_runs import trial
from palaver.benchmarks.experiments.marlhf import truth as marlhf
from palaver.benchmarks.experiments.matrix_games import view as lab
from palaver.benchmarks.experiments.matrix_games.results import load as load_lab
from palaver.benchmarks.experiments.reasoning import table as reasoning
from palaver.benchmarks.experiments.reasoning.results import load as load_teams
from palaver.benchmarks.judge_audit import page as audit
from palaver.benchmarks.judge_audit.measures import Bin
from palaver.benchmarks.judge_audit.run import Audit, ProbeResult
from palaver.benchmarks.reports import charts
from palaver.benchmarks.reports.run_folder import read
from palaver.envs.minecraft import rendering
from palaver.scoring import Cost
from palaver.trainers.matches.standings import PairResult, PairTable, PlayerSummary, Standings
from palaver.utils.ratings import Rating
from palaver.utils.stats.improvement import Improvement
from tests.architecture.source import ROOT, files, tree
from tests.overlap import overlapping_texts, texts_outside

KEPT = ROOT / "docs" / "runs"
FIGURES = {  # module that draws -> test of its figures
    "benchmarks/arena/tables.py": "test_figures.py",
    "benchmarks/comparison/charts.py": "test_curves.py",
    "benchmarks/experiments/marlhf/truth.py": "test_figures.py",
    "benchmarks/experiments/matrix_games/view.py": "test_figures.py",
    "benchmarks/experiments/reasoning/table.py": "test_figures.py",
    "benchmarks/judge_audit/page.py": "test_figures.py",
    "benchmarks/reports/curriculum/page.py": "test_curriculum_report.py",
    "benchmarks/reports/run_report/conventions.py": "test_messages_report.py",
    "benchmarks/reports/run_report/curves.py": "test_charts.py",
    "benchmarks/reports/run_report/league.py": "test_league_report.py",
    "benchmarks/reports/run_report/messages.py": "test_messages_report.py",
    "benchmarks/reports/run_report/page.py": "test_report_command.py",
}


def test_every_module_that_draws_has_a_test():
    drawing = {
        str(path)
        for path in files()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("save_figure", "Drawing")
    }
    assert drawing == set(FIGURES)
    for name in FIGURES.values():
        assert "overlapping_texts(" in (Path(__file__).parent / name).read_text(encoding="utf-8"), name


@pytest.fixture
def drawn(monkeypatch):
    """Figures that are written, before they become a PNG."""
    found: list = []
    monkeypatch.setattr(charts, "png", lambda drawing: found.append(drawing) or b"")
    return found


def readable(drawing):
    """No text lies over another, and the border cuts none off."""
    assert (overlapping_texts(drawing), texts_outside(drawing)) == ([], [])


# --- the arena -----------------------------------------------------------------------------------


def table(teamset, names, met):
    """A table of players, of which those of `met` played each other."""
    ratings = tuple(Rating(name, 1500 - 100 * n, 1400.0, 1600.0, 30.0, True, 50.0) for n, name in enumerate(names))
    cells = {pair: PairResult(*pair, 100, 0, 0, 1.0, 0.96, 1.0) for pair in met}
    conduct = {name: PlayerSummary(name, 100, 100, 0, 0, 1.0, 10, 0.0, 1.0) for name in names}
    return PairTable(teamset, ratings, 1.0, conduct, cells, 0, 20.0)


@pytest.mark.parametrize("n", [2, 3, 7, 15])
@pytest.mark.parametrize("sets", [1, 2, 3])
def test_arena(drawn, tmp_path, n, sets):
    names = [f"player {'with a long name' * (i % 2)} {i}@1" for i in range(n)]
    met = [(one, two) for one in names for two in names if one != two]
    tables = tuple(table(f"generated:64:v3:s{i}:held-out", names, met) for i in range(sets))
    arena.draw(Standings(names[0], 1000.0, tables, (), 0, {"env": "pokemon-v1"}), tmp_path / "arena.png")
    readable(drawn[0])


def test_arena_players_that_did_not_meet_have_no_score(drawn, tmp_path):
    names = ["one", "two", "three"]
    found = Standings("one", 1000.0, (table("sample", names, [("one", "two")]),), (), 0, {})
    arena.draw(found, tmp_path / "arena.png")
    (axes,) = drawn[0].axes
    assert sorted(text.get_text() for text in axes.texts if text.get_text()) == ["100", "96–100"]
    assert [bool(patch.get_hatch()) for patch in axes.patches] == [False, True, True, True, True, True]


# --- matrix games --------------------------------------------------------------------------------


def test_matrix_games(drawn, tmp_path):
    kept = load_lab(KEPT / "lab" / "lab.json")
    lab.draw(kept, tmp_path / "lab.png")
    readable(drawn[0])


def test_matrix_games_that_were_not_played_have_no_return(drawn, tmp_path):
    kept = load_lab(KEPT / "lab" / "lab.json")
    first, second = kept.algorithms[:2]
    game = next(iter(kept.columns))
    rest = tuple(result for result in kept.results if (result.algorithm, result.game) != (first, game))
    lab.draw(
        replace(kept, algorithms=(first, second), columns={game: kept.columns[game]}, results=rest), tmp_path / "x.png"
    )
    (axes,) = drawn[0].axes
    assert [bool(patch.get_hatch()) for patch in axes.patches] == [True, False]  # the bounds have no shade
    column = kept.columns[game]
    shown = [text.get_text() for text in axes.texts if text.get_text()]
    assert shown[:3] == [lab.formatted(column.optimum), lab.formatted(column.random), "–"]


# --- judges --------------------------------------------------------------------------------------


LOWS = (0.5, 0.6, 0.7, 0.8, 0.9)


def judged(bins=(), tried=()):
    return Audit("scripted:fair", ("sample",), 40, 0, (), (), tuple(bins), tuple(tried), {}, Cost())


@pytest.mark.parametrize("shares", [(1.0,) * 5, (0.5, 0.52, 0.54, 0.52, 0.5), (0.0, 1.0, 0.0, 1.0, 0.0)])
@pytest.mark.parametrize("first", [0.5, 0.51, 0.59])
def test_reliability(drawn, tmp_path, shares, first):
    bins = [
        Bin(0.5 + 0.1 * i, 0.6 + 0.1 * i, 12_345, min(1.0, first + 0.1 * i), right) for i, right in enumerate(shares)
    ]
    audit.write(judged(bins), tmp_path)
    (drawing,) = drawn
    readable(drawing)
    dots = [line for line in drawing.axes[0].lines if line.get_marker() == "o"]
    assert [line.get_xdata().tolist() for line in dots] == [[each.confidence for each in bins]]


def test_probes(drawn, tmp_path):
    tried = [
        ProbeResult(f"{i} an answer that begins with the grade it wants", "injection", "x", 8, i, i // 2)
        for i in range(9)
    ]
    tried += [ProbeResult("empty", "degenerate", "", 8, 0)]
    audit.write(judged(tried=tried), tmp_path)
    (drawing,) = drawn
    readable(drawing)
    (controls,) = [line for line in drawing.axes[0].lines if line.get_marker() == "|"]
    assert controls.get_ydata().tolist() == list(range(9))  # the tenth has no control


# --- teams and rewards ---------------------------------------------------------------------------


def test_reasoning_teams(drawn, tmp_path):
    kept = load_teams(KEPT / "maths")
    reasoning.draw_picture(kept, tmp_path)
    readable(drawn[0])
    reasoning.draw_picture(replace(kept, cells=kept.cells[:1]), tmp_path)
    assert len(drawn[1].axes[0].get_yticks()) == 1  # rows without results are not drawn


def truth_of(record):
    return marlhf.Truth(
        tuple(record["line"]),
        [marlhf.TruthPoint(**point) for point in record["evaluations"]],
        [marlhf.TruthStep(**step) for step in record["steps"]],
        Improvement(**record["gain"]),
    )


def test_rewards_and_their_model(drawn, tmp_path):
    record = json.loads((KEPT / "marlhf" / "marlhf.json").read_text(encoding="utf-8"))
    marlhf.draw(truth_of(record), "reward model: 95.7 % of 399 held-out pairs", tmp_path / "marlhf.png")
    readable(drawn[0])
    few = record | {"steps": [], "evaluations": record["evaluations"][:2]}
    marlhf.draw(truth_of(few), "", tmp_path / "few.png")
    rewards, gap = drawn[1].axes
    steps = [point["step"] for point in few["evaluations"]]
    dotted = [line for line in (*rewards.lines, *gap.lines) if line.get_marker() == "o"]
    assert [line.get_xdata().tolist() for line in dotted] == [steps] * 3
    readable(drawn[1])


# --- the documentation's own ---------------------------------------------------------------------


def test_the_first_screen(drawn, tmp_path):
    runs = [trial(read(folder)) for folder in sorted((KEPT / first_screen.RECIPE).glob("seed-*"))]
    charts.save_figure(tmp_path / "x.png", "A title", (9, 3.6), lambda chart: first_screen.draw(chart, runs))
    readable(drawn[0])


@pytest.mark.parametrize("id", ["build-mini-v0", "housebuild-v0", "strbuild-v0"])
def test_pictures_of_builds(monkeypatch, id):
    seen = []
    pixels = rendering._Picture.pixels
    monkeypatch.setattr(rendering._Picture, "pixels", lambda self: seen.append(self) or pixels(self))
    for team in palaver.spec(id).scripted:
        env_figures.picture(palaver.spec(id), team)
    assert len(seen) >= len(palaver.spec(id).scripted)
    for each in seen:
        readable(each.figure)
