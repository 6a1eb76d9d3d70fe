"""What a rehearsal measures, and what it makes of a plan, by hand."""

from __future__ import annotations

import pytest

from palaver.trainers.curriculum.config import parse
from palaver.trainers.curriculum.forecast import STUDENT_LABEL, Forecast, measured, plan, rehearse
from palaver.trainers.matches.config import GameSpec
from palaver.trainers.matches.results import GameResult, PlayerStats
from tests.trainers.curriculum.fakes import FakeBackend, values


def _game(first, one, two, seconds):
    return GameResult(GameSpec("t", first, "weak", 0, False), "x", 1.0, 5, "terminated", (one, two), seconds)


def test_medians_of_what_was_played():
    weak = PlayerStats(20, 0, 20.0)
    played = [
        _game(
            "strong", PlayerStats(10, 0, 900.0), weak, 1.92
        ),  # the first: 90 ms a decision, 1000 ms that nobody spends
        _game("strong", PlayerStats(30, 0, 150.0), weak, 0.27),  # 5 and 100
        _game("strong", PlayerStats(20, 0, 80.0), weak, 0.18),  # 4 and 80
        _game(STUDENT_LABEL, PlayerStats(20, 0, 40.0), weak, 0.18),  # 2 and 120
        _game(STUDENT_LABEL, PlayerStats(20, 0, 40.0), weak, 0.15),  # 2 and 90
    ]
    advised = [_game(STUDENT_LABEL, PlayerStats(20, 0, 40.0), weak, spent) for spent in (5.0, 0.36, 0.44)]
    found = measured(played, {"coach": advised, "ill": []}, pace=1000.0, batch=250.0)
    assert found.decisions == 20  # 200 of ten sides
    assert found.ms == {"strong": 5.0, "weak": 1.0, STUDENT_LABEL: 2.0}
    assert found.overhead == pytest.approx(100)
    assert found.asking == pytest.approx({"coach": 14.0})  # 380 ms that nobody spends, 100 without it, 20 decisions
    # 20 decisions of 5 + 1 ms and 100 ms: 0.22 s a battle; of a student that was not there 2 + 1 ms: 0.16 s
    assert found.playing({("strong", "weak"): 10, ("unknown", "weak"): 5}, jobs=2) == pytest.approx((2.2 + 0.8) / 2)


def test_a_plan_adds_up():
    spec = parse(values() | {"jobs": 1})
    made = plan(
        spec, Forecast(20, {"typed@1": 5, "random@1": 1, "veteran@1": 10, STUDENT_LABEL: 2}, 100, {}, 1000, 100)
    )
    rows = {row[0]: row for row in made.rows}
    # both sides of 8, 12 and 8 battles, 20 decisions each, 3 epochs; who is not learnt from teaches the value
    assert [rows[name][5] for name in rows] == ["960", "1,440", "960"]
    assert [rows[name][6] for name in rows] == ["10", "14", "10"]
    assert [rows[name][4] for name in rows] == ["120", "160", "200"], "3 opponents x 20 x 2 sets, and earlier students"
    # 8 x 0.22 s; 0.48 s; 40 x (0.16 + 0.24 + 0.34) s
    assert rows["first"][7] == "0.0 + 0.0 + 0.5"
    assert "is repeated, 2 times at most" in made.note
    advised = values(jobs=1)
    advised["stages"][1] |= {"advice": 0.5, "pairs": {"coach v student": 1}, "battles": 1200}
    asked = plan(parse(advised), Forecast(20, {"veteran@1": 0, STUDENT_LABEL: 0}, 0, {"veteran@1": 10}, 1000, 100))
    assert asked.rows[1][7].startswith("2.0 + "), "10 ms at half of 20 decisions of one side in 1,200 battles"
    assert len(plan(spec, None).head) == 5


def test_everybody_appears_in_a_rehearsal(tmp_path):
    spec = parse(values())
    found = rehearse(spec, FakeBackend(tmp_path / "work"))
    assert set(found.ms) == {"typed@1", "veteran@1", "random@1", STUDENT_LABEL}
    assert not found.asking
    advised = values()
    advised["stages"][1]["advice"] = 0.5
    assert set(rehearse(parse(advised), FakeBackend(tmp_path / "asked")).asking) == {"veteran@1"}
    alone = values()
    alone["ratings"] = {"opponents": ["random@1"]}
    alone["stages"] = [{**alone["stages"][0], "pairs": {"random@1 v random@1": 1}}]
    assert set(rehearse(parse(alone), FakeBackend(tmp_path / "more")).ms) == {"random@1", "random@1+2", STUDENT_LABEL}
