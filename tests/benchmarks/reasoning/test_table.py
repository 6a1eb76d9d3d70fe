"""The numbers of the table, worked out by hand."""

from __future__ import annotations

import pytest

from palaver.benchmarks.experiments.reasoning.results import RESULTS, Results, TeamSeedResult, load
from palaver.benchmarks.experiments.reasoning.table import COLUMNS, draw_picture, lines, markdown
from palaver.core import CheckpointError

TASKS = ("a", "b", "c", "d")
ALONE = (
    TeamSeedResult("alone", 0, "x", (1.0, 0.0, 0.0, 0.0), (1.0, 1.0, 0.0, 0.0), 10.0),
    TeamSeedResult("alone", 1, "x", (1.0, 1.0, 0.0, 0.0), (1.0, 1.0, 0.0, 0.0), 10.0),
)
TEAM = (
    TeamSeedResult("team", 1, "y", (1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 0.0), 44.0, 1000, 6.0),
    TeamSeedResult("team", 0, "y", (1.0, 0.0, 1.0, 0.0), (1.0, 1.0, 1.0, 0.0), 40.0, 3000, 8.0),
)
FOUND = Results("alone", ("alone", "team", "missing"), {"team": "alone"}, TASKS, (*ALONE, *TEAM), {"commit": "c"})


def test_shares_and_gains():
    """alone: 1/4 and 2/4, greedy 2/4; team: 2/4 and 4/4, greedy 3/4; so 3/4 - 3/8 = 3/8 better."""
    alone, team = lines(FOUND)
    assert (alone.sampled.mean, alone.greedy.mean, alone.learnt, alone.gain) == (0.375, 0.5, None, None)
    assert (team.sampled.mean, team.greedy.mean, team.seeds) == (0.75, 0.75, 2)
    assert team.gain.mean == pytest.approx(0.375)
    assert team.learnt == team.gain
    assert team.gain.low <= 0.375 <= team.gain.high
    assert (team.training_tokens, team.tokens, team.cpu_s) == (2000, 42, 7)
    assert [cell.seed for cell in FOUND.of("team")] == [0, 1]


def test_a_seed_that_one_of_both_lacks_is_not_compared():
    one = Results("alone", FOUND.rows, {}, TASKS, (ALONE[0], *TEAM), {})
    assert lines(one)[1].gain.mean == pytest.approx(0.25)  # seed 0 alone: 2/4 - 1/4
    none = Results("alone", FOUND.rows, {}, TASKS, TEAM, {})
    assert lines(none)[0].gain is None


def test_the_table_in_markdown():
    text = markdown(FOUND)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert {line.count("|") for line in rows} == {len(COLUMNS) + 1}
    assert rows[2].startswith("| alone | 0.375 [")
    assert rows[3].endswith("| 2,000 | 42 | 7 |")
    assert "Share of 4 held-out problems" in text
    assert "mean over 2 seeds" in text


def test_what_is_saved_is_read_again(tmp_path):
    FOUND.save(tmp_path)
    assert load(tmp_path) == FOUND


@pytest.mark.parametrize("text", ["", "[]", '{"beside": "a"}', "null"])
def test_what_is_no_table_is_refused(tmp_path, text):
    (tmp_path / RESULTS).write_text(text)
    with pytest.raises(CheckpointError, match="holds no table"):
        load(tmp_path)


def test_answers_to_other_problems_are_refused(tmp_path):
    Results("alone", FOUND.rows, {}, ("a",), ALONE, {}).save(tmp_path)
    with pytest.raises(CheckpointError, match="more or fewer problems"):
        load(tmp_path)


def test_the_picture(tmp_path):
    path = draw_picture(FOUND, tmp_path)
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
