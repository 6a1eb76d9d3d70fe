"""Memory of each kind of team on a GPU, by hand for the shape of Qwen3-0.6B."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from palaver.agents.llm.scoring.fused_logprobs import TILE_CUDA
from palaver.core import ConfigError
from palaver.trainers.algorithms.base import chosen
from palaver.trainers.checks import refuse_contradictions
from palaver.trainers.config.run import RunConfig
from palaver.trainers.placement.checks import may_shard
from palaver.trainers.run.memory import DecoderShape, ModelFacts, estimate
from palaver.trainers.run.memory_plan import adapter_numbers, lines, memory_plan, model_shape, team_work
from tests.models import tiny_gpt2
from tests.trainers.toys import save_model

NUMBERS = 596_049_920  # 28 x (1024 x (2 x 2048 + 2 x 1024 + 3 x 3072) + 2 x 1024 + 2 x 128) + 151,936 x 1024 + 1024
RECORDS = Path(__file__).resolve().parents[2] / "docs/runs/gpu/step.jsonl"
ADAPTER = 16 * 28 * (3072 + 2 * 2048 + 3072 + 3 * 4096)  # q, k and v, o, the three of the feed-forward block


@pytest.fixture(scope="module")
def qwen():
    with torch.device("meta"):
        return Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=151_936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, head_dim=128,
                num_attention_heads=16, num_key_value_heads=8, tie_word_embeddings=True,
            )
        )  # fmt: skip


def run(**sections) -> RunConfig:
    values = {
        "policy": {"dtype": "bf16", "max_tokens": 256, "max_prompt_tokens": 1000},
        "algorithm": {"group_size": 4},
        "train": {"prompts_per_step": 2},
    }
    return RunConfig.model_validate(values | sections)


def plan(qwen, config: RunConfig, agents: int = 2):
    algorithm = chosen(config.algorithm)
    return memory_plan(config, qwen, team_work(config, algorithm, agents, 1, may_shard(config, algorithm)))


def test_shards(qwen) -> None:
    """16 bytes for the embedding, which is the head, and 16 / n for the rest, twice 2 bytes for whole copies.

    Gradients, 4 of the 16, are those of one policy at a time.
    """
    found, whole = plan(qwen, run(kl={"coef": 0.1})), 151_936 * 1024
    for size in (2, 8):
        held, gathered = whole + (NUMBERS - whole) / size, 2 * 4 * (NUMBERS - whole) / 28
        estimate = found[f"separate, fsdp2 over {size} GPUs"]
        assert estimate.weights + estimate.optimizer == pytest.approx(
            2 * (held * (16 + 4) + 4 * NUMBERS) - 4 * held + gathered, abs=64
        )
        assert estimate.cache == found["separate, a GPU for each agent"].cache // size


@pytest.mark.parametrize(
    "sections",
    [
        {"algorithm": {"name": "mappo"}},
        {"algorithm": {"name": "ippo"}, "critic": {"model": "shared"}},
        {"algorithm": {"name": "madpo"}},
        {"algorithm": {"name": "qmix"}},
        {"kl": {"coef": 0.1, "reference": "lag:2"}},
    ],
    ids=lambda sections: "-".join(map(str, next(iter(sections.values())).values())),
)
def test_no_row_is_shown_of_shards_that_are_refused(qwen, sections) -> None:
    asked = run(**sections, placement={"shard": "fsdp2"})
    with pytest.raises(ConfigError, match=r"placement\.shard=fsdp2"):
        refuse_contradictions(asked, chosen(asked.algorithm), 2, 1)
    assert not any("fsdp2" in name for name in plan(qwen, run(**sections)))


@pytest.mark.parametrize("sections", [{"team": {"kind": "lora"}}, {"placement": {"kind": "ray"}}])
def test_rows_of_other_teams_show_shards(qwen, sections) -> None:
    assert plan(qwen, run(**sections)).keys() == plan(qwen, run()).keys()
    assert any("fsdp2" in name for name in plan(qwen, run()))


def test_weights_gradients_and_moments(qwen) -> None:
    """18 bytes a trained number, 22 with a reference; adapters 16 on a base of 2 and a folded copy of 2.

    Of two policies on one GPU one has gradients, 4 bytes, at a time.
    """
    assert sum(p.numel() for p in qwen.parameters()) == NUMBERS
    found = plan(qwen, run())
    trained = {name: estimate.weights + estimate.optimizer for name, estimate in found.items() if "fsdp2" not in name}
    assert trained == {
        "separate, all agents on one GPU": (2 * 18 - 4) * NUMBERS,
        "separate, a GPU for each agent": 18 * NUMBERS,
        "shared": 18 * NUMBERS,
        "lora": 4 * NUMBERS + (2 * 16 - 4) * ADAPTER,
    }
    with_reference = plan(qwen, run(kl={"coef": 0.1}))
    assert with_reference["shared"].weights + with_reference["shared"].optimizer == 22 * NUMBERS
    assert with_reference["lora"].weights - found["lora"].weights == 2 * 4 * ADAPTER
    exact = run(policy={"dtype": "fp32", "max_tokens": 256, "max_prompt_tokens": 1000})
    assert plan(qwen, exact)["shared"].weights == (4 + 4) * NUMBERS


@pytest.mark.parametrize("kind", ["separate", "shared", "lora"])
def test_samplers_apart(qwen, kind) -> None:
    """A sampler holds 4 bytes a number and the copy, of adapters the base twice; keys and values move to it."""
    placement = {"kind": "ray", "samplers": {"place": "apart"}}
    found = plan(qwen, run(team={"kind": kind}, placement=placement, kl={"coef": 0.1}))
    row = "separate, a GPU for each agent" if kind == "separate" else kind
    learner, sampler = found[f"{row}: a learner"], found[f"{row}: its sampler apart"]
    assert learner.weights + learner.optimizer == found[row].weights + found[row].optimizer
    assert (learner.cache, learner.activations) == (0, found[row].activations)
    assert sampler.weights == (4 * NUMBERS + 2 * 4 * ADAPTER if kind == "lora" else 6 * NUMBERS)
    assert (sampler.optimizer, sampler.cache, sampler.activations) == (0, found[row].cache, 0)
    assert not any("sampler" in name for name in plan(qwen, run()))


def test_the_known_totals() -> None:
    """18 bytes: 0.6B take 11 GB, as scale by hand: 1.7B 31, 4B 72, 8B 147."""
    assert round(18 * NUMBERS / 1e9) == 11


def test_keys_and_values_and_activations(qwen) -> None:
    """2 tasks x 4 answers of 1,256 columns, each 2 x 28 x 8 x 128 numbers of bf16; 16,384 tokens a pass."""
    found = plan(qwen, run())
    one = 8 * 1256 * 2 * 28 * 8 * 128 * 2
    kinds = [estimate.cache for name, estimate in found.items() if "fsdp2" not in name]
    assert kinds == [one, one, 2 * one, 2 * one]
    tokens = 8 * 1256
    head = (1 << 30) + 4 * (TILE_CUDA + 151_936 * 1024)
    each = 28 * (26 * 1024 + 15 * 2048 + 8 * 3072)
    assert found["lora"].activations == tokens * each + head
    assert found["shared"].activations == 16_384 * each + head + 2 * NUMBERS
    exact = plan(qwen, run(policy={"dtype": "fp32", "max_tokens": 256, "max_prompt_tokens": 1000}))
    assert exact["shared"].activations == 16_384 * 28 * 4 * (16 * 1024 + 3 * 3072) + head
    spared = plan(qwen, run(train={"prompts_per_step": 2, "gradient_checkpointing": True}))
    assert spared["lora"].activations == tokens * 28 * 2 * 1024 * 2 + head


def peaks() -> list[tuple[str, int, int]]:
    """Kind of team, tasks a step, and most bytes in training steps of Qwen3-0.6B on an H200."""
    lines = map(json.loads, RECORDS.read_text().splitlines())
    steps = [line for line in lines if line.get("unit") == "s"]
    names = [re.fullmatch(r"step, (\w+), B (\d)", line["name"]) for line in steps]
    return [(name[1], int(name[2]), line["details"]["peak_bytes"]) for name, line in zip(names, steps, strict=True)]


@pytest.mark.parametrize(("kind", "tasks", "peak"), peaks())
def test_measured_peaks_are_within_15_percent_and_not_above(kind, tasks, peak) -> None:
    """Two agents (`one`: one) of prompts of 56 tokens, G = 4; adapters of rank 16."""
    config = run(
        algorithm={"group_size": 4},
        train={"prompts_per_step": tasks},
        team={"kind": "separate" if kind == "one" else kind},
    )
    shape = DecoderShape(28, 1024, 3072, 2048, 151_936)
    facts = ModelFacts("base", NUMBERS, 0, None, 6 * NUMBERS, 2 * 28 * 8 * 128 * 2, 1 << 40, "cuda", shape)
    policies = {
        "one": [facts],
        "shared": [facts],
        "separate": [facts, replace(facts, model="other")],
        "lora": [replace(facts, trained=ADAPTER, weights=4 * (NUMBERS + ADAPTER))] * 2,
    }[kind]
    needed = estimate(config, policies, 56, tasks * 4 * (2 if kind == "shared" else 1)).total
    assert 0.85 < peak / needed <= 1


def test_critics(qwen) -> None:
    """A trunk for each policy, or one for the team (tied: all the numbers), of 16 bytes a number."""
    for name, critics in (("ippo", (2, 1, 1)), ("mappo", (1, 1, 1))):
        config = run(algorithm={"name": name, "group_size": 4}, critic={"model": "separate"})
        *full, lora = plan(qwen, config).values()
        for found, models, own in zip(full, (2, 1, 1), critics, strict=True):
            assert found.weights + found.optimizer == (14 * models + 4 + 16 * own) * NUMBERS
        assert lora.weights + lora.optimizer == 4 * NUMBERS + ((2 + critics[0]) * 16 - 4) * ADAPTER
    config = run(algorithm={"name": "ippo", "group_size": 4}, critic={"model": "shared"})
    assert plan(qwen, config)["shared"].weights == plan(qwen, run())["shared"].weights


def test_adapters_of_some_layers(qwen) -> None:
    some = run(team={"kind": "lora", "lora": {"rank": 8, "targets": ["q_proj", "v_proj"]}})
    assert adapter_numbers(qwen, some) == 8 * 28 * (1024 + 2048 + 1024 + 1024)
    every = run(team={"kind": "lora", "lora": {"rank": 8}})
    assert adapter_numbers(tiny_gpt2(), every) == 8 * 2 * (32 + 96 + 32 + 32 + 32 + 128 + 128 + 32)


def test_the_description(tmp_path) -> None:
    work = team_work(run(), chosen(run().algorithm), 2, 1)
    first, *rest = lines(run(), save_model(tmp_path / "m"), work)
    assert "26,944 numbers" in first
    assert [line.split("  ")[1] for line in rest][2:] == [
        "shared", "lora", "separate, fsdp2 over 2 GPUs", "separate, fsdp2 over 8 GPUs",
    ]  # fmt: skip
    assert all("GiB" in line for line in rest)
    assert lines(run(), "nobody/nothing-here", work) == [
        "memory per GPU: not known, as the config of nobody/nothing-here is not on this machine"
    ]
    assert model_shape(str(tmp_path)) is None
