from __future__ import annotations

from pathlib import Path

import pytest

from palaver.benchmarks.experiments.marlhf import run as steps

pytest.importorskip("trl")


@pytest.fixture
def never(monkeypatch):
    monkeypatch.setattr(steps, "run", lambda *_: pytest.fail("ran"))


@pytest.mark.usefixtures("never")
def test_they_are_listed_and_explained(palaver):
    listed = palaver("experiment", "marlhf").out
    assert "reward-model " in listed
    assert "arxiv-marlhf " in listed
    ran = palaver("experiment", "marlhf", "arxiv-marlhf", "--explain", "fit.lr=0.25", "team.train.steps=7")
    rows = {line.split()[0]: line.split()[1:] for line in ran.out.splitlines() if line.strip()}
    assert rows["fit.lr"][0] == "0.25"
    assert rows["team.train.steps"][0] == "7"
    assert rows["pairs.env.length"][:2] == ["[32,", "64]"]


@pytest.mark.usefixtures("never")
def test_a_dry_run_says_what_would_be_done(palaver):
    ran = palaver("experiment", "marlhf", "arxiv-marlhf", "--dry-run", "--out", "here")
    assert ran.code == 0
    assert "192 groups of 12 joint actions of arxiv-v0, compared by the environment's reward" in ran.out
    assert "magrpo on the reward model, 60 steps" in ran.out
    assert not Path("here").exists()


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["reward-model", "pairs.file=none.jsonl"], "there is no file"),
        (["reward-model", "fit.bach=3"], "Did you mean 'batch'?"),
        (["reward-model", "file"], "write key=value"),
        (["reward-modell"], "Did you mean 'reward-model'?"),
        (["reward-model", "pairs.judge=someone"], "there is no reward 'someone'"),
        (["arxiv-marlhf", "team.env.tasks=none.jsonl"], "there is no file"),
        (["arxiv-marlhf", "team.policy.temperature=0"], "teaches nothing"),
    ],
)
def test_mistakes_are_one_line(palaver, arguments, says):
    ran = palaver("experiment", "marlhf", *arguments)
    assert ran.code == 2
    assert says in ran.err.replace("\n", " ")


@pytest.mark.usefixtures("never")
def test_several_processes_are_refused(palaver, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    ran = palaver("experiment", "marlhf", "arxiv-marlhf")
    assert ran.code == 2
    assert "in one process" in ran.err


def test_pairs_of_a_file_become_a_model(palaver, model):
    rows = [f'{{"prompt": "q{n % 4}", "chosen": "yes {n}!", "rejected": "no {n}"}}' for n in range(16)]
    Path("pairs.jsonl").write_text("\n".join(rows))
    ran = palaver(
        "experiment", "marlhf", "reward-model", "pairs.file=pairs.jsonl", f"fit.model={model}", "fit.batch=4", "--out", "rm",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert "of 4 held-out pairs of 1 tasks" in ran.out
    assert "rm:rm/reward-model" in ran.out
    assert Path("rm/reward-model/palaver_reward.json").is_file()
    again = palaver("experiment", "marlhf", "reward-model", "--out", "rm")
    assert again.code == 2
    assert "other settings" in again.err
    assert palaver("train", "--resume", "rm").code == 0
