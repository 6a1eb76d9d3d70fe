"""The site of the documentation: built without a warning, complete, and pages that load nothing from other hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from docs.build.site_links import outside_links
from tests.architecture.source import ROOT

LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "link": "href",
}


class Loads(HTMLParser):
    """Collects the addresses that a page loads."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in LOADED and given.get("rel") != "canonical":
            self.found.append(given.get(LOADED[tag]) or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PALAVER_URL": "", "https_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.mark.slow
def test_every_page_is_there(site):
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    missing = [
        str(path) for path in pages if path.name != "README.md" and not (site / path).with_suffix(".html").exists()
    ]
    assert missing == []
    assert "I want to" in (site / "index.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_pages_load_nothing_from_other_hosts(site):
    outside = {}
    for path in site.rglob("*.html"):
        reader = Loads()
        reader.feed(path.read_text(encoding="utf-8"))
        foreign = [address for address in reader.found if "//" in address.partition(":")[2] or address.startswith("//")]
        if foreign:
            outside[path.name] = foreign
    assert outside == {}
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert "url(http" not in styles.replace('"', "")
    assert "@import" not in styles


@pytest.mark.slow
def test_there_is_an_index_to_search(site):
    entries = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    assert {"index.html", "commands.html", "algorithms/magrpo.html"} <= {entry["location"] for entry in entries}
    assert any("MAGRPO" in entry["title"] for entry in entries)


@pytest.mark.slow
def test_the_reference_has_the_public_names(site):
    page = (site / "api" / "palaver.html").read_text(encoding="utf-8")
    for name in ("make", "spec", "specs", "register", "Spec"):
        assert f'id="palaver.registry.{name}"' in page, name
    for name in (
        "training.train",
        "training.Run",
        "playing.evaluate",
        "playing.rollout",
        "data.to_dataset",
        "data.from_dataset",
    ):
        assert f'id="palaver.api.{name}"' in page, name
    for page, name in (
        ("environments", "envs.base.env.TextEnv"),
        ("agents", "agents.base.policy.Policy"),
        ("records", "core.Completion"),
    ):
        assert f'id="palaver.{name}"' in (site / "api" / f"{page}.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "without", "with_address"),
    [
        ("[a](commands.md#x)", "[a](commands.md#x)", "[a](commands.md#x)"),
        ("[a](https://x.org)", "[a](https://x.org)", "[a](https://x.org)"),
        ("[`kl.py`](../trainers/objectives/kl.py)", "`kl.py`", "[`kl.py`](U/blob/main/trainers/objectives/kl.py)"),
        ("[runs](runs/maac)", "runs", "[runs](U/blob/main/docs/runs/maac)"),
        ("[t](../LEADERBOARD.md)", "[t](leaderboard/leaderboard.html)", "[t](leaderboard/leaderboard.html)"),
        ("`[a](../x.py)`", "`[a](../x.py)`", "`[a](../x.py)`"),
        ("```\n[a](../x.py)\n```", "```\n[a](../x.py)\n```", "```\n[a](../x.py)\n```"),
    ],
)
def test_links_to_what_is_not_on_the_site(text, without, with_address):
    assert outside_links(text, "README.md") == without
    assert outside_links(text, "README.md", "U") == with_address
