"""Language models meet others in the arena: by folder, and from a run."""

from __future__ import annotations

import pytest

from palaver.agents.llm.model.load import save_pretrained
from palaver.benchmarks.arena.tournament import tournament
from palaver.core import Sampling
from palaver.trainers.config.loading import parse
from palaver.trainers.matches.config import TournamentConfig
from palaver.trainers.train import train
from tests.models import byte_tokenizer, tiny_qwen3

DILEMMA = {"game": "prisoners-dilemma", "repeats": 2}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("model")
    save_pretrained(tiny_qwen3(), byte_tokenizer(), folder)
    return str(folder)


def played(setting: TournamentConfig, folder) -> dict[str, float]:
    """Player -> its score, over all games."""
    standings, _ = tournament(setting, folder)
    assert not standings.failed
    (table,) = standings.tables
    return {player: row.score for player, row in table.conduct.items()}


def setting(env: str, players: dict[str, str], keywords: dict) -> TournamentConfig:
    return TournamentConfig(env, players, keywords, battles=4, seed=3, parallel=4, sampling=Sampling(max_tokens=8))


def test_a_model_meets_a_player_of_a_matrix_game(model, tmp_path):
    scores = played(setting("matrix-v1", {"model": f"hf:{model}", "last": "last"}, DILEMMA), tmp_path)
    assert scores["last"] >= 0.5  # who defects is never paid less than the other
    assert scores["last"] + scores["model"] == pytest.approx(1)


@pytest.mark.usefixtures("pool")
def test_a_model_meets_a_heuristic_in_battle(model, tmp_path):
    players = {"model": f"hf:{model}", "typed@1": "typed@1"}
    scores = played(setting("pokemon-v1", players, {"turn_limit": 3}), tmp_path)
    assert scores["typed@1"] + scores["model"] == pytest.approx(1)


def test_a_team_of_a_run_meets_a_player(model, tmp_path):
    values = {
        "env": {"id": "matrix-v1", **DILEMMA}, "policy": {"model": model, "max_tokens": 4}, "eval": {"n": 0},
        "algorithm": {"group_size": 2}, "log": {"tensorboard": False, "episodes": False}, "train": {"steps": 1},
        "device": "cpu",
    }  # fmt: skip
    run = train(parse(values), tmp_path / "run")
    scores = played(setting("matrix-v1", {"run": f"run:{run}", "last": "last"}, DILEMMA), tmp_path / "arena")
    assert scores["last"] >= 0.5
