"""Every Python block of the documentation runs, as a script and as an import, with few processes."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.architecture.source import ROOT
from tests.docs.blocks import NOT_RUN, PAGES, fences, module, python
from tests.docs.watch import MOST, alive, watched

OWN = ROOT / "docs" / "own-environment.md"
WITH_PYTHON = [page for page in PAGES if python(page)]
QUICK = ("own-environment.md", "sandbox.md")  # the others load torch or play for seconds


def _reward_model(folder: Path) -> None:
    from palaver.agents.reward_models.model import fresh, save
    from tests.models import byte_tokenizer, tiny_qwen3

    base = folder.with_name("base")
    tiny_qwen3().save_pretrained(base)
    byte_tokenizer().save_pretrained(base)
    save(fresh(str(base), "cpu", "auto", 64, 0), folder)


def _battles(folder: Path) -> None:
    from palaver.trainers.trajectories.files import Writer
    from tests.trainers.battles.made import trajectory

    with Writer(folder) as writer:
        writer.add(trajectory(1, "p1", player="max_power@1", result=1.0), trajectory(1, "p2", result=0.0))


FILES = {"runs/mine/reward-model": _reward_model, "battles/first": _battles}


def run(page: Path, code: str, folder: Path, *arguments: str, most: int):
    """Run the module `page_NAME` of this text by `python ARGUMENTS`."""
    name = f"page_{page.stem.replace('-', '_').lower()}"
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *(argument.format(name=name) for argument in arguments)]
    return watched(command, folder, env, most=most)


@pytest.mark.parametrize("arguments", [("{name}.py",), ("-c", "import {name}")], ids=["script", "import"])
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[] if page.name in QUICK else pytest.mark.slow)
        for page in WITH_PYTHON
        if module(page)
    ],
)
def test_the_python_of_a_page_runs(page, arguments, tmp_path, request):
    needs = {name for block in python(page) if block.runs for name in block.needs}
    if "showdown" in needs:
        request.getfixturevalue("pool")
    for name in needs - {"showdown"}:
        FILES[name](tmp_path / name)
    most = max(block.processes or MOST for block in python(page))
    found = run(page, module(page), tmp_path, *arguments, most=most)
    assert (found.fault, found.code) == ("", 0), found.out


def test_a_page_without_its_guard_multiplies_nothing(tmp_path):
    code = module(OWN).replace('if __name__ == "__main__":\n    check(Animals)', "check(Animals)")
    assert code != module(OWN)
    found = run(OWN, code, tmp_path, "-c", "import {name}", most=MOST)
    assert (found.fault, found.code) == ("", 0), found.out
    assert found.most == 2  # the process that imports, and one child


def test_what_multiplies_is_noticed_and_ended(tmp_path):
    code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import {name}'])\n"
    found = run(OWN, code.format(name="page_own_environment"), tmp_path, "-c", "import {name}", most=MOST)
    assert found.code is None
    assert re.match(r"\d+ processes at a time, at most 4", found.fault)


def test_what_stays_behind_is_noticed_and_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.docs.watch._GRACE_S", 0.5)
    lost = "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
    code = f"{lost} start_new_session=True); time.sleep(0.5)"
    found = run(OWN, code, tmp_path, "{name}.py", most=MOST)
    assert (found.code, found.most) == (0, 2)
    assert found.fault.startswith("left behind: [")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals the death of a parent")
def test_a_watched_command_is_killed_with_the_tests(tmp_path):
    """The caller is killed, and can end nothing itself."""
    command = "import os, time, pathlib; pathlib.Path('pid').write_text(f'{os.getpid()} '); time.sleep(600)"
    code = f"""import os, sys
from pathlib import Path
from tests.docs.watch import watched
watched([sys.executable, "-c", {command!r}], Path.cwd(), os.environ)
"""
    pid = tmp_path / "pid"
    tests = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        until = time.monotonic() + 120
        while not (pid.exists() and pid.read_text().endswith(" ")) and time.monotonic() < until:
            assert tests.poll() is None
            time.sleep(0.02)
        below = psutil.Process(int(pid.read_text()))
    finally:
        tests.kill()
        tests.wait(60)
    try:
        until = time.monotonic() + 30
        while alive(below) and time.monotonic() < until:
            time.sleep(0.02)
        assert not alive(below)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            below.kill()


def test_every_block_of_python_is_marked_as_such():
    for page in PAGES:
        for block in fences(page):
            where = f"{page.relative_to(ROOT)}: {block.code[:60]!r}"
            assert block.info == "python" or not block.info.lower().lstrip("{").startswith("py"), where
            assert ">>> " not in block.code, f"examples with prompts belong into docstrings: {where}"
            assert block.info == "python" or not _imports(block.code), where
            assert set(block.needs) <= {*NOT_RUN, "showdown", *FILES}, where


def _imports(code: str) -> bool:
    try:
        return any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.parse(code).body)
    except SyntaxError:
        return False


def test_the_numbers_of_the_contributors_page():
    blocks = [block for page in WITH_PYTHON for block in python(page)]
    n = Counter(name if name in (*NOT_RUN, "showdown") else "files" for block in blocks for name in block.needs)
    more = [block for block in blocks if block.processes]
    said = " ".join((ROOT / "docs" / "README.md").read_text(encoding="utf-8").split())
    assert (
        f"There are {len(blocks)} Python blocks on {len(WITH_PYTHON)} pages. {n['network']} need a network, {n['gpu']} "
        f"a GPU and {n['key']} a key; {n['showdown']} needs the simulator, {n['files']} need files, {len(more)} may "
        f"have more than {MOST} processes."
    ) in said
    assert [(block.page.name, block.processes) for block in more] == [("sandbox.md", 7)]
