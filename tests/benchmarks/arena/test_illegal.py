"""Illegal play never beats legal play: words, silence and hostile texts against legal moves at random.

Of the competitive environments those with legal moves, which ship a player that draws one. In the negotiations
(trust-and-split, deal or no deal, a price) any message is legal, so there is nothing to draw, and nonsense is not
illegal throughout; a test holds that the ones left out list no legal actions.
"""

from __future__ import annotations

import re

import pytest

import palaver
from palaver.envs.base.transcripts import HOSTILE
from palaver.trainers.matches import workers as pool
from palaver.trainers.matches.config import TournamentConfig
from palaver.trainers.matches.standings import standings

RIVALS = [id for id, spec in palaver.specs().items() if spec.competitive]
COMPETITIVE = [id for id in RIVALS if "uniform" in palaver.spec(id).scripted]
UNIFORM = {"pokemon-v1": "random@1"}  # legal moves, all equally likely; elsewhere the player `legal`
KEYWORDS = {"matrix-v1": {"game": "prisoners-dilemma", "repeats": 3}}
NONSENSE = {
    "words": "random",
    "silence": "lazy",
    "hostile": f"scripted:{__name__}:hostile",
}


def hostile(conversation, seed):
    """A hostile text, without those that hold a legal action.

    `right` is the name of an action of some games, and `{{7*7}}` holds a number where actions are numbers.
    """
    numbered = any(re.search(r"^Actions: \d", message.content or "", re.MULTILINE) for message in conversation)
    held = ("right to left", "{{7*7}}") if numbered else ("right to left",)
    texts = [text for text in HOSTILE if isinstance(text, str) and not any(part in text for part in held)]
    return texts[seed % len(texts)]


def played(id, others, games, **keywords):
    """The arena of a player of legal moves at random with others; its table."""
    players = {"uniform": UNIFORM.get(id, "legal"), **others}
    setting = TournamentConfig(id, players, KEYWORDS.get(id, {}) | keywords, battles=games, seed=15, agent="uniform")
    found = pool.run(setting, setting.games(), None)
    assert not any(each.failed for each in found)
    return standings(found, list(players), "uniform").tables[0]


@pytest.fixture(autouse=True)
def _simulator(request):
    """Skips battles where the simulator is missing."""
    if request.node.callspec.params["id"] == "pokemon-v1":
        request.getfixturevalue("pool")


@pytest.mark.parametrize("id", sorted({*RIVALS} - {*COMPETITIVE}))
def test_those_left_out_have_no_legal_moves(id):
    env = palaver.make(id)
    assert not env.zero_sum
    _, infos = env.reset(seed=0)
    assert not any("legal_actions" in info for info in infos.values())


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
