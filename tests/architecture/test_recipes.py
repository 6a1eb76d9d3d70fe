"""Every shipped recipe is complete: it parses, its environment takes its keywords, its algorithm exists."""

from __future__ import annotations

import re

import pytest
import yaml

import palaver
from palaver.registry import COMMON
from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.config.loading import load, parse
from palaver.utils.config import dump, recipes
from tests.architecture.source import ROOT

SHIPPED = sorted(recipes("run"))
FAMILY = ("mareinforce", "marloo", "maremax")


def _text(name):
    return (ROOT / "trainers" / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SHIPPED)
def test_recipe(name):
    config = load(name)
    row = algorithm(config.algorithm.name)
    assert config.algorithm.group_size >= (2 if row.needs_group else 1)
    assert set(config.env.keywords()) <= {*palaver.spec(config.env.id).keywords(), *COMMON}
    offline = {"tasks": "sample"} if config.env.tasks.startswith("hf:") else {}
    env = palaver.make(config.env.id, **config.env.keywords() | offline)
    assert len(env.tasks) >= config.train.prompts_per_step
    assert parse(yaml.safe_load(dump(config))) == config


@pytest.mark.parametrize("name", SHIPPED)
def test_recipe_says_what_it_is_for(name):
    first = _text(name).splitlines()[0]
    assert first.startswith("# ")
    assert 20 <= len(first) <= 120
    assert recipes("run")[name] == first[2:]
    own, said = (re.sub(r"[^a-z0-9]", "", each.lower()) for each in (load(name).algorithm.name, first))
    assert own in said, "AT-GRPO is atgrpo"


@pytest.mark.parametrize("name", SHIPPED)
def test_held_out_tasks_are_held_out(name):
    config = load(name)
    if config.eval.tasks and not config.env.tasks.startswith("hf:"):
        trained = {task.id for task in palaver.make(config.env.id, tasks=config.env.tasks).tasks}
        held_out = {task.id for task in palaver.make(config.env.id, tasks=config.eval.tasks).tasks}
        assert not trained & held_out
        assert len(held_out) >= config.eval.n
    else:
        assert config.eval.tasks != config.env.tasks


@pytest.mark.parametrize("member", FAMILY)
def test_the_family_differs_in_the_algorithm_alone(member):
    assert load(f"arxiv-{member}") == load("arxiv-magrpo", [f"algorithm.name={member}"])


PUBLISHED = [("arxiv-magrpo-qwen3", "arxiv-v0", [128, 256]), ("tldr-magrpo-qwen3", "tldr-v0", [8, 256])]


@pytest.mark.parametrize(("name", "id", "length"), PUBLISHED)
def test_the_published_settings(name, id, length):
    config = load(name)
    assert (config.env.id, config.env.keywords()["length"]) == (id, length)
    assert config.env.tasks.endswith(":train[:1100]")
    assert config.policy.model == "Qwen/Qwen3-1.7B"
    assert (config.policy.temperature, config.policy.top_p, config.policy.top_k) == (0.7, 0.9, 0)
    assert (config.policy.max_tokens, config.policy.chat, config.policy.dtype) == (256, "plain", "bf16")
    row = config.algorithm
    assert (row.group_size, row.joint, row.normalize, row.std) == (4, "aligned", "std", "population")
    assert (row.aggregate, config.kl.coef, config.optim.lr) == ("sum", 0.0, 5e-6)
    assert config.train.steps * config.train.prompts_per_step == 2 * 1100


def test_the_issues_command():
    """`palaver train arxiv-magrpo policy.model=Qwen/Qwen3-0.6B env.tasks=hf:... device=cuda` and its own recipe."""
    overrides = ["policy.model=Qwen/Qwen3-0.6B", "env.tasks=hf:OpenMLRL/arXiv_abstract:train[:1100]", "device=cuda"]
    for name in ("arxiv-magrpo", "arxiv-magrpo-qwen3"):
        config = load(name, overrides)
        assert (config.policy.model, config.device) == ("Qwen/Qwen3-0.6B", "cuda")
        assert config.env.tasks == "hf:OpenMLRL/arXiv_abstract:train[:1100]"


BUILDING = [("housebuild-magrpo-qwen3", "score", 1.0, 1e-5), ("strbuild-magrpo-qwen3", "position", 2.0, 5e-6)]


@pytest.mark.parametrize(("name", "feedback", "shift", "lr"), BUILDING)
def test_the_published_building_settings(name, feedback, shift, lr):
    """`house_build_magrpo_config.yaml` and `str_build_magrpo_config.yaml` of OpenMLRL/LLM_Collab_Minecraft."""
    config = load(name)
    env = palaver.make(config.env.id, **config.env.keywords())
    assert (env.num_turns, env.feedback, env.persistent, len(env.tasks)) == (4, feedback, False, 8)
    assert config.policy.model == "Qwen/Qwen3-4B-Instruct-2507"
    assert (config.policy.temperature, config.policy.top_p, config.policy.top_k) == (0.6, 0.6, 0)
    assert (config.policy.max_tokens, config.policy.chat, config.policy.dtype) == (512, "auto", "bf16")
    row = config.algorithm
    assert (row.group_size, row.joint, row.turns, row.discount) == (2, "aligned", "tree", 0.9)
    assert row.stop_above == pytest.approx(shift - 0.1)
    assert (row.normalize, row.std, row.aggregate, config.kl.coef) == ("std", "population", "sum", 0.0)
    assert (config.optim.lr, config.optim.weight_decay, config.optim.max_grad_norm) == (lr, 0.01, 0.0)
    assert config.train.steps * config.train.prompts_per_step == 20 * 8


def test_no_question_of_the_maths_recipes_is_trained_on_and_held_out():
    config = load("maths-single")
    trained, held_out = (
        {task["question"] for task in palaver.make(config.env.id, **config.env.keywords(tasks)).tasks}
        for tasks in (None, config.eval.tasks)
    )
    assert (len(trained), len(held_out), len(trained & held_out)) == (1024, 256, 0)
