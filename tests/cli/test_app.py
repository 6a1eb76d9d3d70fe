from __future__ import annotations

import subprocess
import sys

import pytest

import palaver as package
from palaver.cli.app import LazyCommands, summary
from palaver.cli.commands import envs
from palaver.core import PalaverError

COMMANDS = ("envs", "play", "train", "evaluate", "report", "compare", "doctor")


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("arguments", [["--help"], ["envs"], ["envs", "arxiv-v0"], ["train"]])
def test_listing_loads_no_heavy_library(arguments):
    done = python(
        "import sys\nfrom palaver.cli import main\n"
        f"try: main({arguments!r})\nexcept SystemExit as end: assert not end.code\n"
        "heavy = {'torch', 'transformers', 'matplotlib', 'scipy', 'datasets'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    assert done.returncode == 0, done.stderr


def test_python_m_palaver_is_the_command():
    done = subprocess.run([sys.executable, "-m", "palaver", "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"palaver {package.__version__}\n"


def test_help_names_every_command(palaver):
    ran = palaver("--help")
    assert ran.code == 0
    assert all(f" {name} " in ran.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(palaver, name):
    ran = palaver(name, "--help")
    assert ran.code == 0
    assert name == "doctor" or f"palaver {name} " in ran.out.replace("Usage: palaver", "")


def test_a_wrong_option_is_a_mistake_too(palaver):
    assert palaver("envs", "--jsn").code == 2
    assert palaver("nonsense").code == 2


def test_a_mistake_is_one_line_without_terminal_codes(palaver, monkeypatch):
    def broken(id: str) -> None:
        raise PalaverError(f"bad\nthing [bold]{id}[/bold] \x1b[31m" + "x" * 300)

    monkeypatch.setattr(envs, "spec", broken)
    ran = palaver("envs", "x")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: bad thing [bold]x[/bold] \u241b[31m" + "x" * 300 + "\n"


def test_ctrl_c_is_130_and_says_so(palaver, monkeypatch):
    def pressed() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(envs, "specs", pressed)
    ran = palaver("envs")
    assert (ran.code, ran.err) == (130, "error: interrupted\n")


def test_a_defect_keeps_its_traceback():
    done = python(
        "from palaver.cli import main\nfrom palaver.cli.commands import envs\n"
        "def broken(): raise ZeroDivisionError('ours')\n"
        "envs.specs = broken\nmain(['envs'])"
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "ZeroDivisionError: ours" in done.stderr


def test_the_list_of_commands_imports_none_of_them():
    done = python(
        "import sys\nfrom palaver.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "loaded = [name for name in sys.modules if name.startswith(('palaver.cli.commands.', 'palaver.cli.groups.'))]\n"
        "assert not loaded, loaded"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", list(LazyCommands()))
def test_a_summary_is_the_first_line_of_the_help(name):
    command = LazyCommands()[name]
    assert command.help.splitlines()[0] == summary(name) != ""
