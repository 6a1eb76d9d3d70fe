"""The table and the page: what they say, that nothing hostile acts, and that sorting and filters work in a browser."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from palaver.benchmarks.evaluation.results import store
from palaver.benchmarks.leaderboard import page
from palaver.benchmarks.leaderboard.board import read_board
from palaver.benchmarks.leaderboard.page import markdown, score
from palaver.benchmarks.leaderboard.read import read
from palaver.episodes import Episode
from palaver.text import one_line
from tests.benchmarks.leaderboard.boards import battle_rows, change, fill

HOSTILE = "<script>document.title='gone'</script><img src=x onerror=alert(1)>\u202e{{7*7}}"
TEAM = "`a|b`](javascript:x)<b>\n``c`"


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """A folder with rows, one of them hostile throughout, and the page beside."""
    folder = tmp_path_factory.mktemp("board")
    rows = fill(folder / "rows")
    path = rows / "echo-v0--random.json"
    lines = gzip.decompress(path.with_suffix(".jsonl.gz").read_bytes()).decode().splitlines()
    episodes = [Episode.from_dict(json.loads(line)) for line in lines]
    said = {agent: replace(text, text=HOSTILE) for agent, text in episodes[0].turns[0].completions.items()}
    turn = replace(episodes[0].turns[0], completions=said, reason=HOSTILE, observations={"a1": HOSTILE})
    episodes[0] = replace(episodes[0], task=HOSTILE, turns=(turn, *episodes[0].turns[1:]))
    by_task = {episode.task: episode.team_return() for episode in episodes}
    kept = store(rows, "echo-v0--random", episodes).model_dump()
    change(path, episodes=kept, team=TEAM, label=HOSTILE, by_task=by_task)
    found = read(rows)
    assert found.refused == ()
    return found, page.write(found, folder), folder


def test_the_table_says_what_the_rows_say(board):
    found, _, folder = board
    text = markdown(found, read_board(), "leaderboard.html", folder)
    assert "| `matrix-v1` | 11 | 11.00 [11.00, 11.00] |" in text  # the climbing game's optimum
    assert "| `echo-v0` | 4.5 | 4.50 [4.50, 4.50] | – | – (1) | – (2) |" in text
    assert "1. the tiny model has no texts for this game" in text
    assert re.search(r"\| `echo-strangers-v1` \| 4.5 \| 4.50 \[4.50, 4.50\] \|", text)
    assert text.count("`0123456789ab`") == 6
    columns = {line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("| [")}
    assert columns == {16}
    assert "(rows/matrix-v1--reference.json)" in text


def test_a_team_stays_in_its_code_span(board):
    found, _, folder = board
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown(found, read_board(), "leaderboard.html", folder))
    texts = [token.children for token in tokens if token.type == "inline"]
    (place,) = [
        n for n, own in enumerate(texts) if [each.type for each in own] == ["code_inline"] and "a|b" in own[0].content
    ]
    assert texts[place][0].content == one_line(TEAM)
    assert [each.type for each in texts[place - 2]] == ["link_open", "text", "link_close"]
    (row,) = [each for each in found.rows if each.row.team == TEAM]
    assert texts[place + 2][0].content == score(row)
    assert {each.type for own in texts for each in own} <= {
        "text",
        "code_inline",
        "link_open",
        "link_close",
        "em_open",
        "em_close",
        "softbreak",
    }


def test_bars_lie_between_the_floor_and_the_most(board):
    found, *_ = board
    by_name = {each.row.name: each for each in found.rows}
    whole = page.bar(by_name["matrix-v1--reference"], found.rows)
    assert (whole.mean, whole.low, whole.high) == (100.0, 100.0, 100.0)
    drawn = by_name["matrix-v1--random"]
    # uniform play of the climbing game pays below 0, so that the board's floor is the lowest end
    assert drawn.low < 0
    bar = page.bar(drawn, found.rows)
    assert bar.low == 0.0
    assert bar.mean == pytest.approx(100 * (drawn.mean - drawn.low) / (11 - drawn.low))


def test_nothing_is_loaded_and_nothing_hostile_is_markup(board):
    _, made, folder = board
    pages = [made, *sorted((folder / "episodes").glob("*.html"))]
    assert len(pages) == 7
    for each in pages:
        text = each.read_text(encoding="utf-8")
        assert "default-src 'none'" in text
        assert "<img" not in text
        assert text.count("<script>") == (each == made)
        assert not re.search(r"(src|href)=\"(https?:)?//", text)
        assert "\u202e" not in text


def test_links_lead_somewhere(board):
    _, made, _ = board
    for each in [made, *made.parent.glob("episodes/*.html")]:
        for link in re.findall(r'href="([^"]+)"', each.read_text(encoding="utf-8")):
            assert (each.parent / link).resolve().is_file(), link


@pytest.mark.usefixtures("pool")
def test_battles_have_a_page_of_replays(tmp_path):
    page.write(read(battle_rows(tmp_path / "rows")), tmp_path)
    (replayed,) = (tmp_path / "battles").glob("*.html")
    assert f'href="../battles/{replayed.name}"' in (tmp_path / "episodes" / "pokemon-v1--uniform.html").read_text()
    assert replayed.read_text(encoding="utf-8").count('"replay":{"frames":[[') == 2


def browser():
    from playwright.sync_api import sync_playwright

    return sync_playwright()


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
def test_a_reader_sorts_and_filters(board):
    pytest.importorskip("playwright")
    _, made, _ = board
    asked, faults = [], []
    with browser() as play:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = play.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        tab = opened.new_page(viewport={"width": 1300, "height": 800})
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        tab.goto(made.as_uri())
        cells = tab.locator("#board tbody tr:visible [data-value]")

        def scores():
            return [float(value) for value in tab.eval_on_selector_all(
                "#board tbody tr:not([hidden])", "rows => rows.map(row => row.cells[4].dataset.value)")]  # fmt: skip

        before = scores()
        assert (len(before), cells.count() > 0) == (6, True)
        score = tab.get_by_role("button", name="score")
        score.click()
        assert scores() == sorted(before)
        assert tab.locator("#board th[aria-sort=ascending]").inner_text().startswith("score")
        score.click()
        assert scores() == sorted(before, reverse=True)
        tab.get_by_role("button", name="environment or scenario").click()
        assert scores() != sorted(before, reverse=True)
        tab.get_by_label("environment").select_option("matrix-v1")
        assert (len(scores()), tab.locator("#shown").inner_text()) == (2, "2 of 6 rows")
        tab.get_by_label("team").select_option("reference")
        assert (scores(), tab.locator("#shown").inner_text()) == ([11.0], "1 of 6 rows")
        tab.get_by_role("link", name="episodes").locator("visible=true").first.click()
        assert "matrix-v1, reference" in tab.locator("h1").inner_text()
        tab.locator("summary").first.click()
        assert "Actions:" in tab.locator("pre").first.inner_text()
        (hostile,) = made.parent.glob("episodes/echo-v0--*script*.html")
        tab.goto(hostile.as_uri())
        assert "{{7*7}}" in tab.locator(".text").first.inner_text()
        assert tab.title().startswith("echo-v0--")
        opened.close()
    assert faults == []
    assert {url.partition(":")[0] for url in asked} == {"file"}
