"""Model and data cards: what they say of a run, hostile texts of a run, and the upload to a hub that is not there."""

from __future__ import annotations

import json
import socket
from unittest.mock import create_autospec

import datasets
import huggingface_hub
import pytest
import yaml
from huggingface_hub import DatasetCard, HfApi, ModelCard
from markdown_it import MarkdownIt

import palaver
from palaver.benchmarks.cards import hub
from palaver.benchmarks.cards.data_card import write_data
from palaver.benchmarks.cards.model_card import write_model
from palaver.benchmarks.reports.run_folder import read
from palaver.core import CheckpointError, ConfigError
from palaver.trainers.run import checkpoint
from tests.benchmarks.conftest import episode

HOSTILE = (
    "x\n---\nlicense: mit\n---\n# Owned",
    "{{ 7 * 191 }}{% for i in range(9) %}",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "`` ` ``` [a](javascript:alert(1)) ![b](http://example.com/x.png) | c | <http://example.com>",
    "!!python/object/apply:os.system ['true'] &a *b # c: d",
    "```\n# Owned\n\x1b[31m\u2028\u202e",
)


def page(run, tmp_path):
    folder = tmp_path / "card"
    folder.mkdir()
    write_model(read(run), folder)
    return folder, ModelCard.load(folder / "README.md")


def with_checkpoint(run, step=30, **agents):
    """Let each agent have a policy with weights and with what is not to be published."""

    class Stored:
        version = step

        def save(self, folder):
            folder.mkdir(parents=True)
            for name in ("model.safetensors", "config.json", "chat_template.jinja", "pickled.bin", "code.py"):
                (folder / name).write_text(name)

    names = dict.fromkeys(agents.values())
    parts = {name: Stored() for name in names}
    written = {name: lambda path: path.write_bytes(b"") for name in names}
    return checkpoint.save(run, step, parts, written, {}, 1, agents)


def html(text):
    """The page as CommonMark with tables and raw HTML shows it."""
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


def test_the_metadata_has_the_evaluation_of_the_run(fabricate, tmp_path):
    _, card = page(fabricate(), tmp_path)
    (result,) = card.data.eval_results
    assert (result.metric_type, result.dataset_name, result.task_type) == (
        "mean_reward", "arxiv-v0", "reinforcement-learning",
    )  # fmt: skip
    assert result.metric_value == pytest.approx(2.2)
    assert result.metric_args == pytest.approx({"low": 2.1, "high": 2.4, "level": 0.95, "episodes": 64, "step": 30})
    assert (card.data.library_name, card.data.base_model) == ("transformers", None)
    assert {"palaver", "multi-agent", "arxiv-v0", "magrpo"} <= set(card.data.tags)


def test_the_page_has_numbers_curve_and_command(fabricate, tmp_path):
    run = fabricate()
    launch = {
        "recipe": "arxiv-magrpo",
        "overrides": ["seed=1", "out=/home/ann/x"],
        "commit": "c0ffee",
        "palaver": "9.8",
    }
    (run / "launch.json").write_text(json.dumps(launch))
    folder, card = page(run, tmp_path)
    assert "| 30 | 2.200 | [2.100, 2.400] | 64 |" in card.text
    first = [line["reward/mean"] for line in read(run).train[:6]]
    assert f"| 1 – 6 | {sum(first) / 6:.3f} | {min(first):.3f} | {max(first):.3f} |" in card.text
    assert "palaver train arxiv-magrpo seed=1\n" in card.text
    assert "commit c0ffee" in card.text
    assert "/home/ann" not in str(card)
    assert yaml.safe_load((folder / "config.yaml").read_text())["env"]["id"] == "arxiv-v0"
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 32
    assert "holds no weights" in card.text


def test_weights_of_the_newest_checkpoint_without_pickles_and_code(fabricate, tmp_path):
    run = fabricate()
    with_checkpoint(run, step=20, background="background", method="method")
    folder, card = page(run, tmp_path)
    stored = {path.name for path in (folder / "policies" / "method").iterdir()}
    assert stored == {"model.safetensors", "config.json", "chat_template.jinja"}
    assert "background=hf:team/policies/background,method=hf:team/policies/method" in card.text
    assert "The weights are of step 20, the last evaluation is of step 30." in card.text


def test_names_of_the_hub_alone_are_metadata(fabricate, tmp_path):
    run = fabricate()
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["policy"]["model"], config["env"]["tasks"] = "Qwen/Qwen3-0.6B", "hf:OpenMLRL/arXiv_abstract:train[:99]"
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    _, card = page(run, tmp_path)
    assert card.data.base_model == ["Qwen/Qwen3-0.6B"]
    assert card.data.datasets == ["OpenMLRL/arXiv_abstract"]


def test_a_local_model_is_named_without_its_path(fabricate, tmp_path):
    run = fabricate()
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["policy"]["model"], config["env"]["reward"] = "/home/ann/qwen", "rm:/home/ann/rm"
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    _, card = page(run, tmp_path)
    assert card.data.base_model is None
    assert "/home/ann" not in str(card)
    assert "`qwen`" in card.text


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_neither_add_metadata_nor_markup(fabricate, tmp_path, text):
    run = fabricate()
    metrics = (run / "metrics.jsonl").read_text().replace('"background/', json.dumps(f"{text}/")[:-1])
    lines = metrics.replace('"structure"', json.dumps(text))
    (run / "metrics.jsonl").write_text(lines)
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["env"] |= {"id": text, "tasks": f"hf:{text}", "length": [text], text: text}
    config["policy"]["model"] = text
    config["team"]["frozen"] = {text: f"scripted:{text}"}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    start = {"a": {"model": text, "hash": text}}
    launch = {"recipe": text, "overrides": [text], "commit": text, "warm_starts": start, "libraries": {text: text}}
    (run / "launch.json").write_text(json.dumps(launch))
    folder, card = page(run, tmp_path)
    usual = {"library_name", "pipeline_tag", "tags", "model-index"}
    assert card.data.to_dict().keys() == usual
    text_of = (folder / "README.md").read_text()
    assert yaml.safe_load(text_of.split("\n---\n")[0].removeprefix("---\n")).keys() == usual
    shown = html(card.text)
    assert not any(mark in shown for mark in ("<script", "<img", "<a ", "<h1>Owned", "1337", "\x1b", "\u202e"))
    assert shown.count("<h1>") == 1
    assert shown.count("<h2>") == 7
    assert "Owned" in shown or "Owned" not in text


def test_a_run_without_config_is_refused(fabricate, tmp_path):
    run = fabricate()
    (run / "config.yaml").unlink()
    with pytest.raises(ConfigError, match=r"config\.yaml is missing"):
        page(run, tmp_path)


def test_links_in_a_checkpoint_are_refused(fabricate, tmp_path):
    run = fabricate()
    folder = with_checkpoint(run, background="background", method="method")
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    (folder / "policies" / "method" / "more.json").symlink_to(secret)
    with pytest.raises(CheckpointError, match="symbolic link"):
        page(run, tmp_path)


def test_a_corrupt_checkpoint_is_refused(fabricate, tmp_path):
    run = fabricate()
    folder = with_checkpoint(run, background="background", method="method")
    (folder / "policies" / "method" / "model.safetensors").write_text("other")
    with pytest.raises(CheckpointError, match="corrupt"):
        page(run, tmp_path)


def stored(tmp_path, *episodes):
    path = tmp_path / "episodes.jsonl"
    path.write_text("".join(json.dumps(each.to_dict()) + "\n" for each in episodes))
    (tmp_path / "dataset").mkdir(exist_ok=True)
    return path, tmp_path / "dataset"


def test_a_data_card_and_its_episodes(tmp_path):
    played = [episode(f"a{n // 2}", ("one", "two"), {"length": float(n)}, seed=n) for n in range(4)]
    path, folder = stored(tmp_path, *played)
    card = DatasetCard.load(write_data(path, folder))
    assert card.data.size_categories == ["n<1K"]
    assert card.data.configs == [{"config_name": "default", "data_files": "episodes.parquet"}]
    assert "| mean return of the team | 1.500 [0.500, 2.500], 95 % over tasks |" in card.text
    read_back = palaver.from_dataset(datasets.Dataset.from_parquet(str(folder / "episodes.parquet")))
    assert [each.team_return() for each in read_back] == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_episodes_neither_add_metadata_nor_markup(tmp_path, text):
    played = episode(text, (text, text), {text: 1.0})
    record = played.to_dict() | {"env": text, "team": {text: text}}
    path, folder = stored(tmp_path)
    path.write_text(json.dumps(record) + "\n")
    card = DatasetCard.load(write_data(path, folder))
    usual = {"pretty_name", "task_categories", "tags", "size_categories", "configs"}
    assert card.data.to_dict().keys() == usual
    shown = html(card.text)
    assert not any(mark in shown for mark in ("<script", "<img", "<a ", "<h1>Owned", "1337", "\x1b", "\u202e"))
    assert shown.count("<h1>") == 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "holds no episodes"),
        ("{}\n", "line 1: this is no episode"),
        ('{"env": 1, "task": "a", "seed": 1, "turns": [], "stop": "x", "team": {}, "format": 2}\n', "episode 1"),
        ('{"env": "a", "task": "a", "seed": 1e5, "turns": [], "stop": "x", "team": 1, "format": 2}\n', "episode 1"),
        ('{"env": "a", "task": "\\ud800", "seed": 1, "turns": [], "stop": "x", "team": {}, "format": 2}\n', "a table"),
    ],
)
def test_files_that_hold_no_episodes_are_refused(tmp_path, lines, message):
    path, folder = stored(tmp_path)
    path.write_text(lines)
    with pytest.raises(ConfigError, match=message):
        write_data(path, folder)


def test_episodes_of_two_environments_are_refused(tmp_path):
    path, folder = stored(tmp_path, episode("a", ("", ""), {"x": 1.0}))
    other = episode("a", ("", ""), {"x": 1.0}).to_dict() | {"env": "other-v0"}
    path.write_text(path.read_text() + json.dumps(other) + "\n")
    with pytest.raises(ConfigError, match="one environment"):
        write_data(path, folder)


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_a_push_is_one_commit_to_a_private_repository(monkeypatch, tmp_path, kind):
    api = create_autospec(HfApi, instance=True)  # refuses arguments that the client does not take
    api.create_repo.return_value = "https://hub/ann/team"
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api)
    assert hub.push(tmp_path, "ann/team", kind) == "https://hub/ann/team"
    api.create_repo.assert_called_once_with("ann/team", repo_type=kind, private=True, exist_ok=True)
    ((), sent) = api.upload_folder.call_args
    assert (sent["repo_id"], sent["folder_path"], sent["repo_type"]) == ("ann/team", tmp_path, kind)


def test_a_hub_that_cannot_be_reached_leaves_the_folder(monkeypatch, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", "hf_none")
    with pytest.raises(hub.HubError, match=r"the folder is kept, and `hf upload ann/team .* --repo-type dataset`"):
        hub.push(tmp_path, "ann/team", "dataset")


def test_a_switched_off_hub_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(hub.HubError, match="offline"):
        hub.push(tmp_path, "ann/team")


@pytest.mark.parametrize("name", ["team", "a/b/c", "../x", "ann/", "ann/a b", "ann/a--b", "-a/b", "a/b\n"])
def test_names_that_are_no_repository(name):
    with pytest.raises(ConfigError, match="OWNER/NAME"):
        hub.refuse_no_repository(name)
    assert not hub.is_repository(name)
