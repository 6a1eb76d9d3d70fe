"""References of adapters: the base, still copies, a stored adapter; a reference pass leaves every adapter as it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from palaver.agents.llm.model.load import load_pretrained
from palaver.agents.llm.model.options import LoraOptions, ModelOptions
from palaver.agents.llm.policies.lora_policy import AdapterPolicy, adapted
from palaver.core import ConfigError, PolicyError
from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.config.loading import parse
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.memory import model_facts, reference_weights
from palaver.trainers.train import resume, train
from palaver.trainers.update.policy_update import PolicyUpdater
from palaver.trainers.update.reference_model import reference_of, refuse_own
from palaver.trainers.update.updater import Updater
from tests.agents.adapting import LORA, merged, same, shaken, stored_base, team_of, weights_of
from tests.closeness import assert_values_close
from tests.models import tiny_qwen3
from tests.trainers.learning import config, played, row_log_probs, untimed
from tests.trainers.toys import register_toy, save_model

KINDS = ("base", "start", "step:1", "lag:1", "adapter")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return stored_base(tmp_path_factory.mktemp("bases") / "base")


@pytest.fixture(scope="module")
def stored(base, tmp_path_factory):
    """An adapter of another shape than the team's, and the plain model that computes as it."""
    folder = tmp_path_factory.mktemp("stored") / "x"
    policy = team_of(base, ["x"], LoraOptions(rank=3, alpha=9.0, targets=("q_proj", "up_proj")))["x"]
    shaken(policy, 8)
    policy.save(folder)
    return str(folder), merged(policy, plain(base))


def plain(base: str):
    return load_pretrained(base, torch.device("cpu"))[0]


def settings_of(kind: str, stored: tuple[str, object] | None = None, **kl):
    reference = f"adapter:{stored[0]}" if kind == "adapter" else kind
    return config(kl={"coef": 0.3, "reference": reference} | kl, algorithm={"group_size": 2}, team={"kind": "lora"})


def learners_of(team: dict[str, AdapterPolicy], settings) -> list[PolicyUpdater]:
    return [PolicyUpdater(policy, [agent], settings, Distributed("cpu", "fp32")) for agent, policy in team.items()]


@pytest.mark.parametrize("kind", KINDS)
def test_what_each_kind_scores_with(kind, base, stored):
    """After two updates: the base, the start, the adapter of update 1 twice over, or the stored one."""
    team = team_of(base, ["a", "b"])
    settings = settings_of(kind, stored)
    (learner, _) = learners_of(team, settings)
    been = [merged(team["a"], plain(base))]
    for step in (1, 2):
        shaken(team["a"], 20 + step)
        been.append(merged(team["a"], plain(base)))
        learner.reference.advance(step)
    expected = {"base": plain(base), "start": been[0], "step:1": been[1], "lag:1": been[1], "adapter": stored[1]}[kind]
    table = played(team, settings)
    rows = table.rows_of(["a"])
    found = learner.reference_log_probs(table, rows)
    for row in rows:
        with torch.no_grad():
            wanted = row_log_probs(expected, table.completions[row])
        assert_values_close(found[row], wanted)
        assert (found[row] - torch.tensor(table.completions[row].sample_logprobs)).abs().max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_a_reference_pass_leaves_no_trace(kind, base, stored):
    """Adapters bit for bit, which is selected, what gets a gradient, modes, random state; also after an error."""
    team = team_of(base, ["a", "b"])
    settings = settings_of(kind, stored)
    (learner, _) = learners_of(team, settings)
    table = played(team, settings)
    rows, ids = table.rows_of(["a"]), torch.arange(4, 12)[None]
    every = list(team["a"].model.parameters())
    torch.manual_seed(7)
    with team["b"].active() as model:
        before = [p.detach().clone() for p in every], [p.requires_grad for p in every], torch.get_rng_state()
        modes, said = [module.training for module in model.modules()], model(input_ids=ids).logits
        learner.reference_log_probs(table, rows)
        with pytest.raises(ZeroDivisionError), learner.reference.active():
            raise ZeroDivisionError
        assert torch.equal(model(input_ids=ids).logits, said), "b is still selected"
        assert [module.training for module in model.modules()] == modes
        assert torch.is_grad_enabled()
    assert same([p.detach() for p in every], before[0])
    assert [p.requires_grad for p in every] == before[1]
    assert torch.equal(torch.get_rng_state(), before[2])
    assert all(p.requires_grad for policy in team.values() for p in policy.parameters())


@pytest.mark.parametrize("kind", ["base", "start", "step:3", "lag:2"])
@pytest.mark.parametrize("place", ["loss", "reward", "advantage"])
def test_new_adapters_are_where_they_are_pulled_to(kind, place, base):
    """B is 0: the pull of the first step is nothing, to the base as to the start."""
    team = adapted(base, ["a", "b"], ModelOptions(device="cpu"), LORA)
    settings = settings_of(kind, place=place)
    study = Updater(algorithm("magrpo"), settings, learners_of(team, settings), Distributed("cpu", "fp32"))
    judged = study.estimate_advantages(played(team, settings))
    assert max(float(each.abs().max()) for each in judged.kl.log_ratio.values()) < 1e-5
    assert float(judged.kl.penalty.abs().max()) < 1e-5


def test_the_pull_trains_the_policys_own_adapter_alone(base, stored, monkeypatch):
    team = team_of(base, ["a", "b"])
    settings = settings_of("adapter", stored)
    study = Updater(algorithm("magrpo"), settings, learners_of(team, settings), Distributed("cpu", "fp32"))
    before = {agent: weights_of(policy) for agent, policy in team.items()}
    kept = [learner.reference.frozen.state_dict() for learner in study.learners]
    kept = [[weight.clone() for weight in each.values()] for each in kept]
    monkeypatch.setattr(study.learners[1].optimizer, "step", lambda: None)
    study.update(study.estimate_advantages(played(team, settings)), 1)
    assert not same(weights_of(team["a"]), before["a"])
    assert same(weights_of(team["b"]), before["b"])
    for learner, weights in zip(study.learners, kept, strict=True):
        assert same(list(learner.reference.frozen.state_dict().values()), weights)


def test_adapters_that_do_not_fit_are_refused_in_one_line(base, stored, tmp_path):
    policy = team_of(base, ["a"])["a"]
    other = stored_base(tmp_path / "other", lambda: tiny_qwen3(3, hidden=64))
    foreign = team_of(other, ["y"])["y"]
    foreign.save(tmp_path / "foreign")
    written = (tmp_path / "foreign" / "adapter_config.json").read_text()
    foreign.save(tmp_path / "wide")
    (tmp_path / "wide" / "adapter_config.json").write_text(written.replace(other, base))
    for folder, told in (("foreign", "and not for"), ("wide", "does not fit"), ("nowhere", "holds no adapter")):
        with pytest.raises(PolicyError, match=told) as caught:
            reference_of(policy, settings_of("adapter", (str(tmp_path / folder), None)))
        assert "\n" not in str(caught.value)


def test_an_adapter_of_the_run_itself_is_refused(tmp_path, monkeypatch):
    run = tmp_path / "run"
    monkeypatch.chdir(tmp_path)
    for path in (f"{run}/checkpoints/step-000001/policies/a", "run/x", "./other/../run/x", "run"):
        with pytest.raises(ConfigError, match="own folder") as caught:
            refuse_own(settings_of("adapter", (path, None)), run)
        assert "\n" not in str(caught.value)
    for path in (tmp_path / "other", tmp_path / "run2"):
        refuse_own(settings_of("adapter", (str(path), None)), Path("run"))
    refuse_own(settings_of("start"), run)


def test_what_memory_they_take(base, stored):
    """The base nothing, a still copy an adapter, a stored one its own size; lags what they will come to."""
    team = team_of(base, ["a", "b"])
    size = sum(p.numel() for p in team["a"].parameters())
    small = sum(p.numel() for p in weights_of(team_of(base, ["x"], LoraOptions(3, 9.0, ("q_proj", "up_proj")))["x"]))

    def numbers(kind):
        settings = settings_of(kind, stored)
        found = [(policy, reference_of(policy, settings)) for policy in team.values()]
        return reference_weights([model_facts(settings, policy, own.held, own.shared) for policy, own in found])

    assert numbers("base") == 0
    assert numbers("start") == numbers("step:2") == 2 * size
    assert numbers("lag:2") == 2 * 3 * size
    assert numbers("adapter") == 2 * small


@pytest.mark.parametrize(
    "kl",
    [
        {"reference": "base", "place": "reward", "target": 0.2, "horizon": 20},
        {"reference": "step:2", "place": "advantage"},
        {"reference": "lag:2"},
        {"reference": "adapter"},
    ],
    ids=lambda kl: kl["reference"],
)
def test_a_resumed_run_of_adapters_equals_the_uninterrupted_one(kl, tmp_path):
    """What each kind had come to after three of five updates is in the checkpoint."""
    register_toy()
    model = save_model(tmp_path / "m")
    if kl["reference"] == "adapter":
        team_of(model, ["x"])["x"].save(tmp_path / "x")
        kl = kl | {"reference": f"adapter:{tmp_path / 'x'}"}
    values = {
        "env": {"id": "lengths-v0"}, "policy": {"model": model, "max_tokens": 4}, "team": {"kind": "lora"},
        "algorithm": {"group_size": 2}, "optim": {"lr": 1e-2}, "eval": {"n": 0}, "device": "cpu",
        "kl": {"coef": 0.1} | kl, "log": {"tensorboard": False, "episodes": False},
        "train": {"steps": 5, "checkpoint_every": 3},
    }  # fmt: skip
    run = train(parse(values), tmp_path / "run")
    whole = untimed(run)
    assert max(line["a/k1_max"] for line in whole) > 1e-3
    shutil.rmtree(run / "checkpoints" / "step-000005")
    resume(run)
    assert untimed(run) == whole


def test_an_adapter_of_its_own_folder_is_refused_before_the_run(base, tmp_path):
    register_toy()
    values = {"env": {"id": "lengths-v0"}, "policy": {"model": base}, "team": {"kind": "lora"}, "device": "cpu"}
    kl = {"coef": 0.1, "reference": f"adapter:{tmp_path}/run/checkpoints/step-000001/policies/a"}
    with pytest.raises(ConfigError, match="own folder"):
        train(parse(values | {"kl": kl}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
