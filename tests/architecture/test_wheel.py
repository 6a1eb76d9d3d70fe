"""A wheel holds the wings, their data files and the type marker, and works from where it is put."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.architecture.running import run
from tests.architecture.source import ROOT, WINGS, files, module

pytestmark = pytest.mark.slow
DATA = {".pyi", ".yaml", ".jsonl", ".json", ".j2", ".css", ".js", ".txt", ".jinja", ".safetensors"}
INGREDIENTS = ("palaver", *WINGS, "pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in INGREDIENTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy / name)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", out, copy]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("palaver-*.whl")
    return built


def test_contents(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    expected = {module(path).replace(".", "/") + ".py" for path in files() if path.name != "__init__.py"}
    expected |= {module(path).replace(".", "/") + "/__init__.py" for path in files() if path.name == "__init__.py"}
    for wing in WINGS:
        expected |= {f"palaver/{path.relative_to(ROOT)}" for path in (ROOT / wing).rglob("*") if path.suffix in DATA}
    assert expected - inside == set()
    assert "palaver/py.typed" in inside
    assert any(name.endswith("licenses/LICENSE") for name in inside)
    tops = {name.split("/")[0] for name in inside}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"palaver"}


def test_it_works_installed_elsewhere(wheel, tmp_path):
    target = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(target)
    code = (
        "import palaver; from palaver.utils.config import recipes; from importlib import resources;"
        "[palaver.make(i).reset(seed=0) for i in palaver.specs()];"
        "print(palaver.__file__, len(recipes('run')), resources.files('palaver').joinpath('py.typed').is_file())"
    )
    shipped = len(list((ROOT / "trainers" / "recipes").glob("*.yaml")))
    assert run("-c", code, cwd=tmp_path, path=target).split() == [
        str(target / "palaver" / "__init__.py"), str(shipped), "True",
    ]  # fmt: skip
