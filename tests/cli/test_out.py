"""`--out` means the same for every command: a file that is replaced, or a folder; docs/commands.md lists them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from palaver.cli.app import app
from palaver.core import ConfigError
from tests.architecture.source import ROOT

PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
KEPT = ROOT / "docs" / "runs" / "arxiv-magrpo" / "seed-0"
COMPARED = ROOT / "docs" / "runs" / "comparison"


def options(command=None, path=()):
    """Command -> its `--out`."""
    command = command or typer.main.get_command(app)
    found = {" ".join(path): param for param in command.params if "--out" in param.opts}
    for name, below in getattr(command, "commands", {}).items():
        found |= options(below, (*path, name))
    return found


OPTIONS = options()


def test_the_page_lists_the_option_of_every_command():
    listed = {}
    for commands, kind, default, _ in re.findall(
        r"^\| (`.+?) \| (FILE|FOLDER) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE
    ):
        listed |= dict.fromkeys(re.findall(r"`(.+?)`", commands), (kind, default))

    def default(option):
        if option.required:
            return "needed"
        if isinstance(option.show_default, str):
            return option.show_default
        return "none" if option.default is None else str(option.default)

    assert {name: kind for name, (kind, _) in listed.items()} == {name: o.metavar for name, o in OPTIONS.items()}
    shown = {name: re.sub(r"none: .*", "none", default) for name, (_, default) in listed.items()}
    assert shown == {name: default(option) for name, option in OPTIONS.items()}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_other_kind_is_refused(name, tmp_path):
    (tmp_path / "file").touch()
    option = OPTIONS[name]
    wrong, right = (tmp_path / "file", tmp_path) if option.metavar == "FOLDER" else (tmp_path, tmp_path / "file")
    context = typer.Context(typer.main.get_command(app))
    with pytest.raises(ConfigError, match=r"--out '.+' is a (file; name a folder|folder; name a file)$"):
        option.process_value(context, str(wrong))
    for path in (right, tmp_path / "new"):
        assert Path(option.process_value(context, str(path))) == path
    assert sorted(tmp_path.iterdir()) == [tmp_path / "file"]  # nothing is made before the command works


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("evaluate", "echo-v0", "--team", "random", "-n", "1"), "e.jsonl"),
        (("results", "rescore", KEPT / "episodes" / "eval-000130.jsonl"), "e.jsonl"),
        (("view", KEPT), "page.html"),
        (("compare", COMPARED / "ippo-1", COMPARED / "ippo-2"), "both.svg"),
        (("bench", "teams", "size=0.1M", "agents=2", "group=2", "steps=1", "kinds=[one]", "new_tokens=2"), "t.json"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_file_is_replaced_and_its_folder_made(palaver, arguments, name):
    target = Path("new/folder") / name
    ran = palaver(*arguments, "--out", target)
    assert ran.code == 0, ran.err
    first = target.read_bytes()
    assert first
    target.write_text("other")
    assert palaver(*arguments, "--out", target).code == 0
    assert target.read_bytes()[:5] == first[:5] != b"other"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "arxiv-magrpo"),
        ("results", "card", KEPT),
        ("export", "trl", "arxiv-v0", "--agent", "background"),
        ("export", "openenv", "arxiv-v0"),
        ("export", "verifiers", "arxiv-v0"),
    ],
    ids=lambda words: " ".join(map(str, words[:2])),
)
def test_what_took_time_or_was_edited_is_not_overwritten(palaver, arguments):
    folder = Path("taken")
    folder.mkdir()
    for name in ("metrics.jsonl", "README.md", "train.py", "pyproject.toml"):
        (folder / name).write_text("mine")
    ran = palaver(*arguments, "--out", folder)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1), ran.err
    assert {path.read_text() for path in folder.iterdir()} == {"mine"}
    assert len(list(folder.iterdir())) == 4


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("report", KEPT), {"report.html", "curve.png", "episodes.html"}),
        (("report", KEPT, KEPT.with_name("seed-1")), {"comparison.html", "comparison.png"}),
        (
            ("judge", "audit", "scripted:fair", "-n", "4", "--probes", "0", "--repeats", "1", "--timed", "0"),
            {"audit.html"},
        ),
    ],
    ids=["one", "several", "audit"],
)
def test_pages_and_figures_are_replaced_and_other_files_stay(palaver, arguments, names):
    folder = Path("new/folder")
    assert palaver(*arguments, "--out", folder).code == 0
    assert names <= {path.name for path in folder.iterdir()}
    (folder / "notes.txt").write_text("mine")
    for name in names:
        (folder / name).write_text("other")
    assert palaver(*arguments, "--out", folder).code == 0
    assert (folder / "notes.txt").read_text() == "mine"
    assert b"other" not in {(folder / name).read_bytes() for name in names}
