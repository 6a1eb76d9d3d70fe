"""A wheel holds the wings, their data files and the type marker, and works from where it is put."""

from __future__ import annotations

import zipfile

import pytest

from tests.architecture.running import run
from tests.architecture.source import ROOT, WINGS, files, module
from tests.installed import wheel_of

pytestmark = pytest.mark.slow
DATA = {".pyi", ".yaml", ".jsonl", ".json", ".j2", ".css", ".js", ".txt", ".jinja", ".safetensors"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return wheel_of(ROOT, tmp_path_factory.mktemp("wheel"))


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
