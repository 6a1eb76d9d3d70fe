"""Problems from a seed: their answers by other means, what is held out, what each difficulty has."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

import palaver
from palaver.core import ConfigError, Message, TaskError, stable_seed
from palaver.envs.maths import answers, reference
from palaver.envs.maths.mini import corpus
from palaver.envs.maths.problems import DIFFICULTIES, LEVELS, MathProblem, Operation, draw, held_out, rows, solve


def test_by_hand():
    story = MathProblem(7, (Operation("+", 5, 2), Operation("-", 3, 0)), "Cleo", "coins")
    assert story.question == "Cleo has 7 coins. A friend brings 5 more. Cleo loses 3. How many coins has Cleo now?"
    assert story.rationale == "7 + 5 = 12, 12 - 3 = 9 coins. #### 9"
    assert (
        MathProblem(2, (Operation("+", 3, 0), Operation("*", 2, 0), Operation("-", 4, 0))).question
        == "What is (2 + 3) * 2 - 4?"
    )


@pytest.mark.parametrize("difficulty", LEVELS)
def test_every_answer_is_right(difficulty):
    """A bare sum is worked out by Python, a story by reading its sentences with other patterns than the generator's."""
    steps = {"easy": 1, "medium": 2, "hard": 3}[difficulty]
    for row in rows(200, 3, difficulty):
        question, truth = row["question"], int(answers.gold(row["answer"]).key)
        assert 0 <= truth <= (40 if difficulty == "hard" else 12)
        if bare := re.fullmatch(r"What is (.*)\?", question):
            assert eval(bare[1]) == truth
            continue
        total, sentences = 0, question.split(".")
        for sentence in sentences[:-1]:
            number = int(re.search(r"\d+", sentence)[0])
            if " has " in sentence or "more" in sentence:
                total += number
            elif "times" in sentence:
                total *= number
            else:
                total -= number
        assert total == truth
        assert len(sentences) == steps + 2


def test_rows():
    assert rows(5, 1) == rows(9, 1)[:5]
    assert rows(5, 1) != rows(5, 2)
    made = rows(300, 0, "easy")
    assert len({row["question"] for row in made}) == len({row["id"] for row in made}) == 300


def test_one_in_four_of_mixed_tasks_is_hard_and_the_others_are_medium():
    steps = [len(solve(row["question"]).steps) for row in rows(800, 2, "mixed")]
    assert set(steps) == {2, 3}
    assert steps.count(3) / 800 == pytest.approx(0.25, abs=0.05)  # three standard errors: 3 sqrt(.25 * .75 / 800)


def test_one_in_five_is_held_out_and_none_of_these_is_imitated():
    rng = random.Random(0)
    assert all(held_out(draw(rng, "easy", tasks=True)) for _ in range(50))
    imitated = {
        conversation[0].content.partition("\n")[0]
        for conversation, _ in corpus.demonstrations(2000, stable_seed("tiny texts", 0))
    }
    assert len(imitated) > 400
    tasks = {row["question"] for d in DIFFICULTIES for row in rows(500, 0, d)}
    assert not imitated & tasks
    assert all(stable_seed("maths held out", question) % 5 for question in imitated)


def test_solving_is_reading():
    assert solve("What is (2 + 3) * 2 - 4?") == (2, [("+", 3), ("*", 2), ("-", 4)], "")
    for text in ("", "What is love?", "What is + 3?", "Ada has 3 apples. Ada eats 2. How many apples has Ada now?"):
        assert solve(text) is None


def test_demonstrations_are_answers_to_the_environments_own_prompts():
    found = corpus.demonstrations(1600, 1)
    assert corpus.demonstrations(40, 1) == found[:40]
    asked = Counter(len(conversation) for conversation, _ in found)
    assert asked[1] > asked[3] > 0
    last = "\n".join(conversation[-1].content.rpartition("\n")[2] for conversation, _ in found)
    for ask in ("Answer the question again.", "for all.", "APPROVE or REJECT.", "its number.", "Go on, and answer."):
        assert ask in last
    assert all(answers.read(answer).key or answer in ("APPROVE", "REJECT") for _, answer in found)


def test_muddlers_err_but_not_always():
    env = palaver.make("maths-mini-v0", workflow="parallel", agents=1)
    right = 0
    for task in env.tasks:
        told, _ = env.reset(options={"task": task.id})
        said = reference.muddler((Message("user", told["solver1"]),), 0)
        right += env.step({"solver1": said})[1]["solver1"]
    assert 0.4 < right / len(env.tasks) < 0.9  # 0.8 * 0.8 = 0.64, and two errors may cancel out


@pytest.mark.parametrize(
    "name", ["parallel", "debate", "vote", "summary", "chain", "pioneer", "verify", "solver_judge"]
)
@pytest.mark.parametrize("id", ["gsm8k-v0", "maths-mini-v0"])
def test_the_reference_is_right_in_every_seat(id, name):
    env = palaver.make(id, workflow=name, tasks="sample[:8]", reward_scheme={"who": "own", "format": 1})
    for task in env.tasks:
        told, infos = env.reset(options={"task": task.id})
        heard = dict.fromkeys(env.possible_agents, ())
        while env.agents:
            acting = [agent for agent in env.agents if infos[agent]["can_act"]]
            for agent in acting:
                heard[agent] += (Message("user", told[agent]),)
            said = {agent: reference.reference(heard[agent], 0) for agent in acting}
            for agent in acting:
                heard[agent] += (Message("assistant", said[agent]),)
            told, rewards, _, _, infos = env.step(said)
            assert {agent: rewards[agent] for agent in acting} == dict.fromkeys(acting, 1.0)
        assert infos[env.possible_agents[0]]["metrics"]["correct"] == 1.0


@pytest.mark.parametrize(
    ("keywords", "error", "told"),
    [
        ({"difficulty": "huge"}, ConfigError, "difficulty must be one of easy"),
        ({"difficulty": "easy", "tasks": "x.jsonl"}, ConfigError, "made here"),
        ({"tasks": "generated:0:50000", "difficulty": "easy"}, TaskError, "there are only"),
    ],
)
def test_what_cannot_be_made(keywords, error, told):
    with pytest.raises(error, match=told):
        palaver.make("maths-mini-v0", **keywords)
