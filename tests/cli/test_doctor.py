from __future__ import annotations

import json

import pytest

from palaver.cli.commands import doctor


def test_this_machine_is_examined(palaver):
    ran = palaver("doctor", "--json")
    found = {row["name"]: row for row in json.loads(ran.out)}
    assert {"Python", "torch", "cores", "disk here", "Palaver's cache", "extra [train]"} <= set(found)
    assert ran.code == (1 if any(row["state"] == "bad" for row in found.values()) else 0)


def test_the_sandbox_is_probed(palaver, monkeypatch):
    from palaver.envs.code.sandbox import view

    def found(*works):
        modes = (("bubblewrap", "no name spaces"), ("landlock", "Landlock 7"))
        return lambda: tuple(view.Ability(mode, mode in works, detail) for mode, detail in modes)

    for works, rows in (
        (("bubblewrap", "landlock"), ["ok used: no name spaces", "ok fallback: Landlock 7"]),
        (("landlock",), ["note not possible", "ok used: Landlock 7"]),
        ((), ["note not possible", "note not possible", "note none"]),
    ):
        monkeypatch.setattr(view, "probe", found(*works))
        told = json.loads(palaver("doctor", "--json").out)
        assert [f"{row['state']} {row['value']}" for row in told if row["name"].startswith("sandbox")] == rows
        assert [row["hint"] for row in told if row["name"] == "sandbox, bubblewrap"] == [
            "" if "bubblewrap" in works else "no name spaces"
        ]


def test_a_missing_library_is_named_with_what_to_do(palaver, monkeypatch):
    real = doctor.util.find_spec
    monkeypatch.setattr(doctor.util, "find_spec", lambda name: None if name in {"torch", "matplotlib"} else real(name))
    ran = palaver("doctor")
    assert ran.code == 1
    assert "pip install 'palaver[train]'" in ran.out
    assert "without torch, matplotlib" in ran.out
    assert "not ready: torch, extra [train]" in ran.out


def test_a_cache_that_cannot_be_written_is_a_fault(tmp_path, monkeypatch):
    def refuse(dir: object) -> None:
        raise PermissionError

    monkeypatch.setenv("PALAVER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    (cache,) = [finding for finding in doctor._caches() if finding.name == "Palaver's cache"]
    assert (cache.value, cache.state) == (str(tmp_path / "cache"), "bad")


@pytest.mark.parametrize(("value", "offline"), [("1", True), ("0", False), ("", False)])
def test_offline_is_told(monkeypatch, value, offline):
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    (hub,) = [finding for finding in doctor._caches() if finding.name == "Hugging Face hub"]
    assert hub.value.startswith("offline") is offline
