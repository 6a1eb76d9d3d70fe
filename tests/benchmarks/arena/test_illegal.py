"""Illegal play never beats legal play: words, silence and hostile texts against legal moves at random."""

from __future__ import annotations

import pytest

import palaver
from palaver.envs.base.transcripts import HOSTILE
from palaver.trainers.matches import workers as pool
from palaver.trainers.matches.config import TournamentConfig
from palaver.trainers.matches.standings import standings

COMPETITIVE = [id for id, spec in palaver.specs().items() if spec.competitive]
UNIFORM = {"pokemon-v1": "random@1", "matrix-v1": "legal"}  # legal moves, all equally likely
KEYWORDS = {"matrix-v1": {"game": "prisoners-dilemma", "repeats": 3}}
NONSENSE = {
    "words": "random",
    "silence": "lazy",
    "hostile": f"scripted:{__name__}:hostile",
}


def hostile(_conversation, seed):
    """A hostile text, without the one that holds the word `right`, which is the name of an action of some games."""
    texts = [text for text in HOSTILE if isinstance(text, str) and "right to left" not in text]
    return texts[seed % len(texts)]


def played(id, others, games, **keywords):
    """The arena of a player of legal moves at random with others; its table."""
    players = {"uniform": UNIFORM[id], **others}
    setting = TournamentConfig(id, players, KEYWORDS.get(id, {}) | keywords, battles=games, seed=15, agent="uniform")
    found = pool.run(setting, setting.games(), None)
    assert not any(each.failed for each in found)
    return standings(found, list(players), "uniform").tables[0]


@pytest.fixture(autouse=True)
def _simulator(request):
    """Skips battles where the simulator is missing."""
    if request.node.callspec.params["id"] == "pokemon-v1":
        request.getfixturevalue("pool")


@pytest.mark.parametrize("games", [10, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("id", COMPETITIVE)
def test_nonsense_does_not_beat_legal_moves_at_random(id, games):
    table = played(id, NONSENSE, games)
    for name in NONSENSE:
        cell, conduct = table.cells[name, "uniform"], table.conduct[name]
        assert cell.games == games
        assert cell.score <= 0.5
        assert conduct.illegal == 1.0, "every answer is counted"
        assert cell.wins == 0, "who answers illegally throughout forfeits, or loses by the count"
    assert table.conduct["uniform"].illegal == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("id", ["pokemon-v1"])
def test_what_is_drawn_for_nonsense_plays_as_legal_moves_at_random(id):
    """Without the forfeit 200 of 400 are expected, with a standard deviation of 10."""
    table = played(id, {"words": "random"}, 400, forfeit=0)
    cell = table.cells["words", "uniform"]
    assert abs(cell.wins + cell.ties / 2 - 200) <= 40
