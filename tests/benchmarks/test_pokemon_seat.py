"""Players of ours in battles on a server: what they are told is what they would be told in the embedded simulator."""

from __future__ import annotations

import json
import random
from importlib import util

import pytest

from palaver.agents.battle_net import files
from palaver.agents.battle_net.shape import size
from palaver.agents.llm.model.options import ModelOptions
from palaver.benchmarks.showdown_ladder.ladder import Match, poke_env_player, run
from palaver.benchmarks.showdown_ladder.player import ServerSide, decider
from palaver.core import CheckpointError, ConfigError, PolicyError, Sampling
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.showdown import SIDES, Setup, ShowdownError
from palaver.trainers.behaviour_cloning.students import layout, vocabulary
from palaver.trainers.matches import players as crowds

needs_poke_env = pytest.mark.skipif(not util.find_spec("poke_env"), reason="poke-env is not installed")


@pytest.mark.parametrize("format", ["gen1randombattle", "gen9randombattle"])
def test_a_side_on_a_server_knows_what_it_knows_in_the_embedded_simulator(pool, format):
    [battle] = pool.start([Setup(format, 3)])
    pool.request([["watch", side, side, format] for side in SIDES])
    draw, sent, compared = random.Random(3), dict.fromkeys(SIDES, 0), 0
    while not battle.ended and battle.turn < 60:
        for side in SIDES:
            log, request = battle.log(side), json.loads(pool.request_battle(battle, "request", side))
            told = pool.request([["hear", side, ["|j|someone", *log[sent[side] :]], request]])[0]
            sent[side] = len(log)
            if battle.views[side]["legal"]:
                assert told == {"turn": battle.turn, "view": json.loads(json.dumps(battle.views[side]))}
                compared += 1
        battle.choose({side: draw.choice(v["legal"])[1] for side, v in battle.views.items() if v["legal"]})
    assert compared > 40


def test_a_seat_reads_answers_and_counts_what_is_illegal(pool):
    [battle] = pool.start([Setup("gen1randombattle", 5)])
    request, log = json.loads(pool.request_battle(battle, "request", "p1")), battle.log("p1")
    seen = []
    seat = ServerSide("gen1randombattle", pool, lambda *told: seen.append(told) or "dance")
    choice = seat.choose("battle-1", log, request)
    assert choice in dict(battle.views["p1"]["legal"]).values(), "drawn, for the answer named none"
    assert (seat.decisions, seat.illegal) == (1, 1)
    [(room, view, text, turn)] = seen
    assert (room, view["legal"]) == ("battle-1", battle.views["p1"]["legal"])
    assert turn == battle.turn
    assert "You are p1" in text
    assert f"1. {view['legal'][0][0]}" in text
    with pytest.raises(ConfigError, match="names no side"):
        seat.choose("battle-1", [], {})
    seat.leave("battle-1")
    seat.leave("battle-1")


def test_both_sides_of_one_battle_may_be_ours(pool):
    [battle] = pool.start([Setup("gen1randombattle", 5)])
    told = []
    seats = {side: ServerSide("gen1randombattle", pool, lambda *seen: told.append(seen) or "1") for side in SIDES}
    sent = dict.fromkeys(SIDES, 0)
    for _ in range(3):
        chosen = {}
        for side, seat in seats.items():
            if battle.views[side]["legal"]:
                log = battle.log(side)
                request = json.loads(pool.request_battle(battle, "request", side))
                chosen[side] = seat.choose("room", log[sent[side] :], request)
                sent[side] = len(log)
                assert told[-1][1] == json.loads(json.dumps(battle.views[side]))
        battle.choose(chosen)
    for seat in seats.values():
        seat.leave("room")


def test_heuristics_and_policies_decide(pool):
    [battle] = pool.start([Setup("gen1randombattle", 5)])
    view = battle.views["p1"]
    legal = [label for label, _ in view["legal"]]
    rule = decider("random@1", "gen1randombattle", pool, 0)
    assert {rule(f"battle-{n}", view, "", 1) for n in range(200)} == set(legal)
    assert decider("typed@1", "gen1randombattle", pool, 0)("battle-1", view, "", 1) in legal
    assert decider("echo", "gen1randombattle", pool, 0)("battle-1", view, "a text", 1) == "a text"
    with pytest.raises(PolicyError, match="copies of the battle"):
        decider("oracle@1", "gen1ou", pool, 0)


def test_a_battle_net_says_on_a_server_what_it_says_in_the_arena(pool, tmp_path):
    """The same net as a crowd of the arena and as a seat, over a dozen turns of one battle: slot for slot."""
    made = files.NetConfig("gen1ou", size("nano"), layout(), vocabulary("gen1ou"))
    files.save(tmp_path / "net", made, files.untrained(made, 3))
    env, name = PokemonEnv(), f"net:{tmp_path / 'net'}"
    env.reset(seed=4)
    crowd, seat = crowds.load(name, ModelOptions()), decider(name, "gen1ou", pool, 0)
    game = crowd.begin(env, "p1", 0)
    for _ in range(12):
        if legal := env.legal_actions.get("p1"):
            [wanted] = crowd.decide([crowds.PendingDecision(game, "", {})])
            assert seat("battle", env.view("p1"), "", env.battle.turn) == wanted
        env.step({"p1": wanted if legal else None, "p2": (env.legal_actions["p2"] or [None])[0]})
        if not env.agents:
            break
    with pytest.raises(CheckpointError, match="there is no battle net in"):
        decider("net:nowhere", "gen1ou", pool, 0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"battles": 0}, "battles must be 1 or more"),
        ({"name": "no name"}, "letters and digits"),
        ({"opponent": "anyone"}, "palaver pokemon serve"),
    ],
)
def test_matches_that_cannot_be_played(given, message):
    with pytest.raises(ConfigError, match=message):
        Match("typed@1", **given)


def test_without_poke_env_one_line_says_what_to_do(monkeypatch):
    monkeypatch.setattr(util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'palaver\[poke-env\]'"):
        run(Match("typed@1"), Sampling(), ModelOptions())


@needs_poke_env
def test_players_of_poke_env_have_names():
    with pytest.raises(PolicyError, match="SimpleHeuristicsPlayer"):
        poke_env_player("poke-env:Nobody")
    with pytest.raises(ConfigError, match="address is like"):
        run(Match("typed@1", server="nowhere"), Sampling(), ModelOptions())
    with pytest.raises(ShowdownError, match="palaver pokemon serve"):
        run(Match("typed@1", server="ws://127.0.0.1:9/showdown/websocket"), Sampling(), ModelOptions())


@needs_poke_env
def test_a_heuristic_beats_random_players_on_a_server(pool):
    match = Match("typed@1", "poke-env:RandomPlayer", "gen9randombattle", battles=4, parallel=4)
    found = run(match, Sampling(), ModelOptions())
    assert found["error"] == ""
    assert found["battles"] == found["won"] + found["lost"] + found["tied"] == 4
    assert found["won"] >= 3
    assert found["illegal"] == 0
    assert found["decisions"] > 4 * 5
