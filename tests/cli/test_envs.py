from __future__ import annotations

import json
from pathlib import Path

import palaver as package


def test_the_table_has_every_environment(palaver):
    ran = palaver("envs")
    assert ran.code == 0
    for id, spec in package.specs().items():
        (row,) = [line for line in ran.out.splitlines() if line.startswith(f"{id} ")]
        assert ", ".join(spec.agents) in row
        assert f" {spec.turns} " in row


def test_json_is_the_specs(palaver):
    rows = {row["id"]: row for row in json.loads(palaver("envs", "--json").out)}
    assert set(rows) == set(package.specs())
    assert rows["arxiv-v0"]["agents"] == ["background", "method"]
    assert rows["arxiv-v0"]["max_reward"] == 3.0


def test_the_docs_name_the_fields(palaver):
    text = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
    one, *others = json.loads(palaver("envs", "arxiv-v0", "--json").out), *json.loads(palaver("envs", "--json").out)
    assert f"The JSON of one environment has `{' '.join(one)}`" in text
    missing = [f"`{name}`" for name in one if name not in others[0]]
    assert f"a list without {', '.join(missing[:-1])} and {missing[-1]}" in " ".join(text.split())


def test_a_page_shows_keywords_with_their_defaults(palaver):
    ran = palaver("envs", "arxiv-v0")
    (row,) = [line for line in ran.out.splitlines() if line.startswith("length ")]
    assert row.split()[1:3] == ["[128,", "256]"]
    assert "scripted:reference" in ran.out
    about = json.loads(palaver("envs", "arxiv-v0", "--json").out)
    assert about["keywords"]["length"]["default"] == [128, 256]
    assert about["keywords"]["match"]["default"] == "substring"


def test_an_unknown_environment_is_a_mistake(palaver):
    ran = palaver("envs", "arxive-v0")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: there is no environment 'arxive-v0'. Did you mean 'arxiv-v0'?\n"
