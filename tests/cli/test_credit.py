"""`palaver results analyse`: the diagnostics of a run, and folders that hold none."""

from __future__ import annotations

import json


def test_a_run_from_the_command_line(tmp_path, palaver):
    run = tmp_path / "run"
    small = ["train.steps=1", "train.prompts_per_step=1", "algorithm.group_size=2", "eval.n=0", f"--out={run}"]
    assert palaver("train", "matrix-c3", *small).code == 0
    asked = ["results", "analyse", str(run), "--tasks", "1", "--contexts", "2", "--alternatives", "2", "--replays", "1"]
    found = json.loads(palaver(*asked, "--json").out)
    assert found["contexts"] == 2
    assert found["replays"] == 2 * (2 + 2)
    shown = palaver(*asked)
    assert "credit fidelity" in shown.out
    assert "2 contexts" in shown.out


def test_the_worth_of_messages_is_kept_and_drawn_in_the_report(tmp_path, palaver):
    run = tmp_path / "run"
    small = ["train.steps=1", "train.prompts_per_step=1", "algorithm.group_size=2", "eval.n=0", f"--out={run}"]
    assert palaver("train", "matrix-c3", *small).code == 0
    printed = palaver("results", "analyse", str(run), "--messages", "--tasks", "2", "--json").out
    assert json.loads(printed) == json.loads((run / "messages.json").read_text())
    assert palaver("report", str(run)).code == 0
    assert "return per 100 tokens" in (run / "report.html").read_text()


def test_the_worth_of_messages_from_the_row_of_a_language_model(tmp_path, palaver):
    """Its sampling is read from JSON, which has no tuples."""
    team = ["hidden-profile-v0", "form=tiny", "sampling.max_tokens=72", "--team", "tiny", "--n", "2"]
    assert palaver("evaluate", *team, f"--row={tmp_path}").code == 0
    row = tmp_path / "hidden-profile-v0--tiny.json"
    found = json.loads(palaver("results", "analyse", str(row), "--tasks", "2", "--json").out)
    assert found["episodes"] == 2
    assert found["facts"]["n"] == 2 * 3  # one of each agent
    stored = json.loads(row.read_text())
    stored["sampling"]["p1"] = {**stored["sampling"], "max_tokens": 1}
    row.write_text(json.dumps(stored))
    other = json.loads(palaver("results", "analyse", str(row), "--tasks", "2", "--json").out)
    assert other["facts"]["sent"] < found["facts"]["sent"]


def test_a_folder_without_a_run(tmp_path, palaver):
    told = palaver("results", "analyse", str(tmp_path))
    assert told.code == 2
    assert "there is no run" in told.err


def test_a_run_is_restored_with_the_agents_as_the_checkpoint_assigned_them(tmp_path, palaver):
    from palaver.trainers.train import restore

    run = tmp_path / "run"
    small = ["train.steps=1", "train.prompts_per_step=1", "algorithm.group_size=2", "eval.n=0", f"--out={run}"]
    assert palaver("train", "matrix-c3", "team.swap_every=1", *small).code == 0
    found = restore(run)
    homes = found.config.team.seating(["a1", "a2"], 1)
    assert {agent: policy.name for agent, policy in found.team.items()} == homes
