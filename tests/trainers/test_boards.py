"""TensorBoard and Weights & Biases behind the same calls: metrics, texts, checkpoints; nothing goes to a network."""

from __future__ import annotations

import importlib
import types
from pathlib import Path

import pytest

from palaver.core import Completion
from palaver.episodes import Episode, Turn
from palaver.trainers.config.loading import parse
from palaver.trainers.run import boards
from palaver.trainers.run.logging import RunLogger

HOSTILE = "# head\n<script>alert(1)</script>\x1b[2J ![x](http://a.test)\n```"


class FakeWandb(types.SimpleNamespace):
    """Weights & Biases as far as it is used; the run is the module itself."""

    def __init__(self):
        super().__init__(settings=[], defined=[], logged=[], artifacts=[], finished=0)

    def init(self, **settings):
        self.settings.append(settings)
        return self

    def define_metric(self, name, step_metric=None):
        self.defined.append((name, step_metric))

    def log(self, line):
        self.logged.append(line)

    def Table(self, columns, data):  # noqa: N802
        assert all(len(row) == len(columns) for row in data)
        return {"columns": columns, "data": data}

    def Artifact(self, name, type, metadata):  # noqa: N802
        made = types.SimpleNamespace(name=name, type=type, metadata=metadata, files=[])
        made.add_dir = lambda folder: made.files.extend(path.name for path in sorted(Path(folder).iterdir()))
        return made

    def log_artifact(self, artifact, aliases):
        self.artifacts.append((artifact, aliases))

    def finish(self):
        self.finished += 1


@pytest.fixture
def wandb(monkeypatch):
    fake, load = FakeWandb(), importlib.import_module
    monkeypatch.setattr(boards.importlib, "import_module", lambda name: fake if name == "wandb" else load(name))
    return fake


def episode(task: str, text: str = "hello") -> Episode:
    said = {agent: Completion(text if agent == "a" else "") for agent in ("a", "b")}
    turn = Turn(
        index=0, node="0", parent="", group=task, choice={"a": 0, "b": 0}, observations={"a": f"write on {task}"},
        completions=said, rewards={"a": 0.5, "b": 0.25}, components={}, metrics={},
    )  # fmt: skip
    return Episode("arxiv-v0", task, 0, (turn,), "terminated", {"a": "tiny", "b": "tiny"})


def logged(folder: Path, **log) -> None:
    """What a run does with its logger: a step, an evaluation, a checkpoint."""
    logger = RunLogger(folder, parse({"log": {"checkpoints": True, **log}}), 0)
    logger.write("train", 1, {"reward/mean": 1.5, "a": {"loss": 0.25}, "note": "text", "kl": float("nan")})
    logger.write("eval", 1, {"mean": 2.0, "by_task": {"s": 1.0}})
    logger.episodes("train", 1, [episode("not shown")])
    logger.episodes("eval", 1, [episode("s", HOSTILE), episode("s", "second of the task"), episode("t")])
    checkpoint = folder / "checkpoints" / "step-000001"
    checkpoint.mkdir(parents=True)
    (checkpoint / "manifest.json").write_text("{}")
    logger.checkpoint(checkpoint, 1)
    logger.close()


def test_weights_and_biases(wandb, tmp_path):
    logged(tmp_path, tensorboard=False, wandb="offline", project="mine")
    (settings,) = wandb.settings
    assert (settings["project"], settings["mode"], settings["resume"]) == ("mine", "offline", "allow")
    assert settings["id"] == (tmp_path / "wandb_id").read_text()
    assert wandb.defined == [("step", None), ("*", "step")], "every metric over the run's own step"
    train, evaluated, samples = wandb.logged
    assert train == {"reward/mean": 1.5, "a/loss": 0.25, "step": 1}
    assert evaluated == {"eval/mean": 2.0, "step": 1}
    assert samples.keys() == {"samples/eval", "step"}
    table = samples["samples/eval"]
    assert tuple(table["columns"]) == boards.COLUMNS
    assert [row[0] for row in table["data"]] == ["s", "s", "t", "t"], "the first episode of each task"
    assert table["data"][0][3] == "write on s"
    assert "\x1b" not in table["data"][0][4]
    ((artifact, aliases),) = wandb.artifacts
    assert (artifact.type, artifact.metadata, artifact.files) == ("model", {"step": 1}, ["manifest.json"])
    assert settings["id"] in artifact.name
    assert aliases == ["latest", "step-1"]
    assert wandb.finished == 1


def test_tensorboard(tmp_path):
    logged(tmp_path)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    tags = events.Tags()
    assert set(tags["scalars"]) == {"reward/mean", "a/loss", "eval/mean"}
    assert [(point.step, point.value) for point in events.Scalars("reward/mean")] == [(1, 1.5)]
    names = {f"samples/eval/{number:02d}/text_summary" for number in range(4)}
    assert set(tags["tensors"]) == names | {"checkpoint/text_summary"}
    (first,) = events.Tensors("samples/eval/00/text_summary")
    text = first.tensor_proto.string_val[0].decode()
    assert "<script>alert(1)</script>" in text
    assert "write on s" in text
    assert all(line.startswith("    ") for line in text.split("\n") if line), "a block of code, not Markdown"
    (kept,) = events.Tensors("checkpoint/text_summary")
    assert kept.tensor_proto.string_val[0].decode().strip() == "checkpoints/step-000001"


@pytest.mark.parametrize("off", [{"episodes": False}, {"checkpoints": False}])
def test_what_is_switched_off_reaches_no_board(wandb, tmp_path, off):
    logged(tmp_path, tensorboard=False, wandb="offline", **off)
    assert any("samples/eval" in line for line in wandb.logged) is off.get("episodes", True)
    assert bool(wandb.artifacts) is off.get("checkpoints", True)


def test_both_at_once_get_the_same(wandb, tmp_path):
    logged(tmp_path, tensorboard=True, wandb="offline")
    assert [line for line in wandb.logged if "eval/mean" in line]
    assert list((tmp_path / "tb").glob("events*"))


def test_samples_are_few_and_short():
    many = [episode(f"t{number}", "x" * 100_000) for number in range(50)]
    rows = boards.sample_rows(many)
    assert len(rows) == 2 * boards.SAMPLES
    assert max(len(row[4]) for row in rows) <= boards.CHARACTERS + 100
