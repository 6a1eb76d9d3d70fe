"""A net as files and as a player: what is saved comes back, what is damaged is named, what is illegal is not chosen."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import torch

from palaver.agents.battle_net import files
from palaver.agents.battle_net.player import NetPlayer, TurnFeatures
from palaver.core import CheckpointError, PolicyError
from tests.agents.battle_net.nets import PLAN, net, turns


def asked(game, seed, mask):
    words, numbers = turns(1, 1, seed)
    return TurnFeatures(game, [PLAN.vocabulary.words[n] for n in words[0, 0].tolist()], numbers[0, 0].tolist(), mask)


@pytest.fixture
def saved(tmp_path):
    files.save(tmp_path / "net", PLAN, net(seed=3))
    return tmp_path


def test_saved_and_loaded(saved):
    for folder in (saved, saved / "net"):
        plan, made = files.load(folder)
        assert plan == PLAN
        assert all(torch.equal(a, b) for a, b in zip(made.parameters(), net(seed=3).parameters(), strict=True))
    assert files.identity(saved) == files.identity(saved / "net")
    before = files.identity(saved)
    files.save(saved / "net", PLAN, net(seed=4))
    assert files.identity(saved) != before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("net.safetensors", "hello"), ("net.json", "hello"), ("net.json", "[]"), ("net.json", '{"version": 1}'),
        ("net.json", '{"version": 2}'),
    ],
)  # fmt: skip
def test_damaged_files(saved, name, text):
    (saved / "net" / name).write_text(text)
    with pytest.raises(CheckpointError, match="net"):
        files.load(saved)


def test_unknown_value_and_missing_net(saved, tmp_path):
    path = saved / "net" / files.CONFIG_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"reply": "luck"}))
    with pytest.raises(CheckpointError, match="luck"):
        files.load(saved)
    with pytest.raises(CheckpointError, match="palaver pokemon clone"):
        files.load(tmp_path / "nowhere")


def test_only_legal_slots_are_chosen(saved):
    for heat in (0.0, 1.0, 50.0):
        player = NetPlayer.load(saved, heat)
        game = player.begin(1)
        for n in range(14):
            mask = [slot in (n, (n + 5) % 14) for slot in range(14)]
            assert mask[player.decide([asked(game, n, mask)])[0]]
        assert game.recall.turns == 14


def test_a_game_does_not_depend_on_its_company(saved):
    player = NetPlayer.load(saved, 1.0)
    every = [True] * 14
    alone, beside, other = player.begin(7), player.begin(7), player.begin(8)
    apart = [player.decide([asked(alone, n, every)])[0] for n in range(12)]
    together = [player.decide([asked(other, 50 + n, every), asked(beside, n, every)])[1] for n in range(12)]
    assert apart == together


def test_draws_follow_the_softmax(saved):
    """2,000 draws of one turn at temperature 2 against softmax(scores / 2), within five standard errors."""
    player = NetPlayer.load(saved, 2.0)
    words, numbers = turns(1, 1, 5)
    with torch.no_grad():
        chances = (player.net(words, numbers)[0][0, 0, :3] / 2).softmax(0).tolist()
    mask = [slot < 3 for slot in range(14)]
    drawn = Counter(
        slot
        for n in range(20)
        for slot in player.decide([asked(player.begin(n * 100 + k), 5, mask) for k in range(100)])
    )
    for slot, chance in enumerate(chances):
        assert abs(drawn[slot] / 2000 - chance) < 5 * (chance * (1 - chance) / 2000) ** 0.5


def test_other_observations_are_refused(saved):
    player = NetPlayer.load(saved)
    good = asked(player.begin(0), 0, [True] * 14)
    for bad in (
        TurnFeatures(good.game, good.words[1:], good.numbers, good.mask),
        TurnFeatures(good.game, good.words, good.numbers[1:], good.mask),
        TurnFeatures(good.game, good.words, good.numbers, [False] * 14),
    ):
        with pytest.raises(PolicyError, match="another version"):
            player.decide([good, bad])
    assert good.game.recall.turns == 0
