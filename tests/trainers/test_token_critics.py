"""Critics that read a value before every token: what they read, what they learn from, and the policies' gradient."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.core import PolicyError
from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.config.loading import parse
from palaver.trainers.objectives.losses import ppo_clip, reinforce
from palaver.trainers.objectives.token_values import token_reads
from palaver.trainers.rollout.batch import make_batch
from palaver.trainers.rollout.joint_prompt import joint_ids, refuse_long_joint
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.train import train
from palaver.trainers.update.critic import Critic, Samples
from palaver.trainers.update.update_records import UpdateInput
from palaver.trainers.update.updater import Updater
from tests.closeness import assert_gradients_close, assert_values_close
from tests.models import reversed_byte_tokenizer, tiny_gpt2
from tests.trainers.learning import (
    completion,
    config,
    episode,
    gradients,
    learners,
    played,
    policy,
    row_at,
    row_log_probs,
    spied,
)  # fmt: skip
from tests.trainers.toys import Lengths, register_toy, save_model

WORLD = Distributed("cpu", "fp32")
IPPO = algorithm("ippo")


def made_study(name: str, turn_weights: str = "balanced", **changes):
    """A team of two, its settings, and a study whose critics' outputs are not zero."""
    settings = config(
        algorithm={"name": name, "group_size": 2, "gae_lambda": 0.5, "turn_weights": turn_weights},
        **{"critic": {"lr": 1e-2}, **changes},
    )
    team = {"a": policy(0), "b": policy(1)}
    study = Updater(algorithm(name), settings, learners(team, settings), WORLD)
    torch.manual_seed(3)
    for each in study.estimator.critics.values():
        torch.nn.init.normal_(each.head.weight, std=0.3)
    return team, settings, study


def plain(critic: Critic, prompt: Sequence[int], answer: Sequence[int]) -> list[float]:
    """Values before every token of an answer, from all hidden states of one sequence alone."""
    ids = torch.tensor([[*prompt, *answer]])
    with critic._reading() as trunk, torch.no_grad():
        hidden = trunk(input_ids=ids).last_hidden_state[0]
        return critic.head(hidden)[len(prompt) - 1 : len(prompt) + len(answer) - 1, 0].tolist()


def test_places_by_hand():
    ids, counts = token_reads([(1, 2), (3,), (4, 5)], [(6, 7, 8), (9,), ()])
    assert ids == [(1, 2, 6, 7), (3,), (4, 5)]
    assert counts == [3, 1, 1]
    samples = Samples(ids, torch.zeros(5), torch.zeros(5), counts)
    assert [list(place) for place in samples.places] == [[0, 1, 2], [3], [4]]


@pytest.mark.parametrize("kind", ["separate", "shared"])
@pytest.mark.parametrize("gpt2", [False, True])
def test_values_are_those_of_a_plain_pass_at_every_place(kind, gpt2):
    """Answers that share a prompt, one twice, one of a single token, in batches of two and all together."""
    tokenizer = policy(0).tokenizer
    body = LLMPolicy(tiny_gpt2(), tokenizer, ModelOptions(device="cpu"), "p") if gpt2 else policy(0)
    critic = Critic(body, "c", config(critic={"model": kind}), WORLD)
    torch.nn.init.normal_(critic.head.weight, std=0.3)
    prompts = [(5, 6, 7), (5, 6, 7), (9,), (5, 6, 7)]
    answers = [(8, 9, 10, 11), (12,), (5, 6), (8, 9, 10, 11)]
    expected = [value for pair in zip(prompts, answers, strict=True) for value in plain(critic, *pair)]
    for critic.micro_tokens in (1, 12, 1000):
        assert_values_close(critic.values(*token_reads(prompts, answers)), expected)


@pytest.mark.parametrize("kind", ["separate", "shared"])
def test_the_gradient_is_that_of_the_mean_over_all_values(kind):
    """Half a square at every token, its mean over all tokens; a repeated answer counts twice."""
    critic = Critic(policy(0), "c", config(critic={"model": kind, "coef": 0.3, "clip": 0.2}), WORLD)
    torch.nn.init.normal_(critic.head.weight, std=0.3)
    critic.micro_tokens = 12
    ids, counts = token_reads([(5, 6, 7), (9,), (5, 6, 7)], [(8, 9, 10), (5, 6), (8, 9, 10)])
    target = torch.linspace(-1, 2, 8)
    old = torch.linspace(0.5, -0.5, 8)
    loss = critic.backward(Samples(ids, target, old, counts))
    with critic._reading() as trunk:
        values = [critic.head(trunk(input_ids=torch.tensor([each])).last_hidden_state[0])[-n:, 0]
                  for each, n in zip(ids, counts, strict=True)]  # fmt: skip
        value = torch.cat(values)
        held = old + (value - old).clamp(-0.2, 0.2)
        cost = torch.maximum((value - target).square() / 2, (held - target).square() / 2).mean()
        expected = gradients(trunk, cost * (0.3 if kind == "shared" else 1.0))
        assert loss == pytest.approx(cost.item(), rel=1e-5)
        assert_gradients_close({name: p.grad for name, p in trunk.named_parameters()}, expected)


def test_minibatches_are_of_whole_sequences():
    critic = Critic(policy(0), "c", config(critic={"minibatches": 2, "lr": 1e-3, "normalize": True}), WORLD)
    ids, counts = token_reads([(5, 6), (9,), (7,)], [(8, 9, 10), (5, 6), (8,)])
    seen = []
    backward = critic.backward

    def spy(samples: Samples) -> float:
        seen.append((list(samples.ids), samples.target.tolist(), list(samples.counts)))
        return backward(samples)

    critic.backward = spy
    critic.update(Samples(ids, torch.arange(6.0), torch.zeros(6), counts), 1)
    assert len(seen) == 2
    whole = {ids[0]: [0.0, 1.0, 2.0], ids[1]: [3.0, 4.0], ids[2]: [5.0]}
    for parts, target, numbers in seen:
        assert target == [number for each in parts for number in whole[each]]
        assert numbers == [len(whole[each]) for each in parts]
    assert sorted(each for parts, _, _ in seen for each in parts) == sorted(ids)
    assert critic.norm.mean == pytest.approx(2.5), "of all six values"


@pytest.mark.parametrize("name", ["cory", pytest.param("mappo", marks=pytest.mark.slow)])
def test_the_loss_of_the_values_falls_on_a_fixed_batch(name):
    team, settings, study = made_study(name, critic={"lr": 3e-3, "level": "token", "clip": None})
    judged = study.estimate_advantages(played(team, settings))
    for key, critic in study.estimator.critics.items():
        samples = study.estimator.samples(key, judged)
        assert len(samples.target) > len(samples.ids)
        losses = [critic.update(samples, step).loss for step in range(1, 11)]
        assert losses[-1] < losses[0] / 2


def test_a_step_of_a_joint_critic_learns_from_every_completion_once():
    """It reads the joint conversation, who speaks now, and the tokens so far."""
    team, settings, study = made_study("maac", critic={"lr": 1e-2, "level": "token"})
    table = played(team, settings)
    critic = study.estimator.critics["joint"]
    joint, prompts = joint_ids(table, critic.body), study.estimator.inputs(table)
    tokenizer = critic.body.tokenizer
    at = row_at(table)
    for number, turn in enumerate(table.steps):
        for agent in turn.completions:
            row = at[turn.node, agent]
            assert prompts[row][: len(joint[number])] == joint[number]
            assert tokenizer.decode(prompts[row][len(joint[number]) :]) == f"[{agent} says]\n"
    judged = study.estimate_advantages(table)
    answers = [said.token_ids for said in table.completions]
    expected = [value for pair in zip(prompts, answers, strict=True) for value in plain(critic, *pair)]
    samples = study.estimator.samples("joint", judged)
    assert_values_close(samples.old, expected)
    assert_values_close(judged.value, [plain(critic, *pair)[0] for pair in zip(prompts, answers, strict=True)])
    mask = judged.tokens.mask
    assert torch.equal(samples.target, judged.batch.token_returns[mask])
    assert len(samples.ids) == len(table)
    steps = []
    critic.optimizer.register_step_pre_hook(lambda *_: steps.append(1))
    shown = study.update(judged, 1)
    assert steps == [1]
    assert shown["critic/joint/explained"] == pytest.approx(
        1 - float((samples.target - samples.old).var() / samples.target.var()), abs=1e-6
    )


def test_agents_with_other_tokens_are_refused_by_a_joint_critic_alone():
    team = {"a": policy(0), "b": LLMPolicy(tiny_gpt2(), reversed_byte_tokenizer(), ModelOptions(device="cpu"), "other")}
    for name, level in (("mappo", "completion"), ("ippo", "token")):
        settings = config(critic={"level": level})
        Updater(algorithm(name), settings, learners(team, settings), WORLD)
    settings = config(critic={"level": "token"})
    with pytest.raises(PolicyError, match=r"set critic\.level=completion"):
        Updater(algorithm("mappo"), settings, learners(team, settings), WORLD)


def test_a_joint_conversation_is_measured_with_the_last_completion(tmp_path):
    """Both read their task; in two turns each says 5 tokens, and at the end 4 of one are read behind its label."""
    register_toy()
    body, said = policy(0), {"a": 5, "b": 5}
    opening = refuse_long_joint(Lengths(), body, said, 1)
    label = len("[a says]\n")
    assert refuse_long_joint(Lengths(), body, said, 1, tokens=True) == opening + label + 4
    assert refuse_long_joint(Lengths(), body, said, 2, tokens=True) == opening + 10 + label + 4
    body.model.config.max_position_embeddings = opening + label + 3
    with pytest.raises(PolicyError, match=f"and may grow by {label + 4} to the end"):
        refuse_long_joint(Lengths(), body, said, 1, tokens=True)
    for context, fits in ((opening + label + 4, True), (opening + label + 3, False)):
        model = save_model(tmp_path / f"m{context}", max_position_embeddings=context)
        run = parse({
            "env": {"id": "lengths-v0"}, "policy": {"model": model, "max_tokens": 5}, "device": "cpu",
            "algorithm": {"name": "mappo", "group_size": 2}, "train": {"steps": 1}, "eval": {"n": 0},
            "critic": {"level": "token"}, "log": {"tensorboard": False},
        })  # fmt: skip
        if fits:
            train(run, tmp_path / "fits")
        else:
            with pytest.raises(PolicyError, match="critic of the team reads"):
                train(run, tmp_path / "never")


# --- what a token's advantage trains ---


@pytest.mark.parametrize("loss", [reinforce, ppo_clip])
def test_the_gradient_weighs_each_token_by_its_own_advantage(loss):
    """On fresh samples both losses have the gradient of -sum_t A_t log pi(a_t), at any level of the ratio of tokens."""
    team, settings, study = made_study("cory")
    judged = study.estimate_advantages(played(team, settings))
    table, learner = judged.batch, study.learners[0]
    rows = table.rows_of(["a"])
    total = torch.zeros((), dtype=torch.float64)
    for row in rows:
        logp = row_log_probs(team["a"].model, table.completions[row])
        total = total - (table.token_advantage[row, : len(logp)] * logp).sum()
    expected = gradients(team["a"].model, total / len(rows))
    spy = spied(learner)
    learner.update(UpdateInput(table, rows, loss, 1))
    assert_gradients_close(spy.steps[0], expected)


@pytest.mark.parametrize("level", ["turn", "sequence"])
def test_one_ratio_of_an_completion_weighs_its_mean_advantage(level):
    """On fresh samples rho is 1, and its gradient is the same at all tokens: that of the mean or of the sum."""
    team, settings, study = made_study("cory")
    settings = config(algorithm={"name": "cory", "ratio": level, "aggregate": "mean"})
    table = study.estimate_advantages(played(team, settings)).batch
    (learner, _) = learners(team, settings)
    rows = table.rows_of(["a"])
    total = torch.zeros((), dtype=torch.float64)
    for row in rows:
        logp = row_log_probs(team["a"].model, table.completions[row])
        total = total - float(table.advantage[row]) * (logp.mean() if level == "turn" else logp.sum())
    expected = gradients(team["a"].model, total / len(rows))
    spy = spied(learner)
    learner.update(UpdateInput(table, rows, ppo_clip, 1))
    assert_gradients_close(spy.steps[0], expected)


def test_rows_whose_tokens_all_have_no_advantage_are_left_out():
    table = make_batch([episode("0", lane, [(1.0,)], [{"a": completion(2)}]) for lane in (0, 1)])
    each = torch.tensor([[1.0, -1.0], [0.0, 0.0]], dtype=torch.float64)
    table = replace(table, advantage=each.mean(dim=1), token_advantage=each)
    assert [table.teaches(row) for row in (0, 1)] == [True, False]
    assert [replace(table, token_advantage=None).teaches(row) for row in (0, 1)] == [False, False]


@pytest.mark.parametrize("name", ["iac", "maac", "ippo", "mappo", "happo", "cory"])
@pytest.mark.parametrize(
    "place", ["reward", *(pytest.param(place, marks=pytest.mark.slow) for place in ("loss", "advantage"))]
)
def test_every_algorithm_with_values_takes_a_step(name, place):
    """Over two turns, with a pull to the reference in each place; critics and policies move, and a copy goes on."""
    team, settings, study = made_study(name, critic={"lr": 1e-2, "level": "token"}, kl={"coef": 0.1, "place": place})
    before = {key: copy.deepcopy(each.model.state_dict()) for key, each in team.items()}
    table = played(team, settings)
    judged = study.estimate_advantages(table)
    assert bool((judged.tokens.kl_cost != 0).any()) == (place == "reward")
    shown = study.update(judged, 1)
    assert all(np.isfinite(value) for key, value in shown.items() if not key.endswith("explained"))
    for key, each in team.items():
        assert any(
            not torch.equal(old, new)
            for old, new in zip(before[key].values(), each.model.state_dict().values(), strict=True)
        )
    second = Updater(algorithm(name), settings, study.learners, WORLD)
    second.load_state_dict(copy.deepcopy(study.state_dict()))
    assert torch.equal(
        second.estimate_advantages(table).batch.token_advantage, study.estimate_advantages(table).batch.token_advantage
    )


def test_a_shared_trunk_learns_values_of_tokens_with_the_policy():
    """One step of the trunk on the policy's loss and `critic.coef` times the mean of half squares over all tokens."""
    team, settings, study = made_study(
        "iac", turn_weights="rows",
        critic={"model": "shared", "coef": 0.3, "level": "token", "lr": 1e-2},
    )  # fmt: skip
    judged = study.estimate_advantages(played(team, settings))
    table, model, critic = judged.batch, team["a"].model, study.estimator.critics["p0"]
    rows = table.rows_of(["a"])
    mask = judged.tokens.mask[rows]
    loss, errors = torch.zeros((), dtype=torch.float64), []
    for row in rows:
        said = table.completions[row]
        logp = row_log_probs(model, said)
        loss = loss - (table.token_advantage[row, : len(logp)] * logp).sum() / len(rows)
        hidden = model.base_model(input_ids=torch.tensor([[*said.prompt_ids, *said.token_ids[:-1]]])).last_hidden_state
        value = critic.head(hidden[0, len(said.prompt_ids) - 1 :])[:, 0]
        errors.append(value - table.token_returns[row, : len(value)])
    loss = loss + 0.3 * torch.cat(errors).square().mean() / 2
    expected = gradients(model, loss)
    spy = spied(study.learners[0])
    shown = study.update(judged, 1)
    assert_gradients_close(spy.steps[0], expected)
    assert shown["critic/p0/loss"] == pytest.approx(float(torch.cat(errors).detach().square().mean()) / 2, rel=1e-5)
    assert int(mask.sum()) == sum(len(table.completions[row].token_ids) for row in rows)


def test_a_study_of_cory_and_one_of_ippo_read_the_same_critic_at_other_places():
    """The same rollouts and critics: where cory has a value per token, its first is the one that ippo has."""
    found = {}
    for name in ("cory", "ippo"):
        team, settings, study = made_study(name, kl={"coef": 0.1, "place": "reward"})
        judged = study.estimate_advantages(played(team, settings))
        found[name] = judged
    cory, ippo = found["cory"], found["ippo"]
    assert_values_close(cory.value, ippo.value)
    assert ippo.tokens is None
    assert ippo.batch.token_advantage is None
    assert len({*cory.batch.token_advantage[0, : int(cory.tokens.length[0])].tolist()}) > 1
    assert not torch.allclose(cory.batch.advantage, ippo.batch.advantage, atol=1e-3)
