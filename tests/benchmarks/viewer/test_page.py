"""The viewer's page: one file that loads nothing, whatever the texts hold; and the command that writes it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import webbrowser

import pytest

from palaver.benchmarks.reports.inline import island
from palaver.benchmarks.viewer.page import HERE, SCRIPTS, Choices, write
from palaver.core import ConfigError
from tests.benchmarks.viewer.made import HOSTILE, Page, episode, lines, save


@pytest.fixture
def run(tmp_path):
    """A run of two steps, two tasks and two siblings of each."""
    for step in (0, 10):
        rows = [
            episode(task, {"a": f"step {step} {task} {n}", "b": "same"}, {"style": step / 10 + n}, group=task)
            for task in ("t0", "t1")
            for n in (0, 1)
        ]
        save(tmp_path / "run" / "episodes" / f"eval-{step:06d}.jsonl", *rows)
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    return tmp_path / "run"


def test_a_page_of_a_run(run):
    done = write(run)
    assert done.path == run / "episodes.html"
    assert done.episodes == 8
    assert done.notes == ["config.yaml is missing"]
    assert done.first == {
        (step, task): f"eval-{step}-{2 * n}" for step in (0, 10) for n, task in enumerate(("t0", "t1"))
    }
    page = Page(done.path)
    assert [each["id"] for each in page.data["episodes"]] == [f"eval-{step}-{n}" for step in (0, 10) for n in range(4)]
    assert [each["total"] for each in page.data["episodes"]] == [0.0, 1.0, 0.0, 1.0, 1.0, 2.0, 1.0, 2.0]
    assert "step 10 t1 1" in page.data["texts"]
    write(run)
    assert sorted(path.name for path in run.iterdir()) == ["episodes", "episodes.html", "metrics.jsonl"]


def test_nothing_but_the_page_s_own_script_and_style_may_run(run):
    page = Page(write(run).path)
    assert page.policy == (
        f"default-src 'none'; script-src '{sha(page.inside['script'])}'; style-src '{sha(page.inside['style'])}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert page.loads == []
    assert page.tags.count("script") == 2
    assert not re.search(r"@import|url\(|https?:", page.inside["style"])


def sha(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_scripts_never_make_elements_of_text():
    code = "".join((HERE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    assert {path.stem for path in HERE.glob("*.js")} == set(SCRIPTS)
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "eval(",
        "new Function",
        "fetch(",
    ):
        assert word not in code


def test_hostile_texts_stay_in_the_data(tmp_path):
    bad = episode(
        HOSTILE, {HOSTILE: HOSTILE, "b": "x"}, {HOSTILE: 1.0}, reason=HOSTILE, metrics={HOSTILE: 1.0}, group=HOSTILE
    )
    page = Page(write(save(tmp_path / "</title><b onclick=x>.jsonl", bad)).path)
    assert page.tags.count("script") == 2
    assert "img" not in page.tags
    assert "b" not in page.tags
    assert page.loads == []
    assert "<" not in page.inside["data"]
    assert any(text.startswith("</script><script>") for text in page.data["texts"])
    assert not set(page.text) & set("\x00\x1b\u202e\u2028")


def test_an_island_is_the_same_data_without_a_tag():
    data = {"<!--": ["</script>", "a & b", "é\u2029"], "n": 0.5}
    assert json.loads(island(data)) == data
    assert not set(island(data)) & set("<>&")
    with pytest.raises(ValueError, match="JSON"):
        island([float("nan")])


def test_files_of_episodes_and_where_their_pages_go(tmp_path):
    packed = tmp_path / "e.jsonl.gz"
    packed.write_bytes(gzip.compress(lines(episode(), episode("t1")).encode() + b"{cut off"))
    done = write(packed)
    assert done.path == tmp_path / "e.html"
    assert (done.episodes, done.notes) == (2, ["1 unreadable line left out"])
    assert write(packed, tmp_path / "deep" / "p.html").path.is_file()
    with pytest.raises(ConfigError, match=r"cannot write .*p\.html"):
        write(packed, tmp_path / "e.jsonl.gz" / "p.html")


def test_a_run_without_episodes_has_a_page(run):
    for path in (run / "episodes").iterdir():
        path.unlink()
    done = write(run)
    assert done.episodes == 0
    assert Page(done.path).data["episodes"] == []


def test_what_does_not_fit_is_told(run):
    done = write(run, choices=Choices(max_episodes=3, characters=100))
    assert done.notes[-1] == "5 of 8 episodes do not fit and are left out"
    assert [each["id"] for each in Page(done.path).data["episodes"]] == ["eval-10-0", "eval-10-1", "eval-10-2"]


def command(*arguments):
    from palaver.cli import main

    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def test_the_command(run, tmp_path, capsys, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    assert command("view", run, "--out", tmp_path / "page.html", "--open") == 0
    told = capsys.readouterr()
    assert told.out.startswith(f"{tmp_path / 'page.html'}  (8 episodes, 0.1 MB)")
    assert told.err == "note: config.yaml is missing\n"
    assert opened == [(tmp_path / "page.html").as_uri()]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nope",), "error: there is neither a run folder nor a file of episodes 'nope'\n"),
        (("run", "--out", "run"), "error: --out 'run' is a folder; name a file\n"),
    ],
)
def test_mistakes_are_one_line(run, tmp_path, capsys, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    assert command("view", *arguments) == 2
    assert capsys.readouterr().err == says
