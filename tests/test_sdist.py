"""The sdist holds what git tracks, installs, and runs its own tests; its page renders on a package index."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from email import message_from_bytes
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, WINGS
from tests.installed import wheel_of

pytestmark = pytest.mark.slow
MADE = {"PKG-INFO", "setup.cfg"}
NOT_COPIED = {".git", ".venv", ".hypothesis", "build", "dist", "runs", "site", "wandb"}
URL = "https://example.org/palaver"
SUBSET = ("tests/test_core.py", "tests/test_registry.py", "tests/envs/test_golden.py", "tests/docs/test_licences.py")


def not_copied(folder, names):
    ours = {name for name in names if name == "__pycache__" or name.endswith(("_cache", ".egg-info"))}
    return ours | (NOT_COPIED & set(names) if folder == str(ROOT) else set())


def built(out, url=""):
    """Build the sdist of a copy of the project with its own backend, without a network."""
    shutil.copytree(ROOT, out / "source", symlinks=True, ignore=not_copied)
    code = "import sys, setuptools.build_meta as backend; print(backend.build_sdist(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(out)], cwd=out / "source", env=os.environ | {"PALAVER_URL": url},
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    return built(tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def unpacked(sdist, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return folder / sdist.name.removesuffix(".tar.gz")


def page(sdist):
    with tarfile.open(sdist) as archive:
        about = archive.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/PKG-INFO")
        return message_from_bytes(about.read())


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout")
def test_it_holds_what_git_tracks(unpacked):
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, capture_output=True, text=True, timeout=60, check=True)
    tracked = {name for name in done.stdout.split("\0") if name and os.path.lexists(ROOT / name)}
    inside = {
        str(path.relative_to(unpacked))
        for folder, folders, names in os.walk(unpacked)
        for path in (Path(folder, name) for name in (*names, *folders))
        if path.is_symlink() or path.is_file()
    }
    assert {name for name in inside - tracked if not name.startswith("palaver.egg-info/")} == MADE
    assert tracked - inside == set()


def test_the_wings_are_links(unpacked):
    assert {wing: os.readlink(unpacked / "palaver" / wing) for wing in WINGS} == {w: f"../{w}" for w in WINGS}


def test_its_tests_run_in_it(unpacked):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "PYTEST_"))}
    check = "import palaver; print(palaver.__file__)"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *SUBSET]
    env |= {"PYTHONPATH": str(unpacked)}
    where = subprocess.run(
        [sys.executable, "-c", check], cwd=unpacked, env=env, capture_output=True, text=True, timeout=60
    )
    assert where.stdout.strip() == str(unpacked / "palaver" / "__init__.py")
    done = subprocess.run(command, cwd=unpacked, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"\.{3,}", done.stdout)
    if shutil.which("make"):
        shown = subprocess.run(["make", "-C", str(unpacked), "help"], capture_output=True, text=True, timeout=60)
        assert "make test " in shown.stdout


def test_a_wheel_is_built_from_it(unpacked, tmp_path):
    assert wheel_of(unpacked, tmp_path).stat().st_size > 1_000_000


def test_without_an_address_no_link_is_relative(sdist):
    text = page(sdist).get_payload()
    assert "Palaver trains teams" in text
    assert [path for path in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in path] == []
    assert page(sdist).get_all("Project-URL") is None


def test_with_an_address_links_are_absolute_and_lead_to_files(tmp_path):
    about = page(built(tmp_path, URL))
    paths = re.findall(rf"\]\({URL}/(blob|raw)/main/([^)\s#]+)", about.get_payload())
    assert len(paths) > 30
    assert {kind for kind, path in paths if path.endswith(".png")} == {"raw"}
    assert [path for _, path in paths if not (ROOT / path).exists()] == []
    assert f"Repository, {URL}" in about.get_all("Project-URL")


def test_a_package_index_renders_it(sdist):
    pytest.importorskip("twine")
    check = [sys.executable, "-m", "twine", "check", "--strict", str(sdist)]
    done = subprocess.run(check, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_metadata(sdist):
    about = page(sdist)
    for name in ("Name", "Version", "Summary", "Author", "License-Expression", "License-File", "Keywords"):
        assert about[name], name
    assert len(about.get_all("Classifier")) >= 8
    assert about["Description-Content-Type"] == "text/markdown"
