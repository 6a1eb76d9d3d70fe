"""What a run is said to need, against numbers worked out by hand and against what is really there."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from rich.console import Console

from palaver.agents.llm.generation.dense_decoder import DenseDecoder
from palaver.agents.llm.model.options import LoraOptions, ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.policies.lora_policy import adapted
from palaver.trainers.config.loading import parse
from palaver.trainers.config.run import RunConfig
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.errors import DeviceMemoryError
from palaver.trainers.run.memory import estimate, memory_advice, model_facts, most_rows
from palaver.trainers.train import train
from palaver.trainers.update.critic import Critic
from palaver.trainers.update.policy_update import PolicyUpdater
from tests.models import byte_tokenizer, tiny_gpt2, tiny_qwen3
from tests.trainers.toys import register_toy, save_model


def speaker(model: Any) -> LLMPolicy:
    return LLMPolicy(model, byte_tokenizer(), ModelOptions(device="cpu"))


def config(dtype: str) -> RunConfig:
    return RunConfig.model_validate({"policy": {"dtype": dtype, "max_tokens": 20}})


@pytest.mark.parametrize(
    ("make", "dtype", "bytes_each"),
    [
        (tiny_qwen3, "fp32", 4 + 4),  # the weights and the folded copy
        (tiny_qwen3, "bf16", 4 + 2),
        (tiny_gpt2, "fp32", 4),  # generation computes with the weights themselves
        (tiny_gpt2, "bf16", 4 + 2),
    ],
)
def test_weights_and_cache(make, dtype: str, bytes_each: int) -> None:
    model = make()
    found = estimate(config(dtype), [model_facts(config(dtype), speaker(each)) for each in (make(), model)], 30, 8)
    assert found.weights == 2 * model.num_parameters() * bytes_each
    assert found.optimizer == 2 * model.num_parameters() * 12
    heads = 2 if make is tiny_qwen3 else 4
    # 8 rows of 30 + 20 tokens; 2 (keys, values) x 2 layers x heads x 8 numbers
    assert found.cache == 8 * 50 * 2 * 2 * heads * 8 * (2 if dtype == "bf16" else 4)


def test_the_folded_copy_is_covered() -> None:
    model = tiny_qwen3(hidden=64)
    forward = DenseDecoder(model, torch.float32)
    folded = [tensor for layer in forward.layers for tensor in (layer.qkv, layer.out, layer.gate_up, layer.down)]
    held = sum(tensor.nbytes for tensor in (*folded, forward.head))  # on a CPU the head is packed as well
    known = model_facts(config("fp32"), speaker(model))
    assert held <= estimate(config("fp32"), [known], 30, 8).weights - 4 * model.num_parameters()


@pytest.mark.parametrize("kind", ["separate", "shared"])
def test_critics(kind: str) -> None:
    """A critic is one output over 32 hidden values, with a trunk of its own or without: weight, gradient, moments."""
    who = speaker(tiny_qwen3(tie_word_embeddings=False))
    trunk = sum(p.numel() for name, p in who.model.named_parameters() if not name.startswith("lm_head"))
    settings = RunConfig.model_validate({"critic": {"model": kind}})
    critic = Critic(who, "critic", settings, Distributed("cpu", "fp32"))
    numbers = sum(p.numel() for p in critic.parameters())
    assert numbers == 32 + 1 + (trunk if kind == "separate" else 0)
    known = model_facts(settings, who)
    without, found = estimate(settings, [known], 30, 8), estimate(settings, [known], 30, 8, numbers)
    assert found.weights - without.weights == numbers * 4
    assert found.optimizer - without.optimizer == numbers * 12


def test_a_critic_of_the_team_reads_more_than_its_policy() -> None:
    """8 rows of 30 + 20 tokens, or of 200 that the critic reads: activations grow with the tokens."""
    who = speaker(tiny_qwen3())
    known = model_facts(config("fp32"), who)
    per_token = 2 * (16 * 32 + 3 * who.model.config.intermediate_size) * 4 + who.model.config.vocab_size * 4
    assert estimate(config("fp32"), [known], 30, 8).activations == 8 * 50 * per_token
    assert estimate(config("fp32"), [known], 30, 8, read=50).activations == 8 * 50 * per_token
    assert estimate(config("fp32"), [known], 30, 8, read=200).activations == 8 * 200 * per_token


def test_adapters_count_their_base_once(tmp_path) -> None:
    """Base 4 + 4 bytes a weight (held and folded); an adapter of rank 2 on q (32 x 32) and v (32 x 16), 2 layers."""
    shape = LoraOptions(2, 4.0, ("q_proj", "v_proj"))
    base = tiny_qwen3().num_parameters()
    team = adapted(save_model(tmp_path / "m"), ["a", "b", "c"], ModelOptions(device="cpu"), shape)
    each = 2 * (2 * (32 + 32) + 2 * (32 + 16))
    found = estimate(config("fp32"), [model_facts(config("fp32"), policy) for policy in team.values()], 30, 8)
    assert found.optimizer == 12 * 3 * each
    assert found.weights == 8 * (base + 3 * each)


@pytest.mark.parametrize(("joint", "turns", "rows"), [
    ("aligned", "tree", 3 + 9 + 27), ("aligned", "independent", 3 + 3 + 3), ("aligned", "best", 3 + 3 + 3),
    ("cross", "tree", 3 + 9 * 3 + 81 * 3), ("cross", "independent", 3 + 9 + 9), ("cross", "best", 3 + 3 + 3),
])  # fmt: skip
def test_most_rows(joint: str, turns: str, rows: int) -> None:
    """G = 3, two agents with a policy each, three turns, one task."""
    settings = RunConfig.model_validate({"algorithm": {"group_size": 3, "joint": joint, "turns": turns}})
    assert most_rows(settings, 1, 2, 3) == rows


def test_a_tree_of_many_turns_is_warned_of(tmp_path, monkeypatch) -> None:
    """Two agents share a model in 12 turns of 2 tasks, G = 4: 2 x 2 x (4 + ... + 4^12) completions."""
    stop, shown = pytest.raises(DeviceMemoryError), io.StringIO()
    monkeypatch.setattr(PolicyUpdater, "probe", fails)
    values = {
        "env": {"id": "matrix-v1", "game": "prisoners-dilemma", "repeats": 12, "feedback": True},
        "policy": {"model": save_model(tmp_path / "m"), "max_tokens": 8},
        "team": {"kind": "shared"},
        "train": {"steps": 1, "prompts_per_step": 2},
        "device": "cpu",
    }
    for turns in ("independent", "tree"):
        run = parse(values | {"algorithm": {"name": "marloo", "group_size": 4, "turns": turns}})
        with stop:
            train(run, tmp_path / turns, console=Console(file=shown, width=500))
        assert ("a step may have 89,478,480 completions" in shown.getvalue()) == (turns == "tree")


def fails(*_: object) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ...")


@pytest.mark.parametrize(("place", "when"), [("probe", "in its largest backward pass"), ("update", "in training")])
def test_a_full_gpu_is_one_sentence_that_names_settings(place: str, when: str, tmp_path, monkeypatch) -> None:
    register_toy()
    run = parse(
        {"env": {"id": "lengths-v0"}, "policy": {"model": save_model(tmp_path / "m"), "max_tokens": 8},
         "algorithm": {"group_size": 4}, "train": {"steps": 1}, "eval": {"n": 0}, "device": "cpu"}
    )  # fmt: skip
    monkeypatch.setattr(PolicyUpdater, place, fails)
    with pytest.raises(DeviceMemoryError) as caught:
        train(run, tmp_path / "run")
    assert str(caught.value) == (
        f"the GPU ran out of memory {when}: start the run again with train.micro_tokens=8192, "
        "train.gradient_checkpointing=true, algorithm.group_size=2, policy.dtype=bf16 or team.kind=lora"
    )


def test_what_is_set_already_is_not_advised() -> None:
    run = RunConfig.model_validate(
        {"train": {"micro_tokens": 512, "gradient_checkpointing": True}, "policy": {"dtype": "bf16"},
         "team": {"kind": "lora"}, "algorithm": {"group_size": 2}}
    )  # fmt: skip
    advised = pytest.raises(DeviceMemoryError, match=r"start the run again with train.micro_tokens=256$")
    with advised, memory_advice(run, "in training"):
        fails()
