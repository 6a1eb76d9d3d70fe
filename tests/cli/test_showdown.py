from __future__ import annotations

import json

import pytest

from palaver.envs.pokemon.showdown import install


@pytest.fixture(autouse=True)
def fresh_node():
    install.find_node.cache_clear()
    yield
    install.find_node.cache_clear()


def without_node(monkeypatch, tmp_path):
    monkeypatch.setenv(install.VARIABLE, str(tmp_path / "none"))
    monkeypatch.setenv("PALAVER_CACHE", str(tmp_path))


def test_install_says_where_it_is(palaver, monkeypatch, tmp_path):
    monkeypatch.setenv("PALAVER_CACHE", str(tmp_path))
    inside = install.folder() / "node_modules" / "pokemon-showdown" / "dist" / "sim"
    inside.mkdir(parents=True)
    (inside / "index.js").touch()
    ran = palaver("pokemon", "install")
    assert ran.code == 0
    assert f"pokemon-showdown {install.version()} is in" in ran.out


def test_install_without_node(palaver, monkeypatch, tmp_path):
    without_node(monkeypatch, tmp_path)
    ran = palaver("pokemon", "install")
    assert ran.code == 2
    assert "error: Pokémon battles need Node.js 20 or newer" in ran.err.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []


def test_doctor(palaver, monkeypatch, tmp_path):
    without_node(monkeypatch, tmp_path)
    rows = {row["name"]: row for row in json.loads(palaver("doctor", "--json").out)}
    assert (rows["Node.js"]["value"], rows["Node.js"]["state"]) == ("not found", "note")
    assert rows["Pokémon simulator"]["hint"] == "palaver pokemon install"
