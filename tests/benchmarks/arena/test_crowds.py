"""Nets and choosing models in the arena: legal, seeded, batched, and another net is another player."""

from __future__ import annotations

import json

import pytest

from palaver.agents.battle_net import files
from palaver.agents.battle_net.shape import NetSize
from palaver.agents.llm.model.load import save_pretrained
from palaver.agents.make_policy import parse_policy
from palaver.benchmarks.arena.tournament import check, tournament
from palaver.core import CheckpointError, PolicyError
from palaver.trainers.behaviour_cloning.students import layout, vocabulary
from palaver.trainers.matches.config import TournamentConfig
from palaver.trainers.matches.players import identity
from palaver.trainers.matches.results import GAMES
from tests.models import byte_tokenizer, tiny_qwen3

pytestmark = pytest.mark.usefixtures("pool")

KEYWORDS = {"turn_limit": 8}


@pytest.fixture(scope="module")
def student(tmp_path_factory):
    """An untrained net of a few weights."""
    folder = tmp_path_factory.mktemp("student")
    plan = files.NetConfig("gen1ou", NetSize(8, 16, 16, 1, 2, 4), layout(), vocabulary("gen1ou"))
    files.save(folder / "net", plan, files.untrained(plan, 0))
    return folder


def games(folder):
    rows = [json.loads(line) for line in (folder / GAMES).read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row.pop("seconds")
        for share in row["did"]:
            share.pop("ms")
            assert share["illegal"] == 0
    return sorted(rows, key=str)


def test_nets_play(student, tmp_path):
    """The same games whether one or four advance together, and whatever the observation is."""
    players = {"a": f"net:{student}", "b": f"net:{student}@1.5", "random@1": "random@1"}
    for name, parallel, keywords in (
        ("one", 1, KEYWORDS), ("four", 4, KEYWORDS), ("numbers", 4, {**KEYWORDS, "observation": "vector"}),
    ):  # fmt: skip
        tournament(
            TournamentConfig("pokemon-v1", players, keywords, battles=2, seed=3, parallel=parallel), tmp_path / name
        )
    assert games(tmp_path / "one") == games(tmp_path / "four") == games(tmp_path / "numbers")
    assert len(games(tmp_path / "one")) == 6


def test_models_choose(tmp_path):
    save_pretrained(tiny_qwen3(), byte_tokenizer(), tmp_path / "model")
    players = {"reader": f"text:{tmp_path / 'model'}@1", "random@1": "random@1"}
    setting = TournamentConfig("pokemon-v1", players, {"turn_limit": 2}, battles=2, seed=3, parallel=2)
    tournament(setting, tmp_path / "arena")
    assert len(games(tmp_path / "arena")) == 2
    numbers = TournamentConfig("pokemon-v1", players, {"turn_limit": 2, "observation": "vector"}, battles=2, seed=3)
    with pytest.raises(PolicyError, match="observation=text"):
        tournament(numbers, tmp_path / "numbers")


def test_names(student):
    assert parse_policy("net:a/b@0.25") == ("net", "a/b", 0.25)
    assert parse_policy("text:hf:some/model") == ("text", "hf:some/model", 0.0)
    assert parse_policy("net:runs/a@home") == ("net", "runs/a@home", 0.0)
    name = identity(f"net:{student}@1")
    assert name.startswith(f"net:{student}@1#")
    assert len(name.rpartition("#")[2]) == 8
    with pytest.raises(PolicyError, match="empty"):
        parse_policy("net:")


def test_what_is_refused(student, tmp_path):
    with pytest.raises(CheckpointError, match="no battle net"):
        check(TournamentConfig("pokemon-v1", {"a": f"net:{tmp_path}", "b": "random@1"}))
    elsewhere = TournamentConfig(
        "matrix-v1", {"a": f"net:{student}", "b": "legal"}, {"game": "prisoners-dilemma"}, battles=2
    )
    with pytest.raises(PolicyError, match="pokemon-v1 only"):
        tournament(elsewhere, tmp_path / "arena")
