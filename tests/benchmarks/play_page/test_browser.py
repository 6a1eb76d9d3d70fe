"""Games in a real browser, from the command to the replay: by clicks, by typing, and with hostile partners."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.architecture.running import started

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect
BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
expect.set_options(timeout=60_000)  # of a busy machine
pytestmark = pytest.mark.skipif(not BROWSER, reason="no Chromium is installed")
MOST_CHOICES = 40
MOVES = "- Body Slam\n- Earthquake\n- Blizzard\n- Hyper Beam\n"
TEAMS = "\n".join(f"=== [gen1ou] {name} ===\nTauros\n{MOVES}\nSnorlax\n{MOVES}" for name in ("one", "two"))


@pytest.fixture(scope="module")
def context():
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        made = browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme="light")
        made.set_default_timeout(60_000)
        yield made
        browser.close()


@contextmanager
def command(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`palaver play ARGUMENTS --browser`, and the address that it prints."""
    env = {**os.environ, "BROWSER": "true", "COLUMNS": "200"}
    line = [sys.executable, "-u", "-m", "palaver", "play", *arguments, "--browser"]
    with started(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as child:
        assert child.stdout is not None
        yield child, child.stdout.readline().split()[0]


@contextmanager
def opened(context, address: str):
    """A tab at the address; faults of scripts and requests to elsewhere fail the test."""
    tab, faults = context.new_page(), []
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("console", lambda message: faults.append(message.text))
    tab.on("dialog", lambda dialog: faults.append(dialog.message))
    tab.on("request", lambda request: faults.append(request.url) if not request.url.startswith(address) else None)
    tab.goto(address)
    yield tab
    assert faults == []
    tab.close()


def replay(context, tab):
    with context.expect_page() as opening:
        tab.get_by_role("link", name="Open the replay").click()
    return opening.value


def strongest(tab) -> None:
    """Click the action with the largest power; without any, the first."""
    labels = tab.locator(".action").all_text_contents()
    power = [int((re.search(r"power (\d+)", label) or [0, 0])[1]) for label in labels]
    tab.locator(".action").nth(power.index(max(power))).click()


@pytest.mark.usefixtures("pool")
def test_a_battle_is_played_by_clicks(context, tmp_path):
    (tmp_path / "gen1ou.txt").write_text(TEAMS)
    with command("pokemon-v1", f"teams={tmp_path}", "--team", "p1=human,p2=scripted:uniform") as (child, address):
        with opened(context, address) as tab:
            question = tab.locator(".ask button.send:not([disabled])")
            expect(question).to_be_visible()
            expect(tab.locator(".out .mon")).to_have_count(2)
            tab.get_by_label("answer").fill("zzz")
            tab.keyboard.press("Enter")
            expect(tab.locator(".remarks")).to_contain_text("'zzz' names no legal action")
            tab.reload()
            expect(tab.locator(".remarks")).to_contain_text("'zzz' names no legal action")
            for _ in range(MOST_CHOICES):
                expect(question.or_(tab.locator("#again"))).to_be_visible()
                if tab.locator("#again").count():
                    break
                before = tab.locator(".turn.now h3").text_content()
                strongest(tab)
                expect(
                    tab.locator("#again").or_(tab.locator(".turn.now h3").filter(has_not_text=before))
                ).to_be_visible()
            expect(tab.locator(".result h2")).to_have_text(re.compile("You have (won|lost)"))
            won = "won" in tab.locator(".result h2").text_content()
            seen = replay(context, tab)
            expect(seen.locator(".replay .pill")).to_contain_text("p1 human won" if won else "p2 scripted:uniform won")
            seen.get_by_role("button", name="turn »").click()
            expect(seen.locator(".replay .now b")).to_have_text("Turn 1")
            seen.close()
            tab.set_viewport_size({"width": 420, "height": 900})
            assert tab.locator("body").evaluate("body => body.scrollWidth") <= 420
            tab.get_by_role("button", name="Play again").click()
            expect(tab.locator(".facts").first).to_have_text(re.compile("task two v one"))
            tab.get_by_role("button", name="leave").click()
            expect(tab.locator(".over")).to_contain_text("you left the game")
        out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, "you left the game\n")
    assert f"reward p1 {1 if won else -1}.000" in out


def test_a_paragraph_is_written_and_partners_are_text(context):
    """An image with a handler, the end of a script, and a sign that turns the direction of writing."""
    partner = "scripted:tests.benchmarks.play_page.hostile:text"
    with command("arxiv-v0", "--team", f"background=human,method={partner}") as (child, address):
        with opened(context, address) as tab:
            expect(tab.locator(".now")).to_contain_text("Write the background paragraph")
            field = tab.get_by_label("answer")
            field.press_sequentially("Networks learn <b>")
            tab.reload()
            expect(field).to_have_value("Networks learn <b>")
            field.press_sequentially(" slowly.")
            tab.keyboard.press("Enter")
            expect(tab.locator(".bubble.mine")).to_contain_text("Networks learn <b> slowly.")
            expect(tab.locator(".over .bubble")).to_contain_text("</script><img src=x onerror=alert(1)>")
            expect(tab.locator(".turn .earned")).to_contain_text("length 0")
            assert tab.locator("img, b b").count() == 0
            seen = replay(context, tab)
            expect(seen.locator("article.turn")).to_contain_text("Networks learn <b> slowly.")
            expect(seen.locator("article.turn")).to_contain_text("</script><img src=x onerror=alert(1)>")
            assert seen.locator("img").count() == 0
            seen.close()
            tab.get_by_role("button", name="Finish").click()
            expect(tab.locator(".ask .over")).to_contain_text("the game is over")
        assert child.wait(timeout=60) == 0


def test_a_board_is_drawn_on_and_two_people_take_turns(context):
    with command("strbuild-v0", "num_turns=1", "--team", "human") as (child, address):
        with opened(context, address) as tab:
            expect(tab.locator("p.you b")).to_have_text("builder1")
            tab.get_by_role("button", name="stone", exact=True).click()
            board = tab.locator("canvas.drawn")
            box = board.bounding_box()
            tab.mouse.move(box["x"] + 2, box["y"] + box["height"] - 4)
            tab.mouse.down()
            tab.mouse.move(box["x"] + 2 + box["width"] / 12, box["y"] + box["height"] - 4)
            tab.mouse.up()
            expect(tab.get_by_label("answer")).to_have_value("/setblock 0 0 0 stone\n/setblock 1 0 0 stone")
            tab.get_by_role("button", name="Send").click()
            expect(tab.locator("p.you b")).to_have_text("builder2")
            tab.get_by_label("answer").fill("/setblock 0 1 0 obsidian")
            tab.keyboard.press("Control+Enter")
            expect(tab.locator(".over .bubble").first).to_contain_text("/setblock 1 0 0 stone")
        with opened(context, address) as tab:
            expect(tab.locator("#finish")).to_be_visible()
            child.send_signal(signal.SIGINT)
            expect(tab.locator(".ask .over")).to_contain_text("the game was ended in the terminal")
        assert child.wait(timeout=60) == 0


def test_a_browser_that_is_killed_ends_the_game():
    """Everything of it at once, so that no page can say goodbye."""
    with command("matrix-v1", "--team", "a1=human,a2=scripted:uniform") as (child, address):
        line = [BROWSER, "--headless", "--no-sandbox", "--remote-debugging-port=0", address]
        browser = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, start_new_session=True)
        time.sleep(0)
        assert browser.stderr is not None
        while "listening" not in browser.stderr.readline():
            assert browser.poll() is None
        time.sleep(5)
        assert child.poll() is None
        os.killpg(browser.pid, signal.SIGKILL)
        _, err = child.communicate(timeout=120)
    assert (child.returncode, err) == (0, "the page was closed, and with it the game\n")
