"""The recipes for GSM8K from the data to the report, with a small model in Qwen's place and a file of its shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from palaver.agents.llm.model.load import save_pretrained
from palaver.benchmarks.evaluation.evaluate import EvaluationConfig, measure
from palaver.benchmarks.reports.run_folder import read
from palaver.benchmarks.reports.run_report.page import write
from palaver.core import Sampling
from palaver.trainers.config.loading import load
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import train
from tests.models import byte_tokenizer, tiny_qwen3

GSM8K = ("gsm8k-debate-magrpo-qwen25-05b", "gsm8k-debate-magrpo-qwen25-3b")
SMALL = ["policy.max_tokens=12", "policy.dtype=fp32", "device=cpu", "log.tensorboard=false", "threads=1"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("model") / "m"
    save_pretrained(tiny_qwen3(max_position_embeddings=4096), byte_tokenizer(template=True), folder)
    return str(folder)


@pytest.fixture(scope="module")
def questions(tmp_path_factory) -> str:
    """Twelve rows in the public schema: a way with calculator marks, then `####` and the answer."""
    path = tmp_path_factory.mktemp("data") / "train.jsonl"
    rows = [
        {
            "question": f"A box holds {n} red and 3 blue pens. How many pens are in it?",
            "answer": f"There are {n} + 3 = <<{n}+3={n + 3}>>{n + 3} pens.\n#### {n + 3:,}",
        }
        for n in range(994, 1006)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def weights(run: Path, step: int) -> dict[str, torch.Tensor]:
    folder = run / "checkpoints" / f"step-{step:06d}" / "policies"
    return {
        f"{path.parent.name}/{name}": tensor
        for path in sorted(folder.glob("*/*.safetensors"))
        for name, tensor in load_file(path).items()
    }


@pytest.mark.parametrize("recipe", GSM8K)
def test_the_whole_way(recipe, model, questions, tmp_path):
    data = [f"env.tasks={questions}[:8]", f"eval.tasks={questions}[8:]", "eval.n=4", "eval.every=0"]
    steps = ["train.steps=2", "train.prompts_per_step=1", "train.checkpoint_every=1", "algorithm.group_size=2"]
    paid = [
        "env.reward_scheme.no_answer=0.1"
    ]  # random letters are never right; that some hold a number is to be learnt
    config = load(recipe, [f"policy.model={model}", *SMALL, *data, *steps, *paid])
    run = train(config, tmp_path / "run")
    lines = read_metrics(run / "metrics.jsonl")
    assert [(line["kind"], line["step"]) for line in lines] == [("eval", 0), ("train", 1), ("train", 2), ("eval", 2)]
    # 2 candidates of 2 seats, then in each of 2 branches again: 4 + 8 texts of at most 12 tokens and an end
    assert [line["completions"] for line in lines[1:3]] == [12, 12]
    assert all(0 < line["sampled_tokens"] <= 12 * 12 for line in lines[1:3])
    before, after = weights(run, 1), weights(run, 2)
    assert {name.partition("/")[0] for name in after} == {"solver1", "solver2"}
    assert lines[2]["groups/zero_advantage"] < 1
    assert any(not torch.equal(before[name], after[name]) for name in after)
    setting = EvaluationConfig(
        "gsm8k-v0", config.env.keywords(config.eval.tasks), f"run:{run}", sampling=Sampling(max_tokens=12)
    )
    result, episodes = measure(setting)
    assert (result.tasks, len(episodes[0].turns)) == (4, 2)
    assert write(read(run)).is_file()


def test_the_answers_of_the_file_are_read(questions):
    """Their commas too: 1,002 is right where the file says 999 + 3."""
    import palaver

    env = palaver.make("gsm8k-v0", tasks=questions, workflow="parallel", agents=1)
    for said, score in (("so 1002 pens", 1.0), ("#### 1,002", 1.0), ("999", 0.0)):
        env.reset(options={"task": 5})
        assert env.step({"solver1": said})[1]["solver1"] == score
