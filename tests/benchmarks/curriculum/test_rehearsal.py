"""What a rehearsal measures, and what it makes of a plan, by hand."""

from __future__ import annotations

import pytest

from palaver.benchmarks.arena.plan import Game
from palaver.benchmarks.arena.record import Played, Share
from palaver.benchmarks.curriculum.read import parse
from palaver.benchmarks.curriculum.rehearsal import PUPIL_LABEL, Forecast, measured, plan, rehearse
from tests.benchmarks.curriculum.fakes import FakeShop, values


def test_means_of_what_was_played():
    def game(first, one, two, seconds):
        return Played(Game("t", first, "weak", 0, False), "x", 1.0, 5, "terminated", (one, two), seconds)

    played = [
        game("strong", Share(10, 0, 100.0), Share(20, 0, 20.0), 0.2),  # 80 ms that nobody spends
        game("strong", Share(30, 0, 100.0), Share(20, 0, 20.0), 0.24),  # 120
        game(PUPIL_LABEL, Share(20, 0, 40.0), Share(20, 0, 20.0), 0.16),  # 100
    ]
    found = measured(played, pace=1000.0, batch=250.0)
    assert found.decisions == 20  # 120 of six sides
    assert found.ms == {"strong": 5.0, "weak": 1.0, PUPIL_LABEL: 2.0}
    assert found.rest == pytest.approx(100)
    # 20 decisions of 5 + 1 ms and 100 ms: 0.22 s a battle; of a pupil that was not there 2 + 1 ms: 0.16 s
    assert found.playing({("strong", "weak"): 10, ("unknown", "weak"): 5}, jobs=2) == pytest.approx((2.2 + 0.8) / 2)


def test_a_plan_adds_up():
    spec = parse(values() | {"jobs": 1})
    made = plan(spec, Forecast(20, {"typed@1": 5, "random@1": 1, "veteran@1": 10, PUPIL_LABEL: 2}, 100, 1000, 100))
    rows = {row[0]: row for row in made.rows}
    # both sides of 8, 12 and 8 battles, 20 decisions each, 3 epochs; who is not learnt from teaches the value
    assert [rows[name][5] for name in rows] == ["960", "1,440", "960"]
    assert [rows[name][6] for name in rows] == ["10", "14", "10"]
    assert [rows[name][4] for name in rows] == ["120", "160", "200"], "3 opponents x 20 x 2 sets, and the pupils before"
    # 8 x 0.22 s; 0.48 s; 40 x (0.16 + 0.24 + 0.34) s
    assert rows["first"][7] == "0.0 + 0.0 + 0.5"
    assert "is repeated, 2 times at most" in made.note
    assert len(plan(spec, None).head) == 5


def test_everybody_appears_in_a_rehearsal(tmp_path):
    spec = parse(values())
    found = rehearse(spec, FakeShop(tmp_path / "work"))
    assert set(found.ms) == {"typed@1", "veteran@1", "random@1", PUPIL_LABEL}
    alone = values()
    alone["ratings"] = {"opponents": ["random@1"]}
    alone["stages"] = [{**alone["stages"][0], "pairs": {"random@1 v random@1": 1}}]
    assert set(rehearse(parse(alone), FakeShop(tmp_path / "more")).ms) == {"random@1", "random@1+2", PUPIL_LABEL}
