"""The viewer's page of every environment, in a real browser; comparisons of runs of one and of two environments."""

from __future__ import annotations

import shutil

import pytest

import palaver
from palaver.benchmarks.viewer.page import write
from palaver.cli.commands.evaluate import save
from palaver.core import ConfigError
from palaver.registry import specs

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
IDS = sorted(specs())


@pytest.fixture(scope="module")
def context():
    sync_api = pytest.importorskip("playwright.sync_api")
    if not BROWSER:
        pytest.skip("no Chromium is installed")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme="light")
        browser.close()


def test_there_are_twenty_six():
    assert len(IDS) == 26


@pytest.mark.parametrize("id", IDS)
def test_a_page_has_no_script_error(context, id, tmp_path, request):
    if id == "pokemon-v1":
        request.getfixturevalue("pool")
    env = palaver.make(id)
    episodes = palaver.rollout(env, team="scripted:reference", tasks=[env.tasks[0].id])
    save(episodes, tmp_path / "episodes.jsonl")
    page = write(tmp_path / "episodes.jsonl")
    assert page.episodes == len(episodes) == 1
    faults: list[str] = []
    tab = context.new_page()
    tab.set_default_timeout(20_000)
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("request", lambda asked: faults.append(asked.url) if not asked.url.startswith(("file:", "data:")) else None)
    tab.goto(page.path.as_uri())
    tab.locator("#heading").wait_for()
    assert tab.inner_text("#heading") == episodes[0].task
    shown = tab.inner_text("body")
    for agent in episodes[0].turns[0].completions:
        assert agent in shown
    for width in (1400, 420):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.close()
    assert faults == []


@pytest.mark.parametrize("id", IDS)
def test_html_is_rendered_or_refused(id, request):
    if id != "pokemon-v1":
        with pytest.raises(ConfigError, match="render_mode='html' is not offered; use None or "):
            palaver.make(id, render_mode="html")
        return
    request.getfixturevalue("pool")
    env = palaver.make(id, render_mode="html")
    env.reset(seed=0)
    assert env.render().startswith("<!doctype html>")
