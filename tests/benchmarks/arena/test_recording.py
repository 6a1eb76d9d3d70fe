"""Battles of the arena as trajectories: what is in them, that nothing else changes, and that none is lost or twice."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from palaver.benchmarks.arena.tournament import tournament
from palaver.core import ConfigError
from palaver.envs.pokemon import vector
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.showdown import BattleLostError
from palaver.trainers.matches.config import GameSpec, TournamentConfig
from palaver.trainers.matches.recording import Advice, Names, Observer, Recording
from palaver.trainers.matches.results import GAMES, read_games
from palaver.trainers.trajectories.reader import Reader
from palaver.trainers.trajectories.record import MISSING

pytestmark = pytest.mark.usefixtures("pool")

PLAYERS = {"random@1": "random@1", "power": "max_power@1"}
KEYWORDS = {"turn_limit": 12, "reward": "shaped"}
SETTING = TournamentConfig("pokemon-v1", PLAYERS, KEYWORDS, battles=4, seed=5, parallel=4)


def known(folder):
    """The games of an arena without how long they took."""
    rows = [json.loads(line) for line in (folder / GAMES).read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row.pop("seconds")
        for share in row["did"]:
            share.pop("ms")
    return sorted(rows, key=str)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """An arena of which the battles were recorded, with texts."""
    folder = tmp_path_factory.mktemp("arena")
    tournament(SETTING, folder, recording=Recording(folder / "battles", texts=True))
    return folder


def test_every_decision_is_what_playing_it_again_shows(recorded):
    reader = Reader(recorded / "battles")
    assert len(reader) == 8
    assert {(each.battle, each.side) for each in reader.entries} == {
        (each.battle, side) for each in reader.entries for side in ("p1", "p2")
    }
    both = {each.battle: {} for each in reader.entries}
    for each in reader:
        both[each.battle][each.side] = each
    told, seen = (PokemonEnv(observation=kind, **KEYWORDS) for kind in ("text", "vector"))
    for sides in both.values():
        replay(told, seen, sides)


def replay(told, seen, sides):
    """The battle again in two environments, one with texts, one with vectors, and all that was recorded compared."""
    left = {side: list(each.decisions) for side, each in sides.items()}
    last = dict.fromkeys(sides)
    paid = {side: [] for side in sides}
    one = sides["p1"]
    assert one.seed == sides["p2"].seed
    texts, infos = told.reset(seed=one.seed, options={"task": one.task})
    vectors, _ = seen.reset(seed=one.seed, options={"task": one.task})
    while told.agents:
        actions = {}
        for side in told.agents:
            if infos[side]["can_act"]:
                each = last[side] = left[side].pop(0)
                words, numbers, mask = vector.parse(vectors[side])
                assert each.words == words
                np.testing.assert_allclose(each.numbers, numbers, rtol=1e-4, atol=1e-6)
                assert np.array_equal(each.mask, mask)
                assert each.text == texts[side]
                assert each.legal == tuple(infos[side]["legal_actions"])
                assert each.executed == (vector.slots(told.view(side))[each.slot] if each.slot != MISSING else "")
                assert each.requested == each.executed
                actions[side] = each.executed
                paid[side].append(0.0)
        texts, rewards, _, _, infos = told.step(actions)
        vectors, *_ = seen.step(actions)
        for side, reward in rewards.items():
            paid[side][-1] += reward
    assert left == {"p1": [], "p2": []}
    outcome = infos["p1"]["metrics"]["outcome"]
    assert [sides[side].result for side in ("p1", "p2")] == [(1 + outcome) / 2, (1 - outcome) / 2]
    for side, each in sides.items():
        assert [d.reward for d in each.decisions] == pytest.approx(paid[side])
    assert any(any(rewards) for rewards in paid.values())


def test_who_played_whom_is_told(recorded):
    entries = Reader(recorded / "battles").entries
    played = {each.game.match: each.task for each in read_games(recorded / GAMES)}
    assert {(each.player, each.opponent) for each in entries} == {("random@1", "power"), ("power", "random@1")}
    assert {each.teamset for each in entries} == {"sample"}
    assert {each.format for each in entries} == {"gen1ou"}
    assert {each.task for each in entries} == set(played.values())
    for one, two in zip(entries[::2], entries[1::2], strict=True):
        assert (one.battle, one.player, one.result) == (two.battle, two.opponent, 1 - two.result)


def test_recording_changes_nothing_of_the_games(recorded, tmp_path):
    tournament(SETTING, tmp_path)
    assert known(tmp_path) == known(recorded)


def test_a_game_is_played_again_where_its_battle_or_its_line_is_missing(recorded, tmp_path):
    folder = tmp_path / "arena"
    shutil.copytree(recorded, folder)
    battles, games = folder / "battles" / "000.jsonl", folder / GAMES
    whole, lines = battles.read_text(encoding="utf-8"), games.read_text(encoding="utf-8")
    wanted = known(folder)
    battles.write_text("".join(whole.splitlines(keepends=True)[:-1]), encoding="utf-8")  # the last battle is lost
    games.write_text("".join(lines.splitlines(keepends=True)[1:]), encoding="utf-8")  # and the first game
    again = []
    tournament(SETTING, folder, resume=True, report=again.append, recording=Recording(folder / "battles", texts=True))
    assert len(again) == 2
    assert battles.read_text(encoding="utf-8") == whole
    assert read_games(games)[-1].score == read_games(recorded / GAMES)[0].score
    assert {json.dumps(each) for each in known(folder)} == {json.dumps(each) for each in wanted}
    tournament(SETTING, folder, resume=True, report=again.append, recording=Recording(folder / "battles", texts=True))
    assert len(again) == 2


def test_a_coach_is_asked_beside_the_players(recorded, tmp_path):
    """typed@1 says what it would do at about half of random@1's decisions; the battles stay the same."""
    asked = Advice("typed@1", ("random@1",), 0.5)
    tournament(SETTING, tmp_path, recording=Recording(tmp_path / "battles", advice=asked))
    assert known(tmp_path) == known(recorded)
    decisions = {"random@1": [], "power": []}
    for each in Reader(tmp_path / "battles"):
        decisions[each.player] += each.decisions
    assert not any(each.advice is not None for each in decisions["power"])
    given = [each for each in decisions["random@1"] if each.advice is not None]
    assert 0.3 < len(given) / len(decisions["random@1"]) < 0.7
    assert all(each.advice.sum() == 1 and each.mask[each.advice.argmax()] for each in given)
    assert any(each.advice.argmax() != each.slot for each in given)
    again = Recording(tmp_path / "again", advice=replace(asked, share=1.0, labels=("power",)))
    tournament(SETTING, tmp_path / "arena", recording=again)
    own = [each for found in Reader(tmp_path / "again") if found.player == "power" for each in found.decisions]
    assert all(each.advice is not None or each.slot == MISSING for each in own)


@pytest.mark.slow
def test_several_processes_record_into_one_folder(recorded, tmp_path):
    tournament(SETTING, tmp_path, jobs=2, recording=Recording(tmp_path / "battles", texts=True))
    one, other = Reader(recorded / "battles"), Reader(tmp_path / "battles")
    assert len(list((tmp_path / "battles").glob("*.blocks"))) == 2
    by_name = {(each.battle, each.side): each.decisions for each in other.entries}
    assert by_name == {(each.battle, each.side): each.decisions for each in one.entries}


def test_a_name_tells_settings_players_and_game():
    game = GameSpec("", "random@1", "power", 3, True)
    names = {
        Names(SETTING).of(game),
        Names(SETTING).of(game._replace(match=4)),
        Names(SETTING).of(game._replace(swapped=False)),
        Names(SETTING).of(game._replace(teamset="sample:train")),
        Names(TournamentConfig("pokemon-v1", PLAYERS, KEYWORDS, seed=6)).of(game),
        Names(TournamentConfig("pokemon-v1", PLAYERS, {}, seed=5)).of(game),
        Names(TournamentConfig("pokemon-v1", {**PLAYERS, "power": "typed@1"}, KEYWORDS, seed=5)).of(game),
    }
    assert len(names) == 7
    assert Names(TournamentConfig("pokemon-v1", PLAYERS, KEYWORDS, battles=400, seed=5, parallel=1)).of(game) in names
    assert all(name.startswith("random@1-power-") for name in names)


def test_failed_battles_are_not_recorded(tmp_path, monkeypatch):
    honest = PokemonEnv.transition

    def crash(self, actions):
        if self.task.id == "sample-12 v sample-00" and self.battle.turn > 3:
            self.battle.lost = "the simulator is gone"
        return honest(self, actions)

    monkeypatch.setattr(PokemonEnv, "transition", crash)
    told = []
    recording = Recording(tmp_path / "battles")
    tournament(SETTING, tmp_path, report=told.append, recording=recording)
    sound = [each for each in told if not each.failed]
    assert [each.game.match for each in told if each.failed] == [0, 0]
    assert len(sound) == 2
    assert len(Reader(recording.folder)) == 2 * len(sound)
    assert not any(each.text for side in Reader(recording.folder) for each in side.decisions)


def test_what_a_player_said_is_kept_when_another_action_was_played(tmp_path):
    env = PokemonEnv(turn_limit=2, penalty=0.25)
    observer = Observer(env)
    texts, infos = env.reset(seed=0)
    while env.agents:
        observer.before(texts)
        texts, rewards, _, _, infos = env.step({"p1": "sing a song " * 40, "p2": "2"})
        observer.after(rewards, infos)
    for each in observer.decisions("p1"):
        assert each.requested == ("sing a song " * 40)[:200]
        assert each.executed in each.legal, "drawn, for the answer named none"
        assert each.reward == -0.25
    assert {each.executed == each.legal[1] for each in observer.decisions("p2")} == {True}


def test_what_cannot_be_recorded_is_refused_before_any_game(tmp_path):
    other = TournamentConfig(
        "matrix-v1", {"legal": "legal", "first": "first"}, {"game": "prisoners-dilemma"}, battles=2
    )
    with pytest.raises(ConfigError, match="only battles of pokemon-v1"):
        tournament(other, tmp_path / "a", recording=Recording(tmp_path / "b"))
    vectors = TournamentConfig("pokemon-v1", PLAYERS, {"observation": "vector"}, battles=2)
    with pytest.raises(ConfigError, match=r"leave tournament\.record_text=true out"):
        tournament(vectors, tmp_path / "a", recording=Recording(tmp_path / "b", texts=True))
    assert not list(tmp_path.iterdir())


def test_a_battle_that_is_lost_while_it_is_looked_at_ends_in_its_step(monkeypatch):
    def gone(self, agent):
        raise BattleLostError("the simulator is gone")

    env = PokemonEnv(turn_limit=2)
    observer = Observer(env)
    texts, infos = env.reset(seed=0)
    monkeypatch.setattr(PokemonEnv, "view", gone)
    observer.before(texts)
    observer.after({"p1": 1.0, "p2": -1.0}, infos)
    assert observer.decisions("p1") == observer.decisions("p2") == ()
    env.close()
