"""`palaver compare` on the demo's kept runs: what it prints and writes, and how it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

KEPT = Path(__file__).parents[2] / "docs" / "runs" / "arxiv-magrpo"


def test_a_table_and_a_figure(palaver, tmp_path):
    ran = palaver("compare", KEPT, "--out", "x.png", "--time", "cpu")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0] == "1 algorithm on arxiv-v0, 3 seeds"
    assert lines[1].split() == ["algorithm", "reward", "improvement", "share", "samples", "CPU", "s", "better"]
    assert lines[2].startswith("magrpo     0.44 → 2.24  +1.79 [")
    assert lines[2].split()[-1] == "yes"
    assert lines[-1] == "x.png"
    assert "Settings that differ" not in ran.out, "one group"
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_markdown_stands_alone_on_stdout(palaver):
    ran = palaver("compare", KEPT / "seed-0", KEPT / "seed-2", "--out", "x.png", "--markdown")
    assert ran.out.startswith("| algorithm | seeds | reward |")
    assert "| magrpo | 2 | " in ran.out
    assert "x.png" not in ran.out
    assert "x.png" in ran.err


def test_kept_runs_show_the_same(palaver, tmp_path):
    first = palaver("compare", KEPT, "--out", "x.png", "--keep", "kept")
    assert "kept 3 runs in kept, " in first.err
    again = palaver("compare", "kept")
    assert again.out.replace(str(tmp_path / "kept" / "compare.png"), "x.png") == first.out
    assert (tmp_path / "kept" / "compare.png").is_file()
    assert palaver("compare", KEPT, "--out", "x.png", "--keep", "kept").code == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "there is no run folder 'nowhere'"),
        (["."], "there is no run in '.'"),
        ([str(KEPT), "--by", "nothing"], "a config has no key 'nothing'"),
        ([str(KEPT), "--out", "x.pdf"], "--out: a file that ends with .png, .svg, .html, got 'x.pdf'"),
        ([str(KEPT), "--metric", "reward/men"], "Did you mean 'reward/mean'"),
        ([str(KEPT), "--window", "0"], "'--window'"),
        ([str(KEPT), "--time", "sun"], "sun"),
    ],
    ids=" ".join,
)
def test_mistakes_are_one_line(palaver, arguments, says, tmp_path):
    ran = palaver("compare", *arguments)
    assert ran.code == 2
    assert says in ran.err
    assert not list(tmp_path.glob("*.png"))
