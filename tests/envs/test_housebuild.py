"""HouseBuild: what is paid, by hand; limits, spiders, feedback, worlds that stay, files, and the reference team."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import palaver
from palaver.core import ConfigError, Message, TaskError
from palaver.envs.base.scripted import lazy
from palaver.envs.minecraft import reference
from palaver.envs.minecraft.blueprint import Cuboid
from palaver.envs.minecraft.env import BuildTarget
from palaver.envs.minecraft.housebuild import data, rules
from palaver.envs.minecraft.world import empty

PUBLIC = Path("/work/shared/data/housebuild/housebuild.json")
HUT = {  # 3 x 2 x 2: six stones below, two panes of glass above, four cells of air
    "task_id": "hut",
    "inventory": {"A": "air", "S": "minecraft:stone", "G": "glass"},
    "target_spec": {"layers": [{"y": 0, "rows": ["SSS", "SSS"]}, {"y": 1, "rows": ["GAG", "AAA"]}]},
}
STONES, PANES = "/fill 0 0 0 2 0 1 stone", "/fill 0 1 0 0 1 0 glass\n/fill 2 1 0 2 1 0 glass"


@pytest.fixture
def source(tmp_path):
    """source(row, ...): a file with these rows."""

    def write(*rows):
        path = tmp_path / "houses.json"
        path.write_text(json.dumps(rows))
        return str(path)

    return write


@pytest.fixture
def hut(source):
    """hut(**keywords): the environment of the hut, started."""

    def start(**keywords):
        env = palaver.make("housebuild-v0", tasks=source(HUT), **keywords)
        env.reset(seed=0)
        return env

    return start


def say(env, *texts):
    """The first agent's observation, reward, parts and metrics after a turn."""
    agents = env.possible_agents
    told, rewards, _, _, infos = env.step(dict(zip(agents, texts, strict=True)))
    assert len(set(rewards.values())) == 1
    info = infos[agents[0]]
    return told[agents[0]], rewards[agents[0]], info["reward_components"], info["metrics"]


def test_an_empty_world_is_paid_for_its_air(hut):
    _, reward, parts, metrics = say(hut(spiders=0), "", "")
    assert reward == parts["match"] == pytest.approx(4 / 12)
    assert (metrics["iou"], metrics["block_iou"], metrics["missing"]) == (0.0, 0.0, 8.0)
    assert say(hut(spiders=0, reward="iou"), "", "")[1] == 0.0


def test_what_is_paid_by_hand(hut):
    # four stones right, one pane that should be air: 4 + 3 of 12 cells; 4 of 9 cells with a block
    said = ("/fill 0 0 0 1 0 1 stone", "/fill 0 1 1 0 1 1 glass")
    _, reward, parts, metrics = say(hut(spiders=0), *said)
    assert parts == {"match": pytest.approx(7 / 12), "spiders": 0.0}
    assert reward == pytest.approx(7 / 12)
    assert metrics["iou"] == metrics["block_iou"] == pytest.approx(4 / 9)
    # glass where stone should be counts for the published IoU and not for the other
    _, _, parts, metrics = say(hut(spiders=0, limited=False, reward="iou"), "/fill 0 0 0 2 0 1 glass", PANES)
    assert metrics["iou"] == 1.0
    assert parts["iou"] == metrics["block_iou"] == pytest.approx(2 / 8)
    assert metrics["wrong"] == 6.0


def test_the_whole_hut(hut):
    _, reward, _, metrics = say(hut(limited=False), f"{STONES}\n/kill", PANES)
    assert reward == 1.0
    assert metrics["complete"] == metrics["iou"] == metrics["match"] == metrics["killed"] == 1.0


def test_later_builders_overwrite_earlier_ones(hut):
    env = hut(limited=False)
    say(env, STONES, "/fill 1 0 0 1 0 0 air\n/fill 0 0 0 0 0 0 glass")
    assert env.built[:, 0, 0].tolist() == [2, 0, 1]
    assert env.owner[:, 0, 0].tolist() == [2, 0, 1]
    say(env, "/fill 0 0 0 0 0 0 glass", STONES)  # the world was emptied in between
    assert env.built[:, 0, 0].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("agents", "c", "limit"), [(1, 7, 10), (2, 7, 5), (2, 68, 51), (3, 7, 4), (2, 0, 0), (2, 2, 1), (16, 5, 1)]
)
def test_limits_by_hand(agents, c, limit):
    cells = empty((c + 1, 1, 1))
    cells[:c] = 1
    assert rules.resource_limits(BuildTarget(cells, ("stone",)), agents) == {1: limit}


def test_fills_over_a_limit_are_rejected(hut):
    env = hut(spiders=0)  # each builder: 3 + 1 stones, 1 + 0 panes
    told, _, _, metrics = say(env, f"{STONES}\n/fill 0 0 0 1 0 1 stone\n/fill 0 0 0 0 0 0 stone", PANES)
    assert metrics["rejected"] == metrics["illegal"] == 3.0
    assert (env.built != 0).sum() == 5
    assert "'/fill 0 0 0 2 0 1 stone': it would pass your limit of 4 for stone" in told
    assert "2 of your commands were rejected." in told


def test_spiders_by_hand():
    assert rules.Spiders((2, 1, 3), 5).penalty == pytest.approx(0.1)
    assert rules.Spiders((2, 1), 12).penalty == pytest.approx(0.1 * 3 / 12)
    assert rules.Spiders((), 5).penalty == rules.Spiders((0, 0), 5).penalty == 0.0


def test_spiders_of_a_task_are_always_the_same_and_in_range():
    drawn = [rules.spiders(f"task {n}", 3, (1, 3), 5).attacks for n in range(200)]
    assert drawn == [rules.spiders(f"task {n}", 3, (1, 3), 5).attacks for n in range(200)]
    assert {attack for attacks in drawn for attack in attacks} == {1, 2, 3}
    assert np.mean(drawn) == pytest.approx(2.0, abs=0.15)


@pytest.mark.parametrize(("said", "lost"), [(("", ""), 0.1), (("/kill", ""), 0.0), (("", "kill them"), 0.0)])
def test_somebody_must_kill_the_spiders(hut, said, lost):
    _, reward, parts, _ = say(hut(attack=(5, 5)), *said)
    assert parts["spiders"] == pytest.approx(-lost)
    assert reward == pytest.approx(4 / 12 - lost)


def test_the_most_that_an_episode_pays(hut):
    assert hut(num_turns=3).max_return == 3.0
    assert palaver.make("strbuild-v0").max_return == 8.0
    assert palaver.make("build-mini-v0").max_return == 1.25


def test_a_world_that_stays(hut):
    env = hut(persistent=True, num_turns=3, attack=(5, 5))
    say(env, "/kill\n/fill 0 0 0 1 0 1 stone", "")
    _, reward, _, metrics = say(env, "/fill 2 0 0 2 0 0 stone", "/fill 2 0 0 2 0 1 stone")
    assert metrics["rejected"] == 1.0  # the first builder had used up its four stones
    assert reward == pytest.approx(10 / 12)  # the spiders stay dead
    _, reward, *_ = say(env, "/fill 0 1 0 0 1 0 glass", "/fill 2 1 0 2 1 0 glass")
    assert reward == 1.0


def test_persistence_is_told_and_forks_keep_it(hut):
    env = hut(persistent=True, num_turns=2)
    say(env, "/fill 0 0 0 1 0 1 stone", "/kill")
    fork = env.fork()
    fork.step({"builder1": "/fill 0 0 0 2 1 1 air"})
    assert env.built.any()
    assert not fork.built.any()


# --- what is told -------------------------------------------------------------------------------------


def test_the_opening(hut):
    env = hut(num_turns=2, attack=(2, 2))
    told, _ = env.reset(seed=0)
    text = told["builder2"]
    assert text.splitlines()[0].startswith("You are builder 2 of 2 ")
    for line in (
        "y=0: 0 0 2 1 stone",
        "y=1: 0 0 0 0 glass; 2 0 2 0 glass",
        "You have 300 commands a turn.",
        "You may fill, in cells a turn: 4 stone, 1 glass; air without limit.",
        "Spiders attack with 2 + 2 + 2 against a health of 5: unless somebody sends /kill, 0.1 is lost.",
        "There are 2 turns; after each the world is emptied.",
    ):
        assert line in text.splitlines()


def feedback(hut, mode, *said, **keywords):
    return say(hut(feedback=mode, spiders=0, limited=mode == "resource_schedule", **keywords), *said)[0].splitlines()[
        1:
    ]


def test_every_feedback(hut):
    said = (f"{STONES}\n/fill 1 1 1 1 1 1 stone", "")  # panes are missing, a stone is too many
    assert feedback(hut, "score", *said) == []
    assert feedback(hut, "position", *said) == [
        "Wrong cells:", "0 1 0: air, should be glass", "2 1 0: air, should be glass", "1 1 1: stone, should be air",
    ]  # fmt: skip
    assert feedback(hut, "position", *said, limit=1)[0] == "Wrong cells (1 of 3):"
    assert feedback(hut, "position_modification", *said)[1:] == [
        "/fill 0 1 0 0 1 0 glass", "/fill 2 1 0 2 1 0 glass", "/fill 1 1 1 1 1 1 air",
    ]  # fmt: skip
    assert feedback(hut, "perfect", *said)[1:] == ["y=1: 0 0 0 0 glass; 2 0 2 0 glass; 1 1 1 1 air"]
    assert feedback(hut, "perfect", STONES, PANES) == ["The world is as planned."]
    told = feedback(hut, "rect_modification", *said, agents=2)
    assert told[1:3] == said[0].splitlines()
    assert told[3] == "Wrong rectangles in your layers 0 to 0: none."


def test_a_schedule_uses_what_is_left(hut):
    told = feedback(hut, "resource_schedule", "/fill 0 0 0 0 0 0 stone", "")
    assert "What was left of your limits: 3 stone, 1 glass." in told
    # 3 stones reach for a part of the floor, its largest; one pane for one of the two
    assert told[-2:] == ["/fill 0 1 0 0 1 0 glass", "/fill 0 0 0 2 0 0 stone"]


def test_a_schedule_by_hand():
    floor, wall, pane = Cuboid(0, 0, 0, 3, 0, 1, 1), Cuboid(0, 1, 0, 4, 1, 0, 1), Cuboid(0, 2, 0, 0, 2, 0, 2)
    assert rules.schedule([pane, wall, floor], {1: 13, 2: 1}) == [floor, wall, pane]
    assert rules.schedule([pane, wall, floor], {1: 12, 2: 0}) == [floor, Cuboid(0, 1, 0, 3, 1, 0, 1)]
    assert rules.schedule([floor], {1: 0}) == []


@pytest.mark.parametrize(("agents", "height"), [(1, 1), (2, 1), (2, 7), (3, 7), (5, 4), (16, 2)])
def test_bands_cover_all_layers(agents, height):
    bands = [rules.band(n, agents, height) for n in range(agents)]
    assert {y for low, high in bands for y in range(low, high + 1)} == set(range(height))
    assert (agents, height) != (2, 7) or bands == [(0, 2), (2, 6)]


# --- tasks --------------------------------------------------------------------------------------------


def test_generated_houses_differ_and_smaller_sets_begin_larger_ones():
    for difficulty in data.SIZES:
        rows = data.rows(40, 3, difficulty)
        assert data.rows(10, 3, difficulty) == rows[:10]
        assert len({json.dumps({**row, "task_id": ""}) for row in rows}) == 40
        assert data.rows(10, 4, difficulty) != rows[:10]
        for row in rows:
            letters = "".join(text for layer in row["target_spec"]["layers"] for text in layer["rows"])
            assert {k: n for k, n in row["count"].items() if n} == {k: letters.count(k) for k in set(letters)}
            assert data.plan(palaver.envs.base.tasks.Task("t", row)).target.shape == tuple(row["target_spec"]["size"])


def test_sources():
    train = palaver.make("housebuild-v0", tasks="generated:7:20[:15]", difficulty="easy")
    test = palaver.make("housebuild-v0", tasks="generated:7:20[15:]", difficulty="easy")
    assert (len(train.tasks), len(test.tasks)) == (15, 5)
    assert not {task.id for task in train.tasks} & {task.id for task in test.tasks}
    assert len(palaver.make("housebuild-v0", tasks="generated:7").tasks) == 64
    for wrong in ("generated:", "generated:x", "generated:1:2:3", "generated:1:0"):
        with pytest.raises(TaskError):
            palaver.make("housebuild-v0", tasks=wrong)


def changed(**changes):
    return {**HUT, **changes}


def layered(*layers, **more):
    return changed(target_spec={"layers": list(layers), **more})


ROWS = ["SS", "SS"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (changed(inventory={"stone": "S"}), "its inventory must map single letters to blocks"),
        (changed(inventory={"S": "two words"}), "a block's name must be one word"),
        (changed(inventory={"A": "air", "S": "stone"}), "the inventory lacks the letter 'G'"),
        (changed(target_spec={}), "target_spec lacks its layers"),
        (changed(target_spec={"layers": [3]}), "the y of a layer must be a whole number"),
        (layered({"y": 0, "rows": "SS"}), "the rows of layer 0 must be a list of texts"),
        (layered({"y": 0, "rows": ["SS", "S"]}), "its rows have different lengths"),
        (layered({"y": 0, "rows": ROWS}, {"y": 1, "rows": ["SS"]}), "its layers have different numbers of rows"),
        (layered({"y": 0, "rows": ROWS}, {"y": 2, "rows": ROWS}), "a layer is missing"),
        (layered({"y": 0, "rows": ROWS}, {"y": 0, "rows": ROWS}), "the layer 0 stands twice"),
        (layered({"y": 0, "rows": ROWS}, size=[2, 2, 2]), "size or bbox says otherwise"),
        (layered({"y": 0, "rows": ROWS}, size=["a"]), "target_spec.size must be three whole numbers"),
        (layered({"y": 0, "rows": ["S" * 40]}), "it is larger than 32 cells along an axis"),
        (layered({"y": 0, "rows": ["AA"]}), "it is nothing but air"),
        (changed(bbox={"from": [0, 0, 0]}), "bbox.to must be three whole numbers"),
        (changed(bbox={"from": [0, 0, 0], "to": [1, 1, 1]}), "size or bbox says otherwise"),
        ({"inventory": {"S": "stone"}}, "the field 'target_spec' is missing"),
    ],
)
def test_bad_rows(source, row, message):
    with pytest.raises(TaskError) as caught:
        palaver.make("housebuild-v0", tasks=source(row))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bounding_box_places_the_world(source):
    env = palaver.make("housebuild-v0", tasks=source(changed(bbox={"from": [12, 61, -4], "to": [10, 60, -5]})))
    told, _ = env.reset(seed=0)
    assert "The world goes from 10 60 -5 to 12 61 -4," in told["builder1"]
    assert say(env, "/kill\n/fill 10 60 -5 11 60 -4 stone", "")[3]["covered"] == 4.0
    mapping = changed(inventory={"S": "stone", "X": None}, target_spec={"layers": {"5": ["SS"]}})
    env = palaver.make("housebuild-v0", tasks=source(mapping))
    env.reset(seed=0)
    assert env.origin == (0, 5, 0)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"agents": 0}, "agents must be a whole number from 1 to 16"),
        ({"num_turns": True}, "num_turns must be a whole number"),
        ({"feedback": "none"}, "feedback must be one of score, position"),
        ({"reward": "match"}, "reward must be one of published, iou"),
        ({"difficulty": "harder"}, "difficulty must be one of easy, medium, hard"),
        ({"persistent": 1}, "persistent must be true or false"),
        ({"attack": (3, 1)}, "attack must begin with the least value"),
        ({"attack": "13"}, "attack must be two whole numbers"),
        ({"health": 0}, "health must be a whole number"),
        ({"max_commands": 0}, "max_commands must be a whole number"),
        ({"limit": 0}, "limit must be a whole number"),
        ({"feedback": "resource_schedule", "limited": False}, "feedback='resource_schedule' needs limited=True"),
        ({"render_mode": "human"}, "render_mode='human' is not offered"),
    ],
)
def test_bad_keywords(keywords, message):
    with pytest.raises(ConfigError, match="^" + message.replace("(", r"\(")):
        palaver.make("housebuild-v0", **keywords)


def test_difficulty_is_for_generated_houses(source):
    with pytest.raises(ConfigError, match="difficulty is for tasks that are made here"):
        palaver.make("housebuild-v0", tasks=source(HUT), difficulty="easy")


# --- scripted teams -----------------------------------------------------------------------------------


def play(policy, **keywords):
    """The last turn's rewards and metrics, task by task."""
    env = palaver.make("housebuild-v0", **keywords)
    found = []
    for task in env.tasks:
        told, _ = env.reset(seed=0, options={"task": task.id})
        heard = dict.fromkeys(env.agents, ())
        while env.agents:
            for agent in env.agents:
                heard[agent] += (Message("user", told[agent]),)
            said = {agent: policy(heard[agent], 0) for agent in env.agents}
            told, rewards, _, _, infos = env.step(said)
        found.append((rewards["builder1"], infos["builder1"]["metrics"]))
    return found


@pytest.mark.parametrize("agents", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("difficulty", data.SIZES)
def test_the_reference_team_builds_every_house(agents, difficulty):
    for reward, metrics in play(
        reference.house_reference, tasks="sample[:16]", agents=agents, num_turns=1, difficulty=difficulty
    ):
        assert reward == metrics["block_iou"] == 1.0
        assert metrics["rejected"] == metrics["placed_twice"] == 0.0


def test_the_reference_team_in_a_world_that_stays():
    assert {reward for reward, _ in play(reference.house_reference, tasks="sample[:4]", persistent=True)} == {1.0}


@pytest.mark.skipif(not PUBLIC.exists(), reason="the public houses are not here")
def test_public_houses():
    for agents in (1, 2, 3):
        for reward, metrics in play(reference.house_reference, tasks=str(PUBLIC), agents=agents, num_turns=1):
            assert reward == metrics["block_iou"] == 1.0
            assert metrics["rejected"] == 0.0
    for _, metrics in play(reference.house_twins, tasks=str(PUBLIC), num_turns=1):
        assert 0.4 < metrics["iou"] < 0.8
        assert metrics["placed_twice"] == metrics["covered"]  # whatever stands, both have built
    empty_worlds = [reward for reward, _ in play(lazy, tasks=str(PUBLIC), num_turns=1, spiders=0)]
    assert (round(min(empty_worlds), 3), round(max(empty_worlds), 3)) == (0.293, 0.497)


def test_scripted_builders_survive_other_prompts():
    for policy in (reference.house_reference, reference.house_twins, lazy):
        for heard in ((), (Message("user", "Hello."),), (Message("user", "The world goes from 0 0 0 to 1 1 1,"),)):
            assert policy(heard, 0) == ""


def test_rewards_stay_in_their_range(hut):
    rng = np.random.default_rng(0)
    blocks = ("stone", "glass", "air")
    for _ in range(200):
        env = hut(limited=bool(rng.integers(2)))
        said = [
            "\n".join(f"/fill {' '.join(map(str, rng.integers(0, 3, 6)))} {blocks[rng.integers(3)]}" for _ in range(6))
            for _ in range(2)
        ]
        assert -0.1 <= say(env, *said)[1] <= 1.0
