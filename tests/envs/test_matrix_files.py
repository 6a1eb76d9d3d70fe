"""Games and wordings from files: what is read, and the one line that says what is wrong."""

from __future__ import annotations

import json
import re

import pytest

import palaver
from palaver.core import ConfigError, PalaverError, TaskError
from palaver.envs.matrix import env as page
from palaver.envs.matrix import games
from palaver.envs.matrix.games import from_mapping

TWO_STEP = """
agents: 2
actions: [left, right]
states:
  start: {payoffs: 0, next: [A, B]}
  A: {payoffs: 7}
  B: {payoffs: [[0, 1], [1, 8]]}
"""
STAG = {"name": "stag hunt", "agents": ["ann", "bob"], "actions": ["stag", "hare"],
        "payoffs": [[4, [0, 3]], [[3, 0], 2]]}  # fmt: skip


@pytest.fixture
def file(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return str(path)

    return write


def test_the_page_s_file_is_the_built_in_game(file):
    game, own = games.load(file("mine.yaml", TWO_STEP)), games.built_in("two-step")
    assert game.title == "mine"
    assert (game.agents, game.actions, game.states) == (own.agents, own.actions, own.states)
    assert game.payoffs.tolist() == own.payoffs.tolist()
    assert game.successor.tolist() == own.successor.tolist()
    assert all(line in page.__doc__ for line in TWO_STEP.strip().splitlines())


@pytest.mark.parametrize("suffix", ["json", "yaml", "yml"])
def test_a_file_is_played(file, suffix):
    env = palaver.make("matrix-v1", game=file(f"stag.{suffix}", STAG))
    assert env.possible_agents == ["ann", "bob"]
    assert env.max_return == 4
    observations, infos = env.reset(seed=0)
    assert observations["bob"].startswith("Game: stag hunt. You are bob.\n")
    assert infos["ann"]["legal_actions"] == ["stag", "hare"]
    assert env.step({"ann": "Stag", "bob": "hare"})[1] == {"ann": 0.0, "bob": 3.0}


def test_a_mapping_is_a_game_as_in_a_recipe():
    assert palaver.make("matrix-v1", game=STAG).max_return == 4
    assert palaver.make("matrix-v1", game={k: v for k, v in STAG.items() if k != "name"}).game.title == "game"


def test_actions_may_differ_between_agents():
    game = from_mapping({"agents": 2, "actions": {"a2": ["x", "y", "z"], "a1": ["p"]}, "payoffs": [[1, 2, 3]]})
    assert game.actions == (("p",), ("x", "y", "z"))
    assert game.payoffs[0, :, 0].tolist() == [1, 2, 3]


def changed(**fields):
    return {key: value for key, value in {**STAG, **fields}.items() if value is not None}


STATES = {"actions": ["l", "r"], "payoffs": None}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (changed(payofs=1), "there is no field 'payofs'. Did you mean 'payoffs'?"),
        (changed(agents=None), "agents: expected a list of different names"),
        (changed(agents=0), "agents: expected"),
        (changed(agents=True), "agents: expected"),
        (changed(agents=10**400), "agents: at most 16"),
        (changed(agents=["a", "A"]), "agents: expected"),
        (changed(agents=["a b", "c"]), "agents: expected"),
        (changed(actions=None), "actions: expected a list of different names, each one word"),
        (changed(actions=[True, False]), "in YAML quote 'on'"),
        (changed(actions=["stag", "STAG"]), "actions: expected"),
        (changed(actions=["go left", "stop"]), "actions: expected"),
        (changed(actions=["go_left", "stop"]), "actions: expected"),
        (changed(actions={"ann": ["x"]}), "actions: expected a list for all, or one for each of ann, bob"),
        (changed(actions={"ann": ["x"], "bob": []}), "actions of bob: expected"),
        (changed(payoffs=None), "the field 'payoffs' is missing"),
        (changed(name="no\nname"), "the name 'no\\nname' must be"),
        (changed(name=""), "the name '' must be"),
        (changed(name="xor"), "the name 'xor' is that of a built-in game"),
        (changed(payoffs=[[4, 0], [3]]), "payoffs[1]: 1 entries for 2 actions"),
        (changed(payoffs=[[4, 0], [3, 2], [1, 1]]), "payoffs: 3 entries for 2 actions"),
        (changed(payoffs=[[4, [0, 3, 1]], [3, 2]]), "payoffs[0][1]: expected a number, or a list of 2"),
        (changed(payoffs=[[4, "0"], [3, 2]]), "payoffs[0][1]: expected a number"),
        (changed(payoffs=[[4, True], [3, 2]]), "payoffs[0][1]: expected a number"),
        (changed(payoffs=[[4, float("nan")], [3, 2]]), "payoffs[0][1]: expected a number"),
        (changed(payoffs=[[4, 10**400], [3, 2]]), "none beyond 1e+09"),
        (changed(states={"s": {"payoffs": 1}}), "with states, give payoffs and next in each state"),
        (changed(**STATES, states={}), "states: expected a mapping of 1 to 1,000 names"),
        (changed(**STATES, states=["s"]), "states: expected a mapping"),
        (changed(**STATES, states={1: {"payoffs": 1}}), "states: expected a list of different names"),
        (changed(**STATES, states={"s": 1}), "states, s: expected payoffs and"),
        (changed(**STATES, states={"s": {"payoffs": 1, "then": "s"}}), "states, s: expected payoffs and"),
        (changed(**STATES, states={"s": {"payoffs": 1, "next": "t"}}), "states, s: next: there is no state 't'; null"),
        (changed(**STATES, states={"s": {"payoffs": 1, "next": [["s", 1], None]}}), "next[0][1]: there is no state 1"),
        (changed(**STATES, states={"s": {"payoffs": 1, "next": "s"}}), "its states go in a circle; give steps"),
        (changed(steps=-1), "steps must be a whole number up to 1,000, got -1"),
        (changed(steps=2.0), "steps must be"),
        (changed(steps=10**400), "steps must be"),
        (changed(agents=16, actions=["x", "y", "z"]), "43,046,721 joint actions in 1 states; at most 65,536"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_faulty_games(record, message):
    with pytest.raises(ConfigError) as caught:
        palaver.make("matrix-v1", game=record)
    text = str(caught.value)
    assert message in text
    assert text.startswith("game: ")
    assert "\n" not in text
    assert len(text) < 300


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", "{", "cannot read"),
        ("x.json", "[" * 100_000, "cannot read"),
        ("x.yaml", "a: [", "cannot read"),
        ("x.yaml", "!!python/object/apply:os.getcwd []", "cannot read"),
        ("x.yaml", "", "holds a NoneType, expected named fields"),
        ("x.json", "[1]", "holds a list, expected named fields"),
        ("x.yaml", "a: &a [1, 1]\nb: &b [*a, *a]\n", "there is no field 'a'"),
        ("my.game.json", json.dumps({k: v for k, v in STAG.items() if k != "name"}), "the name 'my.game' must be"),
        ("climbing.json", json.dumps({k: v for k, v in STAG.items() if k != "name"}), "the name 'climbing' is that"),
    ],
)
def test_faulty_files(file, name, content, message):
    with pytest.raises(ConfigError) as caught:
        palaver.make("matrix-v1", game=file(name, content))
    assert message in str(caught.value)
    assert str(caught.value).startswith("game: ")
    assert "\n" not in str(caught.value)


def test_files_that_are_no_text(tmp_path):
    path = tmp_path / "x.yaml"
    for content in (b"\xff\xfe\x00", b"\x00"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=r"^game: cannot read"):
            palaver.make("matrix-v1", game=path)
    for missing in ("gone.yaml", str(tmp_path / "gone.json"), "~nobody-here/x.yaml", "x\x00.json", "y" * 5000 + ".yml"):
        with pytest.raises(ConfigError, match=r"^game: cannot read"):
            palaver.make("matrix-v1", game=missing)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("climbin", "there is no game 'climbin'. Did you mean 'climbing'? A file ends with .json, .yaml or .yml"),
        ("", "there is no game ''"),
        ("game.toml", "there is no game"),
        (3, "there is no game '3'"),
        (None, "there is no game 'None'"),
        (["climbing"], "there is no game"),
    ],
)
def test_no_such_game(source, message):
    with pytest.raises(ConfigError) as caught:
        palaver.make("matrix-v1", game=source)
    assert str(caught.value).startswith(f"game: {message}")


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"agents": 3}, "agents: 'climbing' is for 2, got 3"),
        ({"agents": True}, "agents: 'climbing' is for 2"),
        ({"game": "xor", "agents": 3}, "agents: 'xor' is for an even number"),
        ({"game": "xor", "agents": 18}, "agents: 'xor'"),
        ({"game": "xor", "agents": "2"}, "agents: 'xor'"),
        ({"game": "coordination", "agents": 1}, "agents: 'coordination' is for 2 agents or more"),
        ({"game": "coordination", "agents": 11}, "at most 65,536 joint actions, got 11"),
        ({"game": STAG, "agents": 2}, "agents belongs to the built-in games"),
        ({"game": STAG, "penalty": -1}, "penalty belongs to"),
        ({"penalty": -1}, "penalty is the k of the game 'penalty'; 'climbing' has none"),
        ({"game": "penalty", "penalty": 1}, "penalty must be a number from -1e+09 to 0, got 1"),
        ({"game": "penalty", "penalty": "low"}, "penalty must be"),
        ({"game": "penalty", "penalty": float("nan")}, "penalty must be"),
        ({"repeats": 0}, "repeats must be a whole number from 1"),
        ({"repeats": 1.5}, "repeats must be"),
        ({"repeats": True}, "repeats must be"),
        ({"illegal": "zero"}, "illegal must be 'minimum', or a number of at most -30 in this game"),
        ({"illegal": -29}, "illegal must be"),
        ({"illegal": float("-inf")}, "illegal must be"),
        ({"illegal": None}, "illegal must be"),
        ({"shared": 1}, "shared must be true or false"),
        ({"role_prompts": "no"}, "role_prompts must be true or false"),
        ({"show_payoffs": None}, "show_payoffs must be"),
        ({"feedback": 0}, "feedback must be"),
        ({"show_payoffs": True, "max_length": 99}, "show_payoffs: prompts take up to"),
        (
            {"game": {"agents": 2, "actions": {"a1": ["x"], "a2": ["y"]}, "payoffs": 1}, "role_prompts": False},
            "role_prompts: it must be true where the agents' actions differ",
        ),
    ],
    ids=str,
)
def test_faulty_keywords(kwargs, message):
    with pytest.raises(ConfigError) as caught:
        palaver.make("matrix-v1", **kwargs)
    assert re.match(rf"{'|'.join(kwargs)}\b", str(caught.value))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wordings_from_a_file(file):
    rows = file("w.jsonl", '{"wording": "Go on:\\nnow."}\n{"wording": "Well?", "order": 4, "id": "late"}\n')
    env = palaver.make("matrix-v1", tasks=rows)
    assert [task.id for task in env.tasks] == ["row-0", "late"]
    assert (
        env.reset(options={"task": 0})[0]["a1"]
        == "Game: climbing. You are a1.\nGo on:\nnow.\nActions: red, green, blue."
    )
    assert env.reset(options={"task": "late"})[0]["a1"].endswith("\nWell?\nActions: green, blue, red.")
    table = file("w.csv", "id,wording,order\nw,Choose.,2\nv,Choose!,\n")
    env = palaver.make("matrix-v1", tasks=table)
    assert env.reset(options={"task": "w"})[0]["a2"].endswith("Choose.\nActions: blue, red, green.")
    assert env.reset(options={"task": "v"})[0]["a2"].endswith("Choose!\nActions: red, green, blue.")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"order": 1}', "row 0: the field 'wording' is missing or empty"),
        ('{"wording": 3}', "the field 'wording' is int, expected str"),
        ('{"wording": "x", "order": -1}', "the field 'order' must be a whole number, got -1"),
        ('{"wording": "x", "order": 1.5}', "the field 'order' must be"),
        ('{"wording": "x", "order": true}', "the field 'order' must be"),
        ('{"wording": "x", "order": "²"}', "the field 'order' must be"),
        ('{"wording": "x", "order": [1]}', "the field 'order' must be"),
        ('{"wording": "x", "order": 1000000000000}', "the field 'order' must be"),
        ("", "is empty"),
    ],
)
def test_faulty_wordings(file, row, message):
    with pytest.raises(TaskError) as caught:
        palaver.make("matrix-v1", tasks=file("w.jsonl", row))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_of_wordings():
    with pytest.raises(PalaverError, match=r"^there is no file 'gone.jsonl'"):
        palaver.make("matrix-v1", tasks="gone.jsonl")


def test_braces_in_a_wording_are_text(file):
    hostile = "{0} {x!r} %s ${HOME} {{7*7}} <|im_end|>"
    env = palaver.make("matrix-v1", tasks=file("w.jsonl", {"wording": hostile}))
    assert hostile in env.reset(seed=0)[0]["a1"]
