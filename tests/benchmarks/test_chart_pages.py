"""Pages with charts in a real browser: values at the pointer, zoom, lines that are hidden, and a run that goes on."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from palaver.benchmarks.comparison.curves import panels
from palaver.benchmarks.comparison.finished_runs import find
from palaver.benchmarks.comparison.groups import compare
from palaver.benchmarks.comparison.page import write_page
from palaver.benchmarks.reports import live
from tests.benchmarks.finished import make_run

sync_api = pytest.importorskip("playwright.sync_api")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
pytestmark = pytest.mark.skipif(not BROWSER, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def context():
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser.new_context(viewport={"width": 1000, "height": 900})
        browser.close()


@pytest.fixture
def page(context):
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: errors.append(request.url) if "127.0.0.1" not in request.url and
            not request.url.startswith("file:") else None)  # fmt: skip
    yield page
    assert errors == []
    page.close()


def ticks(page) -> list[str]:
    return page.locator(".plot .tick.middle").all_text_contents()


def test_a_comparison_is_read_zoomed_and_filtered(page, tmp_path):
    folders = [make_run(tmp_path / "runs", name, name, gain=gain) for name, gain in (("magrpo", 0.25), ("ippo", 0.5))]
    found = compare(find(folders)[0])
    write_page(found, panels(found)[0], tmp_path / "x.html")
    page.goto((tmp_path / "x.html").as_uri())
    assert page.locator(".plot polyline").count() == 2
    box = page.locator(".plot").first.bounding_box()
    across = lambda share: box["x"] + (68 + share * (720 - 68 - 14)) / 720 * box["width"]  # noqa: E731
    middle = box["y"] + box["height"] / 3
    page.mouse.move(across(0.75), middle)
    readout = page.locator(".readout").first.inner_text()
    assert "magrpo 0.75 at 30" in readout
    assert "ippo 1.5 at 30" in readout
    whole = ticks(page)
    page.mouse.down()
    page.mouse.move(across(0.5), middle, steps=4)
    page.mouse.up()
    assert ticks(page) != whole
    page.get_by_role("button", name="whole range").click()
    assert ticks(page) == whole
    page.get_by_role("button", name="ippo").click()
    assert page.locator(".plot polyline").count() == 1
    page.locator("#axis").select_option("wall_s")
    assert "wall seconds" in ticks(page)


def test_a_run_is_followed_while_it_trains(page, fabricate):
    folder = fabricate(steps=6, planned=30)
    status = {"status": "running", "step": 6, "pid": os.getpid()}
    (folder / "status.json").write_text(json.dumps(status))
    with live.LiveServer(folder) as server:
        page.goto(server.address)
        shown = page.locator("#status")
        sync_api.expect(shown).to_contain_text("running", timeout=20_000)
        page.locator("#metric").select_option("background/loss")
        with (folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"kind": "train", "step": 77, "reward/mean": 1.0, "background/loss": 0.5}) + "\n")
        sync_api.expect(shown).to_contain_text("step 77", timeout=20_000)
        assert page.locator("#metric").input_value() == "background/loss", "the choice stays"
        (folder / "status.json").write_text(json.dumps(status | {"status": "interrupted"}))
        sync_api.expect(shown).to_contain_text("interrupted", timeout=20_000)
