"""The algorithms' pages: computed parts are current, the worked examples are right, every logged name is explained."""

from __future__ import annotations

import re

import pytest

from docs.build import algorithm_pages as pages
from palaver.trainers.algorithms.base import ALGORITHMS, algorithm
from palaver.trainers.config.loading import parse
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import train
from tests.trainers.toys import SEATS, forget_toy, register_toy, save_model

# returns 0, 1, 1, 2: mean 1, population variance (1+0+0+1)/4 = 1/2, unbiased variance 2/3
# rows: normalize none; std, population; std, unbiased
EXAMPLES = {
    "magrpo": ["-1.00 +0.00 +0.00 +1.00", "-1.41 +0.00 +0.00 +1.41", "-1.22 +0.00 +0.00 +1.22"],
    "mareinforce": ["+0.00 +1.00 +1.00 +2.00", "+0.00 +1.41 +1.41 +2.83", "+0.00 +1.22 +1.22 +2.45"],
    "marloo": ["-1.33 +0.00 +0.00 +1.33", "-1.89 +0.00 +0.00 +1.89", "-1.63 +0.00 +0.00 +1.63"],
    "maremax": ["-2.00 -1.00 -1.00 +0.00", "-2.83 -1.41 -1.41 +0.00", "-2.45 -1.22 -1.22 +0.00"],
}


def test_every_algorithm_has_its_page():
    assert {path.stem for path in pages.FOLDER.glob("*.md")} == {*ALGORITHMS, "policy-gradient", "value-mixing"}
    for name in ALGORITHMS:
        text = (pages.FOLDER / f"{name}.md").read_text(encoding="utf-8")
        assert re.findall(r"<!-- computed: (\w+) -->", text) == ["row", "example", "keys"]
        assert re.search(rf"^palaver train \w+-{name}$", text, re.MULTILINE), name


def _cells(table: str) -> list[list[str]]:
    """The numbers of each line of a table, head and labels left out."""
    return [[cell.strip() for cell in line.split("|")[2:-1]] for line in table.splitlines()[2:]]


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples(name):
    lines = _cells(pages.example(algorithm(name)))
    assert lines[0] == ["0.00", "1.00", "1.00", "2.00"]
    assert [" ".join(line) for line in lines[1:]] == EXAMPLES[name]


@pytest.mark.parametrize("name", ["atgrpo", "drmas", "grpo", "dr-grpo", "dapo", "gspo", "cispo"])
def test_worked_examples_of_groups_with_a_clip(name):
    group, clip = pages.example(algorithm(name)).split("\n\n")
    assert [" ".join(line) for line in _cells(group)] == ["0.00 1.00 1.00 2.00", *EXAMPLES["magrpo"]]
    assert [" ".join(line) for line in _cells(clip)] == OTHER_CLIPS.get(name, CLIPPED)


def test_what_a_name_sets_is_on_its_page():
    assert "| the name sets | `algorithm.turns: by_agent`, `algorithm.discount: 0`," in pages.choices(
        algorithm("atgrpo")
    )
    assert "`kl.place: reward`, `team.swap_every: 5` |" in pages.choices(algorithm("cory"))
    assert "| `critic.huber` | `10` |" in pages.keys(algorithm("mappo"))
    assert "| `critic.huber` | `null` |" in pages.keys(algorithm("ippo"))
    assert "| `algorithm.discount` | `0` |" in pages.keys(algorithm("atgrpo"))
    assert "| `algorithm.discount` | `1` |" in pages.keys(algorithm("magrpo"))
    assert "the name sets" not in pages.choices(algorithm("magrpo"))


# values 1/4, 1/4, 3/2, 3/2: A = -1/4, 3/4, -1/2, 1/2 of mean 1/8 and variance (9 + 25 + 25 + 9)/256 = 17/64
VALUED = ["0.00 1.00 1.00 2.00", "0.25 0.25 1.50 1.50", "-0.25 +0.75 -0.50 +0.50", "-0.73 +1.21 -1.21 +0.73"]
# rewards 0, 1; values 0.3, 0.6; discount 0.9: deltas 0.9 * 0.6 - 0.3 = 0.24 and 1 - 0.6 = 0.4;
# A_1 = 0.24 + 0.9 lambda 0.4 = 0.24, 0.582, 0.6 for lambda 0, 0.95, 1; the return is A + V
CHAINED = [
    "0.00 1.00", "0.30 0.60", "0.54 1.00", "+0.24 +0.40", "0.88 1.00", "+0.58 +0.40", "0.90 1.00", "+0.60 +0.40",
]  # fmt: skip
# reward 2, values .5, 1, 1.5, costs .1, .2, .3. Lambda 0: -.1 + 1, -.2 + 1.5, 1.7. Lambda 1: 1.4, 1.5, 1.7. Lambda .95:
# -.2 + .05 * 1.5 + .95 * 1.7 = 1.49, -.1 + .05 * 1 + .95 * 1.49 = 1.3655
TOKENS = [
    "0.50 1.00 1.50", "0.10 0.20 0.30", "0.90 1.30 1.70", "+0.40 +0.30 +0.20", "1.37 1.49 1.70", "+0.87 +0.49 +0.20",
    "1.40 1.50 1.70", "+0.90 +0.50 +0.20",
]  # fmt: skip
# ratios 0.5, 0.9, 1.1, 1.5, clipped to 0.8 .. 1.2; d rho / d log pi = rho where the clip does not hold it
CLIPPED = [
    "-0.50 -0.90 -1.10 -1.20", "-0.50 -0.90 -1.10 +0.00", "+0.80 +0.90 +1.10 +1.50", "+0.00 +0.90 +1.10 +1.50",
]  # fmt: skip
# DAPO: at most 1.28. GSPO: 0.9997 to 1.0004. CISPO: -A rho log rho, held at rho = 5, of slope -A rho;
# 0.5 log 0.5 = -0.35, 0.9 log 0.9 = -0.09, 1.1 log 1.1 = 0.10, 1.5 log 1.5 = 0.61
OTHER_CLIPS = {
    "dapo": ["-0.50 -0.90 -1.10 -1.28", *CLIPPED[1:]],
    "gspo": [
        "-0.50 -0.90 -1.00 -1.00", "-0.50 -0.90 +0.00 +0.00", "+1.00 +1.00 +1.10 +1.50", "+0.00 +0.00 +1.10 +1.50",
    ],
    "cispo": [
        "+0.35 +0.09 -0.10 -0.61", "-0.50 -0.90 -1.10 -1.50", "-0.35 -0.09 +0.10 +0.61", "+0.50 +0.90 +1.10 +1.50",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", ["iac", "maac", "ippo", "mappo", "happo", "cory"])
def test_worked_examples_of_critics(name):
    tables = [[" ".join(line) for line in _cells(table)] for table in pages.example(algorithm(name)).split("\n\n")]
    assert tables == [VALUED, CHAINED, *[TOKENS] * (name == "cory"), *[CLIPPED] * (not name.endswith("ac"))]
    level = "one before each token" if name == "cory" else "one of each completion"
    assert f"| values | {level} |" in pages.choices(algorithm(name))


def test_worked_example_of_the_moving_mean():
    """Means 0, 0.05, 0.95 * 0.05 - 0.05 = -0.0025, 0.95 * -0.0025 + 0.05 = 0.047625."""
    assert [" ".join(line) for line in _cells(pages.example(algorithm("rae")))] == [
        "1 -1 1 1", "0 0.05 -0.0025 0.047625", "1 -1.05 1.0025 0.952375",
    ]  # fmt: skip


def test_worked_examples_of_mixers():
    """Q_a = 1, 2, 6 and Q_b = 4, 0. Of the sum: (1, 4) is 5, less the mean of 5, 6, 10 is -2, less that of 5, 1 is 2.

    QMIX: ELU(q_a + q_b / 2 - 4) + ELU(q_a + 2 q_b) / 2 + 1 is e^-1 - 1 + 4.5 + 1 = 4.868 for (1, 4), then 6 and 12;
    for (1, 0) e^-3 - 1 + 0.5 + 1 = 0.550. 4.868 less the mean of 4.868, 6, 12 is -2.755, of 4.868, 0.550 is 2.159.
    """
    tables = {
        name: [[" ".join(line) for line in _cells(part)] for part in pages.example(algorithm(name)).split("\n\n")]
        for name in ("vdn", "qmix")
    }
    assert tables["vdn"][0] == ["5.00 1.00", "6.00 2.00", "10.00 6.00"]
    assert tables["vdn"][1][0] == "5.00 -2.00 +2.00"
    assert tables["qmix"][0] == ["4.87 0.55", "6.00 1.14", "12.00 6.00"]
    assert tables["qmix"][1][0] == "4.87 -2.75 +2.16"


def test_worked_example_of_pairs():
    """Beta 0.5, h = -2, 0, 2, 10: log(1 + e) = 1.31, log 2, 0.31, 0.0067; gains 0.5 / (1 + e^(h / 2)): 0.37, 0.25, ...

    Returns 0, 1, 1, 2: five pairs, each with a gain of 1/4. The first loses three, the last wins three, the others win
    and lose one: -3, 0, 0, 3 quarters, times 4 rows over 5 pairs. The extremes are one pair: -1/4 and 1/4, times 4.
    """
    margins, weights = pages.example(algorithm("madpo")).split("\n\n")
    assert [" ".join(line) for line in _cells(margins)] == ["1.31 0.69 0.31 0.01", "0.37 0.25 0.13 0.00"]
    assert [" ".join(line) for line in _cells(weights)] == [
        "0.00 1.00 1.00 2.00", "-0.60 +0.00 +0.00 +0.60", "-1.00 +0.00 +0.00 +1.00",
    ]  # fmt: skip
    assert {name for name in ALGORITHMS if "`algorithm.pairs.most`" in pages.keys(algorithm(name))} == {"madpo"}


def test_keys_of_mixers_stand_where_there_is_one():
    assert {name for name in ALGORITHMS if "`algorithm.mixer.buffer`" in pages.keys(algorithm(name))} == {"vdn", "qmix"}
    assert "`algorithm.mixer`" not in pages.keys(None)
    assert "| mixer | `mixers.monotonic`" in pages.choices(algorithm("qmix"))
    assert "| mixer |" not in pages.choices(algorithm("magrpo"))


def test_keys_of_critics_stand_where_there_is_one():
    assert {name for name in ALGORITHMS if "`critic.lr`" in pages.keys(algorithm(name))} == {
        "iac", "maac", "ippo", "mappo", "happo", "cory",
    }  # fmt: skip
    assert "`critic.lr`" in pages.keys(None)


LOGGED = [
    {"algorithm": {"name": "magrpo", "group_size": 2, "resample": 1, "overlong": 2}},
    {"algorithm": {"name": "ippo"}, "kl": {"coef": 0.1}},
    {"algorithm": {"name": "ippo", "old": "learner", "truncate": 2.0, "mask": [0.5, 5.0]}},
    {"algorithm": {"name": "mappo"}, "team": {"kind": "shared"}},
    {"algorithm": {"name": "vdn", "group_size": 2, "mixer": {"batch": 1, "start": 0}}},
    {"algorithm": {"name": "madpo"}, "kl": {"coef": 0.1}},
    {"algorithm": {"name": "iac"}, "team": {"swap_every": 1}, "critic": {"model": "shared"}},
    {"env": {"id": "letters-v0"}, "algorithm": {"name": "happo", "group_size": 16}},
    {
        "env": {
            "id": "matrix-v1",
            "game": {"agents": ["a", "b"], "actions": ["l", "r"], "payoffs": [[[1, -1], [-1, 1]], [[-1, 1], [1, -1]]]},
        },
        "algorithm": {"name": "rae"},
        "eval": {"n": 1, "opponent": "scripted:uniform"},
    },
]


@pytest.fixture
def toy(tmp_path):
    register_toy()
    yield save_model(tmp_path / "m")
    forget_toy()


def test_every_logged_name_is_explained(tmp_path, toy):
    names, evaluated = set(), set()
    for number, changes in enumerate(LOGGED):
        config = parse({
            "env": {"id": "lengths-v0"}, "policy": {"model": toy, "max_tokens": 4}, "train": {"steps": 1},
            "eval": {"n": 1}, "device": "cpu", "log": {"tensorboard": False, "episodes": False}, **changes,
        })  # fmt: skip
        before, step, _ = read_metrics(train(config, tmp_path / f"run{number}") / "metrics.jsonl")
        names |= set(step)
        evaluated |= {re.sub(rf"^({'|'.join(SEATS)})/", "AGENT/", name) for name in before}
    text = (pages.FOLDER / "policy-gradient.md").read_text(encoding="utf-8")
    section = text.partition("## What is logged")[2].partition("## Keys")[0]
    first = "".join(line.split("|")[1] for line in section.splitlines() if line.startswith("|"))
    explained = set(re.findall(r"`([^`]+)`", first))
    assert {name for name in names if name.startswith("critic/joint/")}
    general = {re.sub(r"^(component|metric)/.*", r"\1/NAME", name) for name in names}
    general = {re.sub(r"^critic/[^/]+/", "critic/NAME/", name) for name in general}
    general = {re.sub(rf"^({'|'.join(SEATS)})/", "AGENT/", name) for name in general}
    elsewhere = {"AGENT/engine_drift", "time/overlap_s"}  # see tests/agents/vllm, tests/trainers/placement
    assert (general | evaluated) - {"kind"} | elsewhere == explained
