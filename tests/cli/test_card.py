"""`palaver results card`: the folder of a trained run, whose team plays, and requests that cannot be met."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from unittest.mock import create_autospec

import huggingface_hub
import pytest
from huggingface_hub import HfApi, ModelCard

from tests.calls import ROOT
from tests.docs.blocks import fences

KEPT = ROOT / "docs/runs/arxiv-magrpo/seed-0"
EPISODES = KEPT / "episodes/eval-000130.jsonl"


@pytest.fixture
def hub(monkeypatch):
    api = create_autospec(HfApi, instance=True)
    api.create_repo.side_effect = lambda name, repo_type, **_: f"https://hub/{repo_type}/{name}"
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api)
    return api


def test_the_team_of_a_card_plays(tmp_path, palaver):
    small = ["train.steps=1", "train.prompts_per_step=1", "algorithm.group_size=2", "eval.n=2", "eval.samples=1"]
    assert palaver("train", "arxiv-magrpo", *small, "--out", "run").code == 0
    ran = palaver("results", "card", "run", "--out", "published")
    assert (ran.code, ran.out) == (0, "published/model/README.md\n")
    card = tmp_path / "published/model/README.md"
    assert ModelCard.load(card).data.eval_results[0].metric_args["step"] == 1
    (command,) = [block.code for block in fences(card) if "palaver evaluate" in block.code]
    shutil.move("published/model", "team")
    assert "mean reward" in palaver(*shlex.split(command)[1:], "-n", "1").out


def test_both_cards_and_both_repositories(tmp_path, palaver, hub):
    ran = palaver("results", "card", KEPT, "--data", EPISODES, "--out", "cards", "--push", "ann/team")
    assert ran.code == 0, ran.err
    assert ran.out.split() == [
        "cards/dataset/README.md", "https://hub/dataset/ann/team", "cards/model/README.md", "https://hub/model/ann/team",
    ]  # fmt: skip
    sent = {call.kwargs["repo_type"]: call.kwargs["folder_path"] for call in hub.upload_folder.call_args_list}
    assert sent == {"model": Path("cards/model"), "dataset": Path("cards/dataset")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there is no run folder"),
        ([str(KEPT), "--push", "team"], "OWNER/NAME"),
        ([str(KEPT), "--data", "nowhere.jsonl", "--out", "cards"], "cannot read the episodes"),
        ([str(KEPT), "--out", "taken"], "is not empty"),
    ],
)
def test_requests_that_cannot_be_met_leave_nothing(tmp_path, palaver, hub, arguments, message):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "README.md").touch()
    ran = palaver("results", "card", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert not hub.mock_calls


def test_a_failed_push_keeps_the_folder(tmp_path, palaver, hub):
    hub.upload_folder.side_effect = OSError("refused")
    ran = palaver("results", "card", KEPT, "--out", "cards", "--push", "ann/team")
    assert ran.code == 2
    assert "hf upload ann/team cards/model" in ran.err
    assert (tmp_path / "cards/model/README.md").is_file()
