from __future__ import annotations

import json
from pathlib import Path

import pytest

import palaver as package
from palaver.episodes import Episode


def test_the_result_names_what_is_needed_to_get_it_again(palaver):
    ran = palaver(
        "evaluate", "echo-v0", "--team", "a1=scripted:reference,a2=scripted:lazy", "-n", 4, "--samples", 2,
        "--seed", 7, "--json",
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out)
    # a1 answers rightly in every turn and is paid 1.5; a2 says nothing and is paid 0: 3 turns x (1.5 + 0) / 2
    assert (found["mean"], found["low"], found["high"], found["n"], found["tasks"]) == (2.25, 2.25, 2.25, 8, 4)
    assert sum(found["components"].values()) == pytest.approx(2.25)
    assert (found["env"], found["seed"], found["samples"], found["max_reward"]) == ("echo-v0", 7, 2, 4.5)
    assert found["provenance"]["palaver"] == package.__version__


def test_the_table_shows_mean_interval_and_n(palaver):
    ran = palaver("evaluate", "echo-v0", "--team", "scripted:reference", "--n", 3)
    assert "4.500 [4.500, 4.500] of 4.5" in ran.out
    assert "3 (3 tasks x 1)" in ran.out
    assert "illegal answers   0 of 18 (0.0 %)" in ran.out  # two players in three turns of each


def test_one_task_has_no_interval(palaver):
    arguments = ("evaluate", "echo-v0", "--team", "scripted:reference", "--n", 1, "--samples", 4)
    assert "4.500 [–] of 4.5" in palaver(*arguments).out
    found = json.loads(palaver(*arguments, "--json").out)
    assert (found["mean"], found["low"], found["high"]) == (4.5, None, None)


def test_the_most_possible_follows_the_keywords(palaver):
    ran = palaver("evaluate", "echo-v0", "num_turns=2", "--team", "scripted:reference", "--n", 3)
    assert "3.000 [3.000, 3.000] of 3" in ran.out


def test_the_same_seed_gives_the_same_numbers_and_another_does_not(palaver):
    def rewards(seed: int) -> list[float]:
        palaver("evaluate", "tldr-v0", "--team", "random", "-n", 6, "--seed", seed, "--out", "e.jsonl", "gated=false")
        lines = Path("e.jsonl").read_text(encoding="utf-8").splitlines()
        return [Episode.from_dict(json.loads(line)).team_return() for line in lines]

    first = rewards(1)
    assert len(first) == 6
    assert first == rewards(1) != rewards(2)


def test_tasks_by_option_or_by_keyword(palaver):
    one = json.loads(palaver("evaluate", "echo-v0", "--team", "random", "--tasks", "sample[:2]", "--json").out)
    two = json.loads(palaver("evaluate", "echo-v0", "--team", "random", "tasks=sample[:2]", "--json").out)
    assert one["tasks"] == two["tasks"] == 2
    assert one["mean"] == two["mean"]
    ran = palaver("evaluate", "echo-v0", "--tasks", "sample", "tasks=sample")
    assert (ran.code, "named twice" in ran.err) == (2, True)


def test_a_scenario_in_place_of_an_environment(palaver):
    ran = palaver("evaluate", "maths-stubborn-v2", "--team", "scripted:reference", "--row", "rows", "--label", "right")
    assert ran.code == 0
    assert "added in focus    1.000 [1.000, 1.000]" in ran.out
    assert "silence earns     0.000" in ran.out
    assert "illegal answers   0 of 128 (0.0 %)" in ran.out
    row = json.loads(Path("rows/maths-stubborn-v2--right.json").read_text(encoding="utf-8"))
    assert (row["scenario"], row["env"], row["label"]) == ("maths-stubborn-v2", "maths-mini-v0", "right")
    assert row["focal"]["by_seating"] == {"solver1": 1.0, "solver2": 1.0}


def test_one_seat_against_an_opponent(palaver):
    ran = palaver(
        "evaluate", "matrix-v1", "game=prisoners-dilemma", "--team", "a1=scripted:uniform,a2=scripted:reference",
        "--focal", "a1", "-n", 4, "--json",
    )  # fmt: skip
    found = json.loads(ran.out)
    assert found["focal"]["seatings"] == [["a1"]]
    assert found["focal"]["mean"] != found["mean"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["arxv-v0"], "Did you mean 'arxiv-v0'?"),
        (["arxiv-v0", "--team", "random", "--tasks", "nope.jsonl"], "there is no file 'nope.jsonl'"),
        (["arxiv-v0", "--team", "random", "--tasks", "sample[9000:]"], "is empty"),
        (["arxiv-v0", "--team", "random", "--tasks", "rows.jsonl"], "row 0: the field 'abstract_text'"),
        (["arxiv-v0", "--team", "tiny", "--tasks", "good.jsonl"], "model.force=true"),
        (["arxiv-v0", "--team", "random", "length=3"], "length must be"),
        (["arxiv-v0", "--team", "/no/such/model"], "'/no/such/model'"),
        (["arxiv-v0", "--team", "run:nope"], "there is no run folder 'nope'"),
        (["arxiv-v0", "--team", "run:."], "is not a run folder"),
        (["arxiv-v0", "--team", "background=run:nope,method=random"], "there is no run folder 'nope'"),
        (["arxiv-v0", "--team", "background=random"], "has no policy for the agent 'method'"),
        (["arxiv-v0", "--team", "random", "--out", "good.jsonl/place.jsonl"], "cannot write 'good.jsonl'"),
        (["arxiv-v0", "--team", "random", "--out", "folder"], "--out 'folder' is a folder; name a file"),
        (["arxiv-v0", "--team", "recipe:arxiv-magrqo"], "there is no recipe 'arxiv-magrqo'"),
        (
            ["arxiv-v0", "--team", "random", "--focal", "methd"],
            "no agent 'methd' to be focal. Did you mean 'method'",
        ),
        (["matrix-v1", "game=prisoners-dilemma", "--team", "random"], "rate players with: palaver arena matrix-v1"),
        (["maths-stubborn-v2", "--team", "random", "--seed", "3"], "leave --seed out"),
        (["maths-stubborn-v2", "rounds=2", "--team", "random"], "leave rounds out"),
        (["mine-v1.yaml", "--team", "random"], "there is no scenario file 'mine-v1.yaml'"),
        (["pokemon-v1", "--team", "p1=simple@1,p2=random"], "palaver arena pokemon-v1 --players simple@1,OTHER"),
    ],
)
def test_mistakes_are_one_line(palaver, arguments, says):
    row = {"id": "1", "title": "A title", "abstract_text": "An abstract."}
    Path("good.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    Path("rows.jsonl").write_text(json.dumps({"id": "1", "title": "A title"}) + "\n", encoding="utf-8")
    Path("folder").mkdir()
    ran = palaver("evaluate", *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert says in ran.err
