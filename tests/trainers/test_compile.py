"""Compiled layers of trained models: equal gradients, and what is refused."""

from __future__ import annotations

import copy
import shutil

import pytest
import torch

from palaver.agents.llm.model.load import compile_layers
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.core import ConfigError, PolicyError
from palaver.trainers.algorithms.base import chosen
from palaver.trainers.checks import refuse_contradictions
from palaver.trainers.config.run import TrainConfig
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.policy_update import PolicyUpdater
from tests.closeness import assert_gradients_close
from tests.models import byte_tokenizer, tiny_qwen3
from tests.trainers.learning import config
from tests.trainers.test_learner import CONFIG, sampled, update_with_spy
from tests.trainers.toys import SEATS


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_compiled_layers_change_no_gradient():
    model = tiny_qwen3()
    table = sampled(dict.fromkeys(SEATS, LLMPolicy(model, byte_tokenizer(), ModelOptions(device="cpu"), "p")))
    found = []
    for compiled in (False, True):
        settings = CONFIG.model_copy(update={"train": TrainConfig(steps=10, compile=compiled)})
        own = LLMPolicy(copy.deepcopy(model), byte_tokenizer(), ModelOptions(device="cpu"), "p")
        learner = PolicyUpdater(own, SEATS, settings, Distributed("cpu", "fp32"))
        assert (own.model.model.layers[0]._compiled_call_impl is not None) == compiled
        found.append(update_with_spy(learner, table))
    assert_gradients_close(found[1], found[0])


def test_a_model_without_marked_layers_and_a_machine_without_a_compiler(monkeypatch):
    with pytest.raises(PolicyError, match=r"^train.compile: Linear has no layers that can be compiled: turn it off$"):
        compile_layers(torch.nn.Linear(2, 2))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(PolicyError, match=r"^train.compile needs a C\+\+ compiler \(CXX, c\+\+, g\+\+ or"):
        compile_layers(tiny_qwen3())


@pytest.mark.parametrize("sections", [{"team": {"kind": "lora"}}, {"placement": {"shard": "fsdp2"}}])
def test_adapters_and_sharded_weights_are_not_compiled(sections):
    run = config(train={"compile": True}, **sections)
    with pytest.raises(ConfigError, match=r"train.compile is for whole models: turn it off with adapters"):
        refuse_contradictions(run, chosen(run.algorithm), 2, 1)
