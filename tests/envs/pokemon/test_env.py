"""pokemon-v1: whole battles by seed, and battles that contain every special case."""

from __future__ import annotations

import hashlib
import json
import pickle
import random

import pytest

import palaver
from palaver.core import ConfigError
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.players.registry import player

pytestmark = pytest.mark.usefixtures("pool")


def drawn(env, rng):
    return {side: rng.choice(env.legal_actions[side]) for side in env.agents if env.legal_actions[side]}


def whole(env, seed, steps=1000):
    """A battle with random choices: everything that was returned, and the simulator's log."""
    rng, returned = random.Random(3), [env.reset(seed=seed, options={"task": 0})]
    while env.agents and len(returned) <= steps:
        returned.append(env.step(drawn(env, rng)))
    return returned, env.log()


def mon(species, ability, moves, item="", more=""):
    held = f" @ {item}" if item else ""
    return f"{species}{held}\nAbility: {ability}\nLevel: 100\n{more}" + "".join(f"- {move}\n" for move in moves)


@pytest.fixture
def make(tmp_path):
    """make(format, first team, second team, **keywords): an environment with these two."""

    def made(format, one, two, **keywords):
        for name, team in (("a", one), ("b", two)):
            (tmp_path / f"{name}.{format}_team").write_text("\n".join(team))
        return PokemonEnv(format, teams=tmp_path, **keywords)

    return made


def play(env, script, seed=0, **options):
    """Say what the script says, one line a step; the last step. Task 0 is team a against team b."""
    step = env.reset(seed=seed, options={"task": 0, **options})
    for one, two in script:
        step = env.step({"p1": one, "p2": two})
        for side, said in (("p1", one), ("p2", two)):
            assert step[4][side].get("executed", "") == said, (side, said, env.choices)
    return step


@pytest.mark.parametrize("format", ["gen1ou", "gen9ou", "gen5randombattle"])
def test_whole_battles_by_seed(format):
    env = palaver.make("pokemon-v1", format=format, reward="shaped")
    first = whole(env, 3)
    assert whole(palaver.make("pokemon-v1", format=format, reward="shaped"), 3) == first
    assert whole(env, 3, 9)[0] == first[0][:10]
    assert whole(env, 4, 9)[0] != first[0][:10]
    last = first[0][-1]
    assert all(last[2].values())
    assert not any(last[3].values())
    outcome = last[4]["p1"]["metrics"]["outcome"]
    assert last[4]["p1"]["reward_components"]["victory"] == 100 * outcome
    assert f"|win|{'p1' if outcome > 0 else 'p2'}" in first[1]


def test_tasks_are_pairs_of_teams():
    env = PokemonEnv("gen1ou")
    assert len(env.tasks) == 16 * 15
    env.reset(seed=0, options={"task": "sample-03 v sample-05"})
    sides = [{mon["name"] for mon in env.view(side)["me"]["team"]} for side in ("p1", "p2")]
    env.reset(seed=1, options={"task": "sample-05 v sample-03"})
    assert [{mon["name"] for mon in env.view(side)["me"]["team"]} for side in ("p2", "p1")] == sides


def test_a_large_set_has_sixteen_opponents_for_each():
    env = PokemonEnv("gen1ou", teams="generated:10:v5")
    assert len(env.tasks) == len({task.id for task in env.tasks}) == 40 * 16


def test_preview_moves_and_forced_switches():
    env = PokemonEnv("gen9ou")
    observations, infos = env.reset(seed=5)
    assert infos["p1"]["legal_actions"] == sorted(infos["p1"]["legal_actions"])
    assert all(action.startswith("lead ") for action in infos["p1"]["legal_actions"])
    assert "Team preview: choose who leads." in observations["p1"]
    seen, rng = set(), random.Random(5)
    while env.agents:
        asked = {side: env.view(side)["request"] for side in env.agents}
        seen.add(frozenset(asked.values()))
        for side in env.agents:
            other = "p2" if side == "p1" else "p1"
            if asked[side] == "wait":
                assert observations[side].startswith(f"You are {side}. Turn {env.battle.turn}. Your opponent chooses")
                assert (infos[side]["can_act"], infos[side]["legal_actions"]) == (False, [])
                assert asked[other] in ("switch", "revive")
            for n, action in enumerate(infos[side]["legal_actions"], 1):
                assert f"\n{n}. {action}" in observations[side]
        observations, *_, infos = env.step(drawn(env, rng))
    assert {frozenset({"team"}), frozenset({"move"}), frozenset({"switch", "wait"})} <= seen


def test_what_a_waiting_side_says_is_ignored():
    env, rng = PokemonEnv("gen1ou"), random.Random(2)
    env.reset(seed=2)
    while all(env.legal_actions.values()):
        env.step(drawn(env, rng))
    waits = "p1" if env.legal_actions["p2"] else "p2"
    infos = env.step({**drawn(env, rng), waits: "move surf"})[4]
    assert "executed" not in infos[waits]
    assert infos[waits]["metrics"]["illegal"] == infos[waits]["illegal"] == 1


def test_illegal_answers_are_drawn_counted_and_cost():
    env = PokemonEnv("gen1ou", penalty=0.25)
    taken = set()
    for seed in range(12):
        _, infos = env.reset(seed=seed, options={"task": 0})
        legal = infos["p1"]["legal_actions"]
        _, rewards, _, _, infos = env.step({"p1": "move splash and more", "p2": "2"})
        assert infos["p1"]["requested"] == "move splash and more"
        assert infos["p1"]["executed"] in legal
        taken.add(infos["p1"]["executed"])
        assert (infos["p1"]["illegal"], infos["p2"]["illegal"]) == (1, 0)
        assert infos["p2"]["metrics"]["illegal"] == 1
        assert rewards == {"p1": -0.25, "p2": 0}
        assert env.choices == [
            {s: {"requested": infos[s]["requested"], "executed": infos[s]["executed"]} for s in infos}
        ]
    assert len(taken) > 2, "of nine actions, drawn twelve times"


@pytest.mark.parametrize(
    ("format", "reward", "steps", "sha"),
    [
        ("gen1ou", "binary", 87, "86b605b4c82b4f3c"),
        ("gen9ou", "shaped", 104, "901320a2ed8f9564"),
        ("gen5randombattle", "aggressive", 79, "ad8ac6be273bb6be"),
    ],
)
def test_a_battle_of_legal_answers_is_what_it_was_in_v0(format, reward, steps, sha):
    """Hashes of everything that pokemon-v0 returned, and of the simulator's log."""
    returned, log = whole(PokemonEnv(format, reward=reward), 3)
    for *_, infos in returned[1:]:
        for info in infos.values():  # v0 had an outcome before the end, too
            info["metrics"] = {"outcome": info["metrics"].pop("outcome", 0.0), **info["metrics"]}
    text = json.dumps([returned, log], sort_keys=True)
    assert (len(returned), hashlib.sha256(text.encode()).hexdigest()[:16]) == (steps, sha)


def test_illegal_answers_leave_the_dice_alone():
    """The drawn action, named by the side itself, gives the same battle."""
    env, twin = PokemonEnv("gen1ou", forfeit=0), PokemonEnv("gen1ou")
    for each in (env, twin):
        each.reset(seed=4, options={"task": 1})
    rng = random.Random(4)
    while env.agents and len(env.choices) < 40:
        said = drawn(env, rng)
        env.step(dict.fromkeys(said, "nothing") if len(env.choices) % 2 else said)
        twin.step({side: each["executed"] for side, each in env.choices[-1].items()})
    assert twin.log() == env.log()
    assert env.fork()._plan({"p1": "", "p2": ""}) == env._plan({"p1": "", "p2": ""})
    assert env.rng.bit_generator.state == twin.rng.bit_generator.state, "the next battle is the same too"


@pytest.mark.parametrize("reward", ["binary", "shaped", "aggressive"])
def test_the_tenth_illegal_answer_loses_the_battle(reward):
    env = PokemonEnv("gen1ou", reward=reward)
    win, loss = env.weights.win, env.weights.loss
    env.reset(seed=1)
    rng, returns = random.Random(0), {"p1": 0.0, "p2": 0.0}
    for number in range(1, 11):
        while not env.legal_actions["p1"]:  # it waits, and may not speak
            env.step(drawn(env, rng))
        before = env.view("p1")["me"]["team"]
        _, rewards, terminated, truncated, infos = env.step({**drawn(env, rng), "p1": None})
        assert infos["p1"]["reward_components"]["illegal"] == -0.05 * win
        assert "illegal" not in infos["p2"]["reward_components"]
        assert all(terminated.values()) == (number == 10)
        returns = {side: returns[side] + rewards[side] for side in returns}
    assert not any(truncated.values())
    assert infos["p1"]["reason"] == infos["p2"]["reason"] == "p1 forfeited by 10 illegal answers"
    assert infos["p1"]["metrics"]["outcome"] == -1
    assert (infos["p1"]["executed"], infos["p2"]["executed"]) == ("", ""), "nothing was played"
    assert "You lost." in env.observations["p1"]
    assert infos["p1"]["reward_components"]["victory"] == -loss
    assert infos["p2"]["reward_components"]["victory"] == win
    if reward != "binary":  # as if all its Pokémon had fainted
        left = sum(mon["hp"] / mon["max"] for mon in before)
        assert infos["p1"]["reward_components"]["health"] == pytest.approx(-left)
        alive = sum(mon["hp"] > 0 for mon in before)
        assert infos["p2"]["reward_components"]["knockouts"] == env.weights.knockouts * alive
    worst_legal = -loss - (0 if reward == "binary" else 30)  # six Pokémon's hit points, knock-outs and conditions
    assert returns["p1"] < worst_legal


def test_both_may_forfeit_and_both_have_lost():
    env = PokemonEnv("gen1ou", forfeit=1)
    env.reset(seed=0)
    _, rewards, terminated, _, infos = env.step({})
    assert (rewards, all(terminated.values())) == ({"p1": -1.05, "p2": -1.05}, True)
    assert (infos["p1"]["metrics"]["outcome"], infos["p1"]["reason"]) == (0, "p1 and p2 forfeited by 1 illegal answers")


def test_illegal_answers_cost_less_than_a_tie_is_from_a_victory():
    env = PokemonEnv("gen1ou")
    assert env.penalty * env.forfeit == 0.5


def test_illegal_answers_of_many_at_once():
    envs = [PokemonEnv("gen1ou", forfeit=3) for _ in range(3)]
    for n, env in enumerate(envs):
        env.reset(seed=n)
    alone = [env.fork() for env in envs]
    rng = random.Random(0)
    for turn in range(6):
        moves = [drawn(env, rng) if (turn + n) % 2 and env.agents else {} for n, env in enumerate(envs)]
        together = PokemonEnv.step_together(envs, moves)
        assert together == [env.step(move) for env, move in zip(alone, moves, strict=True)]
    assert not any(env.agents for env in envs)


def test_struggle(make):
    alone = [mon("Magikarp", "Swift Swim", ["Revival Blessing"])]
    env = make("gen9customgame", alone, alone)
    observations = play(env, [("lead magikarp",) * 2, ("move revivalblessing",) * 2])[0]
    assert env.legal_actions == {"p1": ["move struggle"], "p2": ["move struggle"]}
    assert "1. move struggle (normal, physical, power 50" in observations["p1"]
    while env.agents:
        step = env.step({"p1": "move struggle", "p2": "1"})
    assert any(step[2].values())
    assert step[4]["p1"]["metrics"]["illegal"] == 0


def test_revival_blessing(make):
    one = [mon("Gengar", "Cursed Body", ["Memento"]), mon("Pawmot", "Iron Fist", ["Revival Blessing"])]
    two = [mon("Blissey", "Natural Cure", ["Soft-Boiled"])]
    env = make("gen9customgame", one, two, reward="shaped")
    step = play(env, [("lead gengar", "lead blissey"), ("move memento", "move softboiled"), ("switch pawmot", "")])
    assert env.view("p1")["me"]["team"][0]["hp"] == 0
    step = env.step({"p1": "revival blessing", "p2": "1"})
    assert env.legal_actions == {"p1": ["revive gengar"], "p2": []}
    assert "Choose who is revived." in step[0]["p1"]
    step = env.step({"p1": "Gengar"})
    assert env.view("p1")["me"]["team"][0]["hp"] > 0
    assert step[4]["p1"]["reward_components"]["knockouts"] == 1


def test_hidden_trapping_is_asked_again(make):
    one = [mon("Snorlax", "Thick Fat", ["Rest"]), mon("Blissey", "Natural Cure", ["Soft-Boiled"])]
    two = [mon("Gothitelle", "Shadow Tag", ["Calm Mind"])]
    env = make("gen9customgame", one, two)
    observations = play(env, [("lead snorlax", "lead gothitelle")])[0]
    assert "You may be trapped" in observations["p1"]
    turn = env.battle.turn
    observations, *_, infos = env.step({"p1": "switch blissey", "p2": "move calmmind"})
    assert "Your last choice was refused: [Unavailable choice]" in observations["p1"]
    assert (env.battle.turn, env.legal_actions) == (turn, {"p1": ["move rest", "move rest tera"], "p2": []})
    assert infos["p1"]["metrics"]["illegal"] == 0
    env.step({"p1": "move rest"})
    assert env.battle.turn == turn + 1


def test_a_tie(make):
    last = [mon("Snorlax", "Immunity", ["Explosion"])]
    env = make("gen4customgame", last, last)
    env.reset(seed=1, options={"task": 0})
    step = ()
    while env.agents:
        step = env.step({"p1": "1", "p2": "1"})
    assert step[1] == {"p1": 0, "p2": 0}
    assert all(step[2].values())
    assert step[4]["p1"]["metrics"]["outcome"] == 0
    assert "It is a tie." in step[0]["p1"]


def test_the_turn_limit_is_a_truncation(make):
    env = PokemonEnv("gen1ou", turn_limit=3)
    env.reset(seed=0)
    while env.agents:
        step = env.step({"p1": "1", "p2": "1"})
    assert env.battle.turn == 4
    assert all(step[3].values())
    assert not any(step[2].values())
    assert step[4]["p2"]["reason"] == "cut at the limit of 3 turns"
    assert "The battle is over" not in step[0]["p1"], "the texts are those of a battle that goes on"
    for side in ("p1", "p2"):
        assert step[4][side]["can_act"]
        assert step[4][side]["legal_actions"]
        for n, action in enumerate(step[4][side]["legal_actions"], 1):
            assert f"\n{n}. {action}" in step[0][side]
    assert step[1] == {"p1": 0, "p2": 0}


def test_gimmicks():
    env = PokemonEnv("gen9ou")
    env.reset(seed=1)
    env.step({"p1": "1", "p2": "1"})
    action = next(a for a in env.legal_actions["p1"] if a.endswith(" tera"))
    env.step({"p1": f"I terastallize: {action.split()[1]} tera!", "p2": "1"})
    assert env.choices[-1]["p1"]["executed"] == action
    assert any(line.startswith("|-terastallize|p1a: ") for line in env.log())


def test_forks_throw_the_same_dice_or_others():
    env, rng = PokemonEnv("gen1ou"), random.Random(0)
    env.reset(seed=9)
    for _ in range(6):
        env.step(drawn(env, rng))
    before = env.log()
    twin, others = env.fork(), [env.fork(seed) for seed in range(6)]

    def rest(fork):
        steps = random.Random(1)
        while fork.agents and len(fork.choices) < 30:
            fork.step(drawn(fork, steps))
        return fork.log()

    ends = [rest(fork) for fork in others]
    assert len({tuple(end) for end in ends}) > 1
    assert rest(others[0].fork(0)) == ends[0]
    assert env.log() == before
    assert rest(twin) == rest(env)
    assert PokemonEnv("gen1ou").fork(1).battle is None


def test_it_travels_by_pickle():
    env, rng = PokemonEnv("gen9randombattle"), random.Random(3)
    env.reset(seed=3)
    for _ in range(4):
        env.step(drawn(env, rng))
    twin = pickle.loads(pickle.dumps(env))
    actions = drawn(env, rng)
    assert twin.step(actions) == env.step(actions)
    assert twin.log() == env.log()


def test_many_at_once_are_as_many_one_by_one():
    envs = [PokemonEnv("gen1ou") for _ in range(3)]
    for n, env in enumerate(envs):
        env.reset(seed=n)
    alone = [env.fork() for env in envs]
    rng = random.Random(0)
    for _ in range(12):
        moves = [drawn(env, rng) for env in envs]
        together = PokemonEnv.step_together(envs, moves)
        assert together == [env.step(move) for env, move in zip(alone, moves, strict=True)]


def test_a_lost_process_is_no_result():
    env = PokemonEnv("gen1ou")
    env.reset(seed=0)
    env.battle.worker.kill("the machine was on fire")
    *_, truncated, infos = env.step({"p1": "1", "p2": "1"})
    assert truncated == {"p1": True, "p2": True}
    assert infos["p1"]["unscored"]
    assert "on fire" in infos["p1"]["reason"]
    assert env.render() is None
    env.reset(seed=0)
    assert env.agents == ["p1", "p2"]


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"observation": "texts"}, "Did you mean 'text'"),
        ({"reward": "sparse"}, "reward='sparse' is not offered"),
        ({"turn_limit": 0}, "turn_limit must be a whole number from 1 to 1,000, got 0"),
        ({"penalty": -1}, "penalty must be a number of 0 or more"),
        ({"forfeit": 1.5}, "forfeit must be a whole number from 0 to 1,000"),
        ({"format": 9}, "format must be a format's id"),
    ],
)
def test_keywords_that_do_not_fit(keywords, message):
    with pytest.raises(ConfigError, match=message):
        PokemonEnv(**keywords)


def test_a_view_is_there_after_reset():
    env = PokemonEnv("gen1ou")
    with pytest.raises(ConfigError, match="reset first"):
        env.view("p1")
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="no view of 'p3'"):
        env.view("p3")
    assert player("typed@1", env, "p1", 0)("", {}) in env.legal_actions["p1"]
