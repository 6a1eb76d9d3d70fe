"""Recipes and overrides: what is written is what is run, and every mistake is one line with the nearest name."""

from __future__ import annotations

import pytest
import yaml

from palaver.core import CheckpointError, ConfigError, Sampling
from palaver.trainers.config.loading import load, parse, parse_file
from palaver.trainers.config.run import RunConfig
from palaver.trainers.run.files import config_text
from palaver.utils.config import dump, recipes


@pytest.fixture
def write(tmp_path):
    """Write a recipe and give its path."""

    def written(text, name="mine.yaml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return written


def refused(recipe, overrides=()):
    """The one line that says why."""
    with pytest.raises(ConfigError) as caught:
        load(recipe, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_empty_recipe_is_the_defaults(write):
    assert load(write("seed: 0\n")) == RunConfig() == parse({})


def test_a_recipe_changes_what_it_names_and_nothing_else(write):
    config = load(write("train: {steps: 7}\nenv: {id: tldr-v0, length: [8, 32]}\n"))
    assert config.train.steps == 7
    assert config.train.prompts_per_step == RunConfig().train.prompts_per_step
    assert config.env.keywords() == {"tasks": "sample", "length": [8, 32]}
    assert config.model_copy(update={"train": RunConfig().train, "env": RunConfig().env}) == RunConfig()


def test_overrides_win_in_order(write):
    path = write("seed: 1\noptim: {lr: 0.5, warmup: 3}\n")
    config = load(path, ["seed=2", "optim.lr=1e-3", "seed=3"])
    assert (config.seed, config.optim.lr, config.optim.warmup) == (3, 0.001, 3)


@pytest.mark.parametrize(
    ("override", "read", "value"),
    [
        ("env.length=[4,9]", lambda c: c.env.keywords()["length"], [4, 9]),
        ("env.tasks=sample[:48]", lambda c: c.env.tasks, "sample[:48]"),
        ("env.tasks=hf:OpenMLRL/arXiv_abstract:train[:1100]", lambda c: c.env.tasks,
         "hf:OpenMLRL/arXiv_abstract:train[:1100]"),
        ("env.weights={length: 1.0, ratio: 0}", lambda c: c.env.keywords()["weights"], {"length": 1.0, "ratio": 0}),
        ("env.weights.length=2", lambda c: c.env.keywords()["weights"], {"length": 2}),
        ("env.ending=", lambda c: c.env.keywords()["ending"], None),
        ('env.ending="."', lambda c: c.env.keywords()["ending"], "."),
        ("env.gated=false", lambda c: c.env.keywords()["gated"], False),
        ("policy.model=Qwen/Qwen3-0.6B", lambda c: c.policy.model, "Qwen/Qwen3-0.6B"),
        ("policy.stop=[END,STOP]", lambda c: c.policy.stop, ("END", "STOP")),
        ("algorithm.stop_above=2.5", lambda c: c.algorithm.stop_above, 2.5),
        ("algorithm.stop_above=null", lambda c: c.algorithm.stop_above, None),
        ("eval.tasks=null", lambda c: c.eval.tasks, None),
        ("optim.betas=[0.9,0.95]", lambda c: c.optim.betas, (0.9, 0.95)),
        ("device=cuda:1", lambda c: c.device, "cuda:1"),
        ("out=runs/a=b", lambda c: c.out, "runs/a=b"),
    ],
)  # fmt: skip
def test_an_override_is_read_as_yaml(override, read, value):
    assert read(load("arxiv-magrpo", [override])) == value


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trian.steps=3", "unknown key 'trian'. Did you mean 'train'?"),
        ("train.stpes=3", "unknown key 'train.stpes'. Did you mean 'steps'?"),
        ("optim.learning_rate=1", "unknown key 'optim.learning_rate'."),
        ("algorithm.groupsize=4", "unknown key 'algorithm.groupsize'. Did you mean 'group_size'?"),
        ("kl.coeff=0.1", "unknown key 'kl.coeff'. Did you mean 'coef'?"),
        ("policy.modle=tiny", "unknown key 'policy.modle'. Did you mean 'model'?"),
        ("eval.N=3", "unknown key 'eval.N'."),
        ("log.wandb_project=x", "unknown key 'log.wandb_project'."),
        ("team.knid=shared", "unknown key 'team.knid'. Did you mean 'kind'?"),
        ("sed=3", "unknown key 'sed'. Did you mean 'seed'?"),
    ],
)
def test_unknown_keys_are_refused_with_the_nearest(override, message):
    assert refused("arxiv-magrpo", [override]).startswith(message)


def test_unknown_keys_in_a_file_are_refused_too(write):
    assert refused(write("train: {stpes: 3}\n")) == "unknown key 'train.stpes'. Did you mean 'steps'?"


def test_keywords_of_the_environment_are_left_to_the_environment():
    assert load("arxiv-magrpo", ["env.lenght=[1,2]"]).env.keywords()["lenght"] == [1, 2]


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("train.steps=many", "train.steps", "'many'"),
        ("train.steps=0", "train.steps", "0"),
        ("train.steps=1.5", "train.steps", "1.5"),
        ("optim.lr=-1", "optim.lr", "-1"),
        ("optim.lr=0", "optim.lr", "0"),
        ("optim.betas=[0.9]", "optim.betas.1", ""),
        ("policy.top_p=0", "policy.top_p", "0"),
        ("policy.top_p=1.5", "policy.top_p", "1.5"),
        ("policy.temperature=-1", "policy.temperature", "-1"),
        ("policy.dtype=fp16", "policy.dtype", "'fp16'"),
        ("algorithm.normalize=yes", "algorithm.normalize", ""),
        ("algorithm.joint=crossed", "algorithm.joint", "'crossed'"),
        ("algorithm.discount=1.01", "algorithm.discount", "1.01"),
        ("algorithm.group_size=0", "algorithm.group_size", "0"),
        ("team.kind=solo", "team.kind", "'solo'"),
        ("train=5", "train", "5"),
        ("seed=abc", "seed", "'abc'"),
        ("eval.n=-1", "eval.n", "-1"),
    ],
)
def test_values_that_do_not_fit_are_refused_with_their_key(override, key, value):
    message = refused("arxiv-magrpo", [override])
    assert message.startswith((f"{key}: ", f"{key} is missing"))
    assert message.endswith(value)


def test_an_unknown_recipe():
    hint = "name a shipped one or a .yaml file. Did you mean 'arxiv-magrpo'?"
    assert refused("arxiv-magrp0") == f"there is no recipe 'arxiv-magrp0'; {hint}"
    assert "Known: " in refused("zzzzzzzzzzzzzzz")


def test_a_missing_file(tmp_path):
    path = str(tmp_path / "none.yaml")
    assert refused(path) == f"there is no recipe file {path!r}"
    assert refused(str(tmp_path) + "/.yaml").startswith("there is no recipe")
    with pytest.raises(ConfigError, match="there is no recipe file"):
        parse_file(tmp_path / "config.yaml")


@pytest.mark.parametrize("text", ["train: {steps: 3", "a: b: c", "train:\n\t- x", "seed: ${nowhere}", "&a [*b]"])
def test_bad_yaml(write, text):
    path = write(text)
    assert path in refused(path)


@pytest.mark.parametrize("text", ["[1, 2]", "- seed"])
def test_a_recipe_that_is_no_mapping(write, text):
    refused(write(text))


@pytest.mark.parametrize("override", ["train.steps", "--resume", "", "steps 3"])
def test_an_override_without_equals(override):
    assert refused("arxiv-magrpo", [override]) == f"write key=value, or key.sub=value; got {override!r}"


@pytest.mark.parametrize("override", ["env.length=[1,2", "seed=${nowhere}", "policy.stop={a"])
def test_a_bad_override(override):
    assert refused("arxiv-magrpo", [override]).startswith("arxiv-magrpo: ")


def test_a_recipe_that_is_not_utf8(tmp_path):
    path = tmp_path / "latin.yaml"
    path.write_bytes("out: é\n".encode("latin-1"))
    refused(str(path))


def test_dump_and_load_are_inverse(write):
    changes = [
        "env.length=[4,9]", "env.ending='.'", "policy.stop=[a,'b: c']", "optim.betas=[0.8,0.9]",
        "algorithm.stop_above=2.5", "eval.tasks=sample[48:]", "seed=12", "out=runs/é", "env.tasks=hf:a/b:train[:3]",
    ]  # fmt: skip
    config = load("arxiv-magrpo", changes)
    assert load(write(dump(config))) == config
    assert load(write(dump(RunConfig()))) == RunConfig()


def test_the_config_of_a_run_is_read_back(tmp_path):
    (tmp_path / "config.yaml").write_text(config_text(load("arxiv-magrpo")), encoding="utf-8")
    assert parse_file(tmp_path / "config.yaml") == load("arxiv-magrpo")


def test_a_config_of_another_format_is_refused(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(dump(load("arxiv-magrpo")), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"config.yaml' has format 1, and this version of Palaver reads format 2"):
        parse_file(path)
    path.write_text("format: 3\ntrain: {steps: 3}\n", encoding="utf-8")
    with pytest.raises(CheckpointError, match="has format 3, and this version of Palaver reads format 2"):
        load(str(path))


def test_a_dump_is_complete():
    values = yaml.safe_load(dump(RunConfig()))
    assert set(values) == set(RunConfig.model_fields)
    for name, section in values.items():
        if isinstance(section, dict):
            assert set(section) == set(type(getattr(RunConfig(), name)).model_fields)


@pytest.mark.parametrize("name", sorted(recipes("run")))
def test_every_shipped_recipe_survives_a_dump(write, name):
    assert load(write(dump(load(name)))) == load(name)


def test_a_yml_file_is_a_recipe_too(write):
    assert load(write("seed: 4\n", "mine.yml")).seed == 4


def test_recipes_are_listed_with_their_first_line():
    found = recipes("run")
    assert list(found) == sorted(found)
    assert found["arxiv-magrpo"].startswith("MAGRPO: ")


def test_a_config_cannot_be_changed():
    config = RunConfig()
    for section, name in ((config, "seed"), (config.train, "steps"), (config.env, "id")):
        with pytest.raises(ValueError, match="frozen"):
            setattr(section, name, 1)


def test_sampling_settings():
    policy = load("arxiv-magrpo", ["policy.temperature=0.7", "policy.top_k=5", "policy.stop=[x]"]).policy
    assert policy.sampling() == Sampling(0.7, 1.0, 5, policy.max_tokens, ("x",))
    assert policy.sampling(greedy=True) == Sampling(0.0, 1.0, 5, policy.max_tokens, ("x",))


def test_a_recipe_may_be_based_on_another(write):
    based = load(write("base: arxiv-magrpo\nalgorithm: {name: marloo}\n"), ["seed=4"])
    plain = load("arxiv-magrpo", ["seed=4", "algorithm.name=marloo"])
    assert based == plain == load("arxiv-marloo", ["seed=4"])
    assert "there is no recipe 'arxiv-magrp'" in refused(write("base: arxiv-magrp\n"))
    assert "there is no recipe" in refused(write("base: other.yaml\n")), "a base is a shipped recipe"


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("bse", "say `base`, `start`"),
        ("base:x", "say `base`, `start`"),
        ("", "say `base`, `start`"),
        ("step", "say `base`, `start`"),
        ("step:", "the number of an update"),
        ("step:-1", "the number of an update"),
        ("step:x", "the number of an update"),
        ("step:1.5", "the number of an update"),
        ("step:" + "9" * 5000, "the number of an update"),
        ("lag:0", "a number of updates, 1 or more"),
        ("lag:-3", "a number of updates, 1 or more"),
        ("lag:", "a number of updates, 1 or more"),
        ("adapter:", "lacks an adapter's folder"),
        ("adapter: ", "lacks an adapter's folder"),
        ("model:", "lacks a model's name"),
        ("step:3,adapter:x", "name one reference, not several"),
        ("adapter:x,step:3", "name one reference, not several"),
        ("adapter:x, base", "name one reference, not several"),
        ("start,lag:2", "name one reference, not several"),
    ],
)
def test_a_malformed_reference_is_refused_in_one_line(reference, told):
    with pytest.raises(ConfigError) as caught:
        parse({"kl": {"reference": reference}})
    assert str(caught.value).startswith("kl.reference: ")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "reference", ["base", "start", "step:0", "step:20", "lag:1", "adapter:a,b/c", "model:hf:Qwen/Qwen3-0.6B", "model:x"]
)
def test_references_are_read_and_written_back(reference, write):
    found = load("arxiv-magrpo", [f"kl.reference='{reference}'"])
    assert found.kl.reference == reference
    assert load(write(dump(found))).kl == found.kl


@pytest.mark.parametrize(
    "override",
    [
        "env.length.lo=1",
        "env.lengths[0]=3",
        "optim.betas=[1.5,0.9]",
        "optim.lr=.inf",
        "kl.coef=.nan",
        "policy.stop=['']",
    ],
)
def test_values_that_would_fail_later_are_refused_now(override):
    refused("arxiv-magrpo", [override])


def test_settings_that_became_constants_are_read_at_their_value(write):
    """Complete configs of earlier runs hold them; at another value they are unknown keys."""
    mixer = {"hyper": 64, "max_grad_norm": 10.0, "double": True, "target": "hard", "tau": 0.01, "confidence": 0.0}
    old = {"kl": {"coef": 0.1, "centre": "agent_batch", "source": "sample"}, "algorithm": {"mixer": mixer}}
    assert load(write(yaml.safe_dump(old))) == parse({"kl": {"coef": 0.1}})
    assert "unknown key 'kl.centre'" in refused(write("kl: {centre: none}\n"))
    assert "unknown key 'algorithm.mixer.double'" in refused(write("algorithm: {mixer: {double: false}}\n"))
