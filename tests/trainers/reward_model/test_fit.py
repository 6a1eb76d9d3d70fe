"""Training a reward model by TRL on a rule that can be learnt; its loss against the formula; adapters."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
import torch

from palaver.agents.reward_models.model import load
from palaver.core import PolicyError, TaskError
from palaver.trainers.config.reward_model import FitConfig
from palaver.trainers.preferences.record import PreferenceRecord
from palaver.trainers.reward_model.fit import fit
from palaver.trainers.run.distributed import Distributed
from tests.models import byte_tokenizer, tiny_qwen3

pytest.importorskip("trl")


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("base")
    tiny_qwen3(initializer_range=0.05).save_pretrained(folder)
    byte_tokenizer(True).save_pretrained(folder)
    return str(folder)


def pairs(count: int, tasks: int = 8) -> list[PreferenceRecord]:
    """The better joint action ends with `!`, wherever else such a mark stands."""
    draw = random.Random(0)
    made = []
    for n in range(count):
        words = ["".join(draw.choices("abc!", k=draw.randint(1, 6))) for _ in range(3)]
        told = {"a": f"q{n % tasks}", "b": "q"}
        better, worse = {"a": words[0], "b": words[1] + "!"}, {"a": words[0], "b": words[2] + "a"}
        made.append(PreferenceRecord(f"t{n % tasks}", told, better, worse, 1.0))
    return made


def test_a_rule_is_learnt_and_the_folder_scores(base, tmp_path):
    told: list[tuple[int, int]] = []
    world = Distributed("cpu", "fp32")
    found = fit(
        pairs(160), base, FitConfig(lr=3e-3, batch=8, epochs=2), tmp_path / "rm", seed=0, device="cpu",
        report=lambda step, steps, said: told.append((step, steps)),
    )  # fmt: skip
    assert found.held_out.accuracy > 0.9 > found.before.accuracy
    assert found.held_out.loss < 0.3 < found.before.loss
    assert found.held_out.tasks == 2
    assert told[-1] == (30, 30), "120 training pairs, 8 a step, twice"
    assert found.history[-1]["loss"] < found.history[0]["loss"]
    made = load(str(tmp_path / "rm"), {"device": "cpu"})
    cases = [case for pair in pairs(4) for case in pair.cases()]
    assert [v.score for v in made.score(cases)] == pytest.approx([v.score for v in found.model.score(cases)], abs=1e-6)
    assert not list((tmp_path / "rm").glob("checkpoint-*"))
    with world.autocast():
        assert world.all_sum(1.0) == [1.0], "a run that goes on beside it still can"


def test_the_first_loss_is_the_formula(base, tmp_path):
    """One step on all training pairs, with margins and the term that keeps scores about 0, computed from the scores."""
    from palaver.agents.reward_models.model import fresh
    from palaver.trainers.preferences.record import by_task

    some = pairs(10, tasks=5)
    train, _ = by_task(some, 0.2, 3)
    before = fresh(base, "cpu", "auto", 4096, 3)
    scores = [[v.score for v in before.score(list(pair.cases()))] for pair in train]
    expected = sum(math.log1p(math.exp(-(c - r - 1.0))) + 0.5 * (c + r) ** 2 for c, r in scores) / len(scores)
    config = FitConfig(batch=len(train), margins=True, centre=0.5)
    found = fit(some, base, config, tmp_path / "rm", seed=3, device="cpu")
    assert found.history[0]["loss"] == pytest.approx(expected, abs=1e-4)


def test_an_adapter_is_merged_and_its_head_kept(base, tmp_path):
    config = FitConfig.model_validate({"lora": {"rank": 4}, "lr": 1e-2, "batch": 8, "epochs": 2})
    found = fit(pairs(160), base, config, tmp_path / "rm", seed=0, device="cpu")
    assert found.held_out.accuracy > 0.8
    made = load(str(tmp_path / "rm"), {"device": "cpu"})
    case = pairs(1)[0].cases()[0]
    assert made.score([case])[0].score == pytest.approx(found.model.score([case])[0].score, abs=1e-5)
    assert not any("lora" in name for name, _ in made.model.named_parameters())


def test_what_cannot_be_learnt_from_is_refused_and_long_pairs_are_counted(base, tmp_path):
    folder: Path = tmp_path / "rm"
    with pytest.raises(PolicyError, match=r"longer than the 20 tokens"):
        fit(pairs(8), base, FitConfig(max_tokens=20), folder, seed=0, device="cpu")
    with pytest.raises(TaskError, match="two or more"):
        fit(pairs(4, tasks=1), base, FitConfig(), folder, seed=0, device="cpu")
    with pytest.raises(PolicyError, match="no model folder"):
        fit(pairs(4), str(tmp_path / "none"), FitConfig(), folder, seed=0, device="cpu")
    assert not folder.exists()
    long = PreferenceRecord("t9", {"a": "q", "b": "q"}, {"a": "x" * 900, "b": ""}, {"a": "y", "b": ""})
    found = fit([*pairs(8), long], base, FitConfig(max_tokens=300, batch=8), folder, seed=0, device="cpu")
    assert found.too_long == 1
    assert load(str(folder), {"device": "cpu"}).max_tokens == 300
    assert torch.isfinite(torch.tensor(found.held_out.loss))
