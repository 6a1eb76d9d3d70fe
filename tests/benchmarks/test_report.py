from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from palaver.benchmarks.reports import run_folder
from palaver.benchmarks.reports.run_folder import read
from palaver.benchmarks.reports.run_report.page import compare, write
from palaver.benchmarks.viewer import page as viewer
from palaver.benchmarks.viewer import sources
from palaver.benchmarks.viewer.page import Choices
from palaver.core import CheckpointError

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}{% raw %}\x1b[2J\x00\u202e\ud800 ]]> --> </style>"
    "&lt;b&gt; 'quote' \"double\""
)


class Page(HTMLParser):
    """Tags, and attributes that could load or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [(k, v or "") for k, v in attrs if k in {"src", "href", "srcset", "data"} or k.startswith("on")]


def parse(path: Path) -> tuple[str, Page]:
    text = path.read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    return text, page


def visible(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_the_page_says_what_a_reader_wants_first(fabricate):
    folder = fabricate()
    text, _ = parse(write(folder))
    shown = visible(text)
    assert "arxiv-magrpo" in shown
    assert "finished, 30 steps" in shown
    assert "0.20 → 2.20 of 3" in shown
    assert "2.20 [2.10, 2.40]" in shown
    assert "wall time 33.0 s" in shown
    assert "Task a0" in shown
    assert "Task a4" not in shown
    assert "step 30: A sentence." in shown
    assert (folder / "curve.png").stat().st_size > 10_000


def test_the_page_loads_nothing_and_runs_nothing(fabricate):
    path = write(fabricate(text=HOSTILE))
    text, page = parse(path)
    assert "script" not in page.tags
    assert "img" not in page.tags
    links = {value.partition("#")[0] for _, value in page.loads if not value.startswith("#")}
    assert links == {"episodes.html"}  # beside it, and opened only by who clicks
    assert path.with_name("episodes.html").is_file()
    assert "default-src 'none'" in text
    assert "@import" not in text
    assert "url(http" not in text


def test_every_task_leads_to_its_episodes_before_and_after(fabricate):
    folder = fabricate()
    path = folder / "episodes" / "eval-000030.jsonl"
    path.write_text("not an episode\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    text, page = parse(write(folder, 2))
    assert "episodes.html has 10 episodes" in visible(text)
    assert [value for _, value in page.loads if "~" in value] == [
        "episodes.html#eval-0-0~eval-30-1", "episodes.html#eval-0-1~eval-30-2",
    ]  # fmt: skip


def test_hostile_text_is_shown_as_text(fabricate):
    text, _ = parse(write(fabricate(text=HOSTILE)))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "{{ 7*7 }}{% raw %}" in text
    assert "\u241b[2J\u2400\ufffd\ufffd" in text
    assert not set(text) & set("\x00\x1b\u202e")
    assert "&amp;lt;b&amp;gt;" in text


def test_hostile_names_in_metrics_config_and_launch(fabricate):
    folder = fabricate()
    for name in ("metrics.jsonl", "episodes/eval-000000.jsonl"):
        path = folder / name
        escaped = json.dumps("<svg onload=alert(1)>")[1:-1]
        path.write_text(path.read_text(encoding="utf-8").replace("structure", escaped), encoding="utf-8")
    (folder / "launch.json").write_text(json.dumps({"recipe": "</title><b onclick=x>"}), encoding="utf-8")
    (folder / "config.yaml").write_text("policy: {model: '</pre><script>'}", encoding="utf-8")
    text, page = parse(write(folder))
    assert [key for key, _ in page.loads if key.startswith("on")] == []
    assert "script" not in page.tags
    assert "&lt;svg onload=alert(1)&gt;" in text


def test_a_huge_text_is_cut(fabricate):
    folder = fabricate(text="word " * 200_000)
    text, _ = parse(write(folder))
    assert len(text) < 600_000
    assert "more characters]" in text


@pytest.mark.parametrize(
    ("steps", "evals", "says"),
    [
        (0, (), "no training step yet"),
        (0, (0,), "before training"),
        (1, (), "stopped or running, step 1 of 30"),
        (12, (0,), "stopped or running, step 12 of 30"),
    ],
)
def test_partial_runs_have_a_page(fabricate, steps, evals, says):
    text, _ = parse(write(fabricate(steps=steps, evals=evals)))
    assert says in visible(text)


def test_a_run_killed_in_the_middle_of_a_write_has_a_page(fabricate):
    folder = fabricate(steps=9, evals=(0,))
    for path in (folder / "metrics.jsonl", folder / "episodes" / "eval-000000.jsonl"):
        path.write_bytes(path.read_bytes()[:-25])
    text, _ = parse(write(folder))
    assert "1 unreadable line left out" in text
    assert "step 8 of 30" in text


def test_nan_in_every_number_still_makes_a_page(fabricate):
    folder = fabricate()
    path = folder / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        for key, value in line.items():
            if isinstance(value, float):
                line[key] = float("nan")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    text, _ = parse(write(folder))
    assert "is not finite" in text


def test_each_file_of_episodes_is_read_once(fabricate, monkeypatch):
    """By the viewer, which hands evaluations to the samples and conventions; else by the first of these."""
    opened, lines, whole = [], sources._lines, run_folder.read_lines
    monkeypatch.setattr(sources, "_lines", lambda path: opened.append(path.name) or lines(path))
    monkeypatch.setattr(run_folder, "read_lines", lambda path: opened.append(path.name) or whole(path))
    folder = fabricate()
    text = write(folder).read_text()
    recorded = [path.name for path in (folder / "episodes").iterdir()]
    assert sorted(name for name in opened if name in recorded) == sorted(recorded)
    monkeypatch.setattr(viewer, "Choices", lambda **_: Choices(max_episodes=1))
    opened.clear()
    write(folder)
    assert max(opened.count(name) for name in recorded) == 2  # the viewer counts those that do not fit
    assert "Task a0" in visible(text)


def test_writing_twice_replaces_the_page_and_leaves_nothing_else(fabricate):
    folder = fabricate()
    write(folder)
    before = sorted(path.name for path in folder.iterdir())
    write(folder)
    assert sorted(path.name for path in folder.iterdir()) == before
    assert {"report.html", "curve.png"} <= set(before)


def test_several_runs_share_one_page(fabricate, tmp_path):
    folders = [fabricate("seed-0"), fabricate("seed-1", steps=10, evals=(0,))]
    text, page = parse(compare([read(folder) for folder in folders], tmp_path / "both"))
    shown = visible(text)
    assert "2 runs compared" in shown
    assert "seed-0" in shown
    assert "0.20 [0.10, 0.40] 2.20 [2.10, 2.40] 64 33.0 s" in shown
    assert "0.20 [0.10, 0.40] – 64 11.0 s" in shown
    assert "script" not in page.tags
    assert (tmp_path / "both" / "comparison.png").is_file()


def test_runs_of_one_name_are_told_apart(fabricate, tmp_path):
    runs = [read(fabricate(name)) for name in ("a/seed-0", "b/seed-0", "b/deep/seed-1")]
    shown = visible(parse(compare(runs, tmp_path / "both"))[0])
    for name in ("a/seed-0", "b/seed-0", "b/deep/seed-1"):
        assert f" {name} finished" in shown


def test_one_task_has_no_interval_on_any_page(fabricate, tmp_path):
    folder = fabricate()
    path = folder / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lines = [line | ({"low": None, "high": None} if line["kind"] == "eval" else {}) for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    text, _ = parse(write(folder))
    assert "2.20 [–]" in visible(text)
    assert 'class="interval"' not in text
    assert "0.20 [–] 2.20 [–] 64" in visible(parse(compare([read(folder)] * 2, tmp_path / "both"))[0])


@pytest.mark.parametrize(
    "damage",
    [
        {"completions": {"method": {"text": None}}},
        {"completions": None},
        {"rewards": {"method": "much"}},
        {"rewards": None},
        {"components": {"method": {"style": None}}},
        {"metrics": {"off_topic": 10**400}},
        {"observations": None},
        {"index": "0"},
    ],
    ids=str,
)
def test_a_damaged_episode_is_left_out(fabricate, damage):
    folder = fabricate()
    path = folder / "episodes" / "eval-000030.jsonl"
    first, *others = path.read_text(encoding="utf-8").splitlines(keepends=True)
    record = json.loads(first)
    record["turns"][0] |= damage
    path.write_text(json.dumps(record) + "\n" + "".join(others), encoding="utf-8")
    shown = visible(parse(write(folder))[0])
    assert "Task a0" in shown  # as it was before training
    assert "No episode was saved." in shown
    assert "step 30: A sentence." in shown


def test_a_folder_that_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="is not a run folder"):
        write(tmp_path)
