"""StrBuild: letters, what is paid, by hand; palettes, feedback, files, and the reference team."""

from __future__ import annotations

from pathlib import Path

import pytest

import palaver
from palaver.core import ConfigError, Message, TaskError
from palaver.envs.base.scripted import lazy
from palaver.envs.minecraft import reference
from palaver.envs.minecraft.strbuild import data, reward
from palaver.envs.minecraft.strbuild.data import LETTERS, draw
from palaver.envs.minecraft.world import difference, empty

PUBLIC = Path("/work/shared/data/housebuild/strbuild.csv")
OAK, STONE, WHITE, OBSIDIAN = "oak_planks", "stone", "white_concrete", "obsidian"
# the letter L: x = 0 for y = 0 to 4, and y = 0 for x = 0 to 4; nine cells of 25
L = [(0, y) for y in range(4, 0, -1)] + [(x, 0) for x in range(5)]


def art(word, spacing=2):
    return ["".join(".#"[int(cell)] for cell in row) for row in draw(word, spacing).T[::-1]]


def test_letters_by_hand():
    assert art("I") == ["#####", "..#..", "..#..", "..#..", "#####"]
    assert art("MC", 1) == ["#...#..####", "##.##.#....", "#.#.#.#....", "#...#.#....", "#...#..####"]
    assert art("L L")[-1] == "#####" + "." * 9 + "#####"
    assert len(LETTERS) == len(set(LETTERS)) == len({tuple(art(letter)) for letter in LETTERS}) == 26


@pytest.fixture
def letter(tmp_path):
    """letter(**keywords): the environment of the letter L, started."""

    def start(**keywords):
        path = tmp_path / "words.csv"
        path.write_text("string,difficulty\nL,1\n")
        env = palaver.make("strbuild-v0", tasks=str(path), **keywords)
        env.reset(seed=0)
        return env

    return start


def blocks(*placed):
    return "\n".join(f"/setblock {x} {y} 0 {block}" for (x, y), block in placed)


def say(env, *texts):
    """The first agent's observation, reward, parts and metrics after a turn."""
    told, rewards, _, _, infos = env.step(dict(zip(env.possible_agents, texts, strict=True)))
    info = infos["builder1"]
    return told["builder1"], rewards["builder1"], info["reward_components"], info["metrics"]


def test_silence_leaves_all_blocks_unused(letter):
    _, paid, parts, metrics = say(letter(), "", "")
    assert parts == {"coverage": 0.0, "extra": 0.0, "adjacent": 0.0, "palette": -0.5}
    assert paid == -0.5
    assert metrics["palettes_unused"] == 2.0


def test_what_is_paid_by_hand(letter):
    # three cells of L side by side, two of one look; two cells beside the letter; stone stands, oak_planks nowhere
    first = blocks((L[0], STONE), (L[1], STONE), ((3, 3), STONE))
    second = blocks((L[2], WHITE), ((4, 4), OBSIDIAN))
    _, paid, parts, metrics = say(letter(), first, second)
    assert parts["coverage"] == pytest.approx(2 * 3 / 9)
    assert parts["extra"] == pytest.approx(-1.5 * 2 / 16)
    assert parts["adjacent"] == pytest.approx(-1 / 2)
    assert parts["palette"] == -0.25
    assert paid == pytest.approx(sum(parts.values()))
    assert metrics["iou"] == pytest.approx(3 / (9 + 2))
    assert (metrics["covered"], metrics["missing"], metrics["extra"]) == (3.0, 6.0, 2.0)
    assert "block_iou" not in metrics


def test_all_of_it_with_every_block_is_paid_in_full(letter):
    first = blocks(*[(cell, (OAK, STONE)[n % 2]) for n, cell in enumerate(L[::2])])
    second = blocks(*[(cell, (WHITE, OBSIDIAN)[n % 2]) for n, cell in enumerate(L[1::2])])
    _, paid, _, metrics = say(letter(), first, second)
    assert paid == 2.0
    assert metrics["iou"] == metrics["complete"] == metrics["coverage"] == 1.0


def test_builders_have_their_own_blocks_and_later_ones_overwrite(letter):
    env = letter()
    told, _, _, metrics = say(
        env, blocks((L[0], OBSIDIAN), (L[1], OAK), (L[2], OAK)), blocks((L[1], WHITE), (L[2], "air"))
    )
    assert metrics["illegal"] == 1.0
    assert "'/setblock 0 4 0 obsidian': the block 'obsidian' is not yours to place" in told
    assert [env.owner[x, y, 0] for x, y in L[:3]] == [0, 2, 0]
    assert env.built[0, 2, 0] == 0


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (OAK, "birch_planks", True), (OAK, "oak_wood", True), (STONE, "cobblestone", True),
        (STONE, "mossy_stone_bricks", True), ("smooth_stone", "END_STONE", True), (WHITE, "red_concrete", True),
        (STONE, OAK, False), (WHITE, OBSIDIAN, False), ("glass", "glass", True), ("glass", "bricks", False),
    ],
)  # fmt: skip
def test_what_looks_alike(one, other, alike):
    assert (reward.texture(one) == reward.texture(other)) is alike


def test_neighbours_above_and_beside():
    target, built = empty((2, 2, 1)), empty((2, 2, 1))
    target[:] = 1
    built[:, :, 0] = [[1, 2], [3, 1]]  # planks, stone; cobblestone, planks: four pairs, none alike
    palette = (OAK, STONE, "cobblestone")
    found = reward.measure(built, palette, difference(target, built, shape_only=True), [palette])
    assert (found.adjacent_ratio, found.coverage, found.unused) == (0.0, 1.0, 0)
    built[:, :, 0] = [[1, 2], [1, 3]]  # planks beside planks, stone beside cobblestone: two of four
    found = reward.measure(built, palette, difference(target, built, shape_only=True), [palette])
    assert found.adjacent_ratio == 0.5
    built[:] = 0
    assert reward.measure(built, palette, difference(target, built, shape_only=True), [palette]).adjacent_ratio == 0.0


def test_rewards_stay_in_their_range(letter):
    everything = [(x, y) for x in range(5) for y in range(5)]
    for own in (blocks(*((cell, STONE) for cell in everything)), blocks(*((cell, OAK) for cell in everything))):
        _, paid, parts, _ = say(letter(), own, "")
        assert parts["extra"] == -1.5
        assert parts["adjacent"] == -1.0
        assert -2.5 - 0.5 <= paid <= 2.0


# --- what is told -------------------------------------------------------------------------------------


def test_the_opening(letter):
    env = letter(num_turns=2)
    text = env.reset(seed=0)[0]["builder2"]
    assert "The word is L. The world goes from 0 0 0 to 4 4 0, y is up," in text
    for line in ("y=4: 0", "y=0: 0 to 4", "You have 150 commands a turn."):
        assert line in text.splitlines()
    assert "Your blocks: white_concrete, obsidian; air empties." in text


def test_every_feedback(letter):
    said = (blocks(*((cell, STONE) for cell in L[:3]), ((3, 3), STONE)), "")
    for mode in ("score", "position", "perfect"):
        lines = say(letter(feedback=mode), *said)[0].splitlines()
        assert lines[0] == "Turn 1 of 4 is over. Reward -0.9271, IoU 0.3000."  # 6/9 - 1.5/16 - 1 - 0.5
        if mode == "score":
            assert len(lines) == 2
        if mode == "position":
            assert lines[2:4] == ["Wrong cells:", "0 0 0: fill"]
            assert lines[-1] == "3 3 0: empty"
            assert len(lines) == 3 + 6 + 1
        if mode == "perfect":
            assert lines[2:] == [
                "Cells to fill:", "y=1: 0", "y=0: 0 to 4", "Cells to empty:", "y=3: 3",
                "Neighbours that look alike: 0 2 and 0 3; 0 3 and 0 4.",
            ]  # fmt: skip
    assert say(letter(limit=2), "", "")[0].splitlines()[2:] == ["Wrong cells (2 of 9):", "0 0 0: fill", "1 0 0: fill"]


# --- tasks and keywords -------------------------------------------------------------------------------


def test_generated_words():
    assert [row["string"] for row in data.rows(5, 1, "hard")] == [row["string"] for row in data.rows(9, 1, "hard")][:5]
    assert sorted(row["string"] for row in data.rows(64, 0, "easy")) == list(LETTERS)
    for number, (difficulty, (low, high)) in enumerate(data.LENGTHS.items(), start=1):
        rows = data.rows(20, 5, difficulty)
        assert len({row["string"] for row in rows}) == 20
        assert {row["difficulty"] for row in rows} == {number}
        assert all(low <= len(row["string"]) <= high for row in rows)
    with pytest.raises(TaskError, match="asks for 27 different tasks, but there are only 26"):
        palaver.make("strbuild-v0", tasks="generated:0:27", difficulty="easy")


@pytest.mark.parametrize("word", ["L1", "É", "L" * 65, "-"])
def test_bad_words(tmp_path, word):
    path = tmp_path / "words.csv"
    path.write_text(f"string\n{word}\n")
    with pytest.raises(TaskError, match="the field 'string' must be letters A to Z and spaces, 64 at most"):
        palaver.make("strbuild-v0", tasks=str(path))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"palettes": [["stone"]]}, "palettes must list the blocks of each of 2 builders"),
        ({"palettes": "stone"}, "palettes must list the blocks of each of 2 builders"),
        ({"palettes": [["stone"], []]}, "palettes: a builder needs a list of one block or more"),
        ({"palettes": [["stone"], ["air"]]}, "palettes: a builder needs a list of one block or more"),
        ({"palettes": [["stone"], ["a b"]]}, "palettes: a builder needs a list of one block or more"),
        ({"palettes": [["stone"], "glass"]}, "palettes: a builder needs a list of one block or more"),
        ({"spacing": -1}, "spacing must be a whole number from 0 to 100"),
        ({"feedback": "rect_modification"}, "feedback must be one of score, position, perfect"),
        ({"difficulty": 2}, "difficulty must be one of easy, medium, hard"),
        ({"agents": 17}, "agents must be a whole number from 1 to 16"),
    ],
)
def test_bad_keywords(keywords, message):
    with pytest.raises(ConfigError, match="^" + message):
        palaver.make("strbuild-v0", **keywords)


# --- scripted teams -----------------------------------------------------------------------------------


def play(policy, **keywords):
    """The rewards and metrics of one turn, task by task."""
    env = palaver.make("strbuild-v0", num_turns=1, **keywords)
    found = []
    for task in env.tasks:
        told, _ = env.reset(seed=0, options={"task": task.id})
        said = {agent: policy((Message("user", text),), 0) for agent, text in told.items()}
        _, rewards, _, _, infos = env.step(said)
        found.append((rewards["builder1"], infos["builder1"]["metrics"]))
    return found


@pytest.mark.parametrize(("agents", "difficulty"), [(1, "easy"), (2, "easy"), (2, "medium"), (3, "hard"), (4, "hard")])
def test_the_reference_team_earns_the_most_there_is(agents, difficulty):
    for paid, metrics in play(reference.word_reference, agents=agents, difficulty=difficulty):
        assert paid == 2.0
        assert metrics["placed_twice"] == metrics["rejected"] == 0.0


def test_other_palettes():
    own = [["glass"], ["ice", "bricks", "sand"]]
    assert {paid for paid, _ in play(reference.word_reference, palettes=own, tasks="sample[:8]")} == {2.0}


@pytest.mark.skipif(not PUBLIC.exists(), reason="the public words are not here")
def test_public_words():
    env = palaver.make("strbuild-v0", tasks=str(PUBLIC))
    assert [task.id for task in env.tasks] == ["I", "C", "M", "L", "MC", "CM", "LI", "LLM", "ICML", "CLIM"]
    for agents in (1, 2, 3):
        assert {paid for paid, _ in play(reference.word_reference, tasks=str(PUBLIC), agents=agents)} == {2.0}
    # the first builder's work is lost
    assert {paid for paid, _ in play(reference.word_twins, tasks=str(PUBLIC))} == {1.75}
    assert {paid for paid, _ in play(lazy, tasks=str(PUBLIC))} == {-0.5}


def test_scripted_builders_survive_other_prompts():
    for policy in (reference.word_reference, reference.word_twins, lazy):
        for heard in ((), (Message("user", "Hello."),)):
            assert policy(heard, 0) == ""
