"""Critics: what they read, what they compute, what one update is, and that they learn."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

import palaver
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.core import Completion, Message, PolicyError
from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.config.loading import parse
from palaver.trainers.rollout.batch import make_batch
from palaver.trainers.rollout.joint_prompt import joint_ids, joint_text, refuse_long_joint
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.train import train
from palaver.trainers.update.critic import Critic, Samples
from palaver.trainers.update.updater import Updater
from tests.closeness import assert_gradients_close, assert_values_close
from tests.models import byte_tokenizer, tiny_gpt2
from tests.trainers.learning import (
    config,
    episode,
    gradients,
    learners,
    played,
    policy,
    row_log_probs,
    scattered,
    spied,
)  # fmt: skip
from tests.trainers.toys import Lengths, register_toy, save_model

IDS = [(5, 6, 7, 8), (5, 6), (9, 10, 11), (5, 6)]
WORLD = Distributed("cpu", "fp32")


def critic(body=None, **changes) -> Critic:
    """With a head that is not zero."""
    made = Critic(body or policy(0), "c", config(critic={"lr": 1e-2, **changes}), WORLD)
    torch.manual_seed(3)
    torch.nn.init.normal_(made.head.weight, std=0.3)
    torch.nn.init.constant_(made.head.bias, 0.25)
    return made


def trunk(made: Critic):
    """The decoder it reads with."""
    with made._reading() as found:
        return found


def plain(made: Critic, ids) -> torch.Tensor:
    """Values one conversation at a time, from all hidden states."""
    found = [made.head(trunk(made)(input_ids=torch.tensor([each])).last_hidden_state[0, -1]) for each in ids]
    return torch.cat(found)


def forwards(made: Critic) -> list[tuple[int, ...]]:
    """The shapes of the token ids of every pass of the trunk from now on."""
    shapes: list[tuple[int, ...]] = []
    trunk(made).register_forward_pre_hook(
        lambda _, __, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    return shapes


@pytest.mark.parametrize("micro", [1, 9, 1000])
@pytest.mark.parametrize("gpt2", [False, True])
def test_the_value_is_that_at_the_last_token_whatever_shares_the_batch(micro, gpt2):
    body = LLMPolicy(tiny_gpt2(), byte_tokenizer(), ModelOptions(device="cpu"), "p") if gpt2 else None
    made = critic(body)
    made.micro_tokens = micro
    got = made.values(IDS)
    assert got.tolist() == pytest.approx(plain(made, IDS).tolist(), abs=1e-5)
    assert got[1] == got[3]
    assert len(set(got.tolist())) == 3


def test_a_new_critic_expects_nothing():
    assert Critic(policy(0), "c", config(), WORLD).values(IDS).tolist() == [0.0] * 4


def test_equal_conversations_are_computed_once():
    made = critic()
    shapes = forwards(made)
    made.values(IDS)
    assert shapes == [(3, 4)]
    made.backward(Samples(IDS, torch.zeros(4), torch.zeros(4)))
    assert shapes == [(3, 4)] * 2


def test_neither_the_vocabulary_head_nor_more_than_one_hidden_state_a_conversation():
    body = policy(0)
    seen, asked = [], []
    body.model.lm_head.register_forward_hook(lambda *_: asked.append("lm_head"))
    made = critic(body, model="shared")
    made.head.register_forward_pre_hook(lambda _, inputs: seen.append(tuple(inputs[0].shape)))
    trunk(made).register_forward_hook(lambda _, __, out: asked.append("states") if out.hidden_states else None)
    made.values(IDS)
    made.backward(Samples(IDS, torch.zeros(4), torch.zeros(4)))
    assert seen == [(3, 32)] * 2
    assert asked == []


@pytest.mark.parametrize("settings", [{}, {"clip": 0.1}, {"huber": 0.5}])
def test_the_gradient_is_that_of_the_mean_loss(settings):
    """Half a square, its clipped neighbour if that is worse, or a Huber loss of width .5; equal ids count twice."""
    made = critic(**settings)
    target, old = torch.tensor([1.0, -2.0, 0.3, 0.9]), torch.tensor([0.4, 0.1, -0.2, 0.1])
    made.micro_tokens = 5
    loss = made.backward(Samples(IDS, target, old))
    value = plain(made, IDS)
    cost = (value - target).square() / 2
    if "clip" in settings:
        held = old + (value - old).clamp(-0.1, 0.1)
        cost = torch.maximum(cost, (held - target).square() / 2)
    if "huber" in settings:
        cost = torch.nn.functional.huber_loss(value, target, reduction="none", delta=0.5)
    assert loss == pytest.approx(cost.mean().item(), abs=1e-6)
    expected = gradients(trunk(made), cost.mean())
    assert_gradients_close({name: p.grad for name, p in trunk(made).named_parameters()}, expected)


def test_it_learns_a_constant():
    made = critic(lr=3e-3)
    losses = []
    for step in range(1, 121):
        old = made.values(IDS)
        losses.append(made.update(Samples(IDS, torch.full((4,), 0.7), old), step).loss)
    assert made.values(IDS).tolist() == pytest.approx([0.7] * 4, abs=0.02)
    assert losses[-1] < losses[0] / 100


def test_it_tells_conversations_apart_and_says_how_much_it_explains():
    made = critic(normalize=True, beta=0.9, epochs=2, minibatches=2)
    target = torch.tensor([30.0, -20.0, 5.0, -20.0], dtype=torch.float64)
    first = made.update(Samples(IDS, target, made.values(IDS)), 1)
    for step in range(2, 40):
        last = made.update(Samples(IDS, target, made.values(IDS)), step)
    assert made.values(IDS).tolist() == pytest.approx(target.tolist(), abs=2.0)
    assert first.explained < 0.5
    assert last.explained > 0.95


def test_explained_by_hand():
    """target 1, 3, value 1, 2: variance of (0, 1) over variance of (1, 3) is .5 / 2."""
    made = critic()
    stats = made.update(Samples(IDS[:2], torch.tensor([1.0, 3.0]), torch.tensor([1.0, 2.0])), 1)
    assert stats.explained == pytest.approx(0.75)


def test_epochs_times_minibatches_are_optimiser_steps():
    made = critic(epochs=3, minibatches=2)
    steps = []
    made.optimizer.register_step_post_hook(lambda *_: steps.append(1))
    made.update(Samples(IDS, torch.ones(4), torch.zeros(4)), 1)
    assert len(steps) == 6


def test_a_process_with_fewer_samples_than_minibatches_takes_as_many_steps_as_the_others(monkeypatch):
    """It has two samples for three minibatches; another process has a sample in each."""
    made = critic(minibatches=3)
    steps = []
    made.optimizer.register_step_post_hook(lambda *_: steps.append(1))
    made.update(Samples(IDS[:2], torch.ones(2), torch.zeros(2)), 1)
    assert len(steps) == 2
    made.distributed = copy.copy(WORLD)
    monkeypatch.setattr(made.distributed, "all_sum", lambda *numbers: [numbers[0] + (len(numbers) == 1), *numbers[1:]])
    made.update(Samples(IDS[:2], torch.ones(2), torch.zeros(2)), 2)
    assert len(steps) == 2 + 3


def test_normalised_values_are_answered_as_returns():
    """After targets 1, 2, 3, 4 the mean is 2.5 and the deviation sqrt(1.25); the loss is that of normalised numbers."""
    made = critic(normalize=True)
    bare = plain(made, IDS).detach()
    samples = Samples(IDS, torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.zeros(4))
    made.take_in(samples)
    assert made.values(IDS).tolist() == pytest.approx((bare * 1.25**0.5 + 2.5).tolist(), abs=1e-5)
    normal = torch.tensor([-1.3416408, -0.4472136, 0.4472136, 1.3416408])
    assert made.backward(samples) == pytest.approx(((bare - normal).square() / 2).mean().item(), abs=1e-5)


def test_a_target_that_is_not_finite_stops_before_the_step():
    made = critic()
    before = copy.deepcopy(trunk(made).state_dict())
    with pytest.raises(NumericalError, match="critic 'c'"):
        made.update(Samples(IDS, torch.tensor([1.0, torch.inf, 0.0, 0.0]), torch.zeros(4)), 1)
    assert all(torch.equal(before[name], value) for name, value in trunk(made).state_dict().items())


def test_a_saved_critic_goes_on_as_the_first():
    one = critic(normalize=True)
    samples = Samples(IDS, torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.zeros(4))
    one.update(samples, 1)
    other = Critic(policy(7), "c", config(critic={"lr": 1e-2, "normalize": True}), WORLD)
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for made in (one, other):
        made.update(samples, 2)
    assert torch.equal(one.values(IDS), other.values(IDS))


TEXT = Completion("first", (1, 2), (3,), (-0.5,), (-0.5,)), Completion("second", (1, 2), (3,), (-0.5,), (-0.5,))


def test_the_joint_conversation_is_labelled_and_ends_before_this_turns_words():
    table = make_batch(
        [episode("0", 0, [(1.0, 0.0), (0.0, 1.0)], [dict(zip("ab", TEXT, strict=True)), {"b": TEXT[0]}])]
    )
    assert joint_text(table, 0) == "[a reads]\na hears 0\n\n[b reads]\nb hears 0"
    expected = "[a says]\nfirst\n\n[b says]\nsecond\n\n[a reads]\na hears 1\n\n[b reads]\nb hears 1"
    assert joint_text(table, 1) == f"{joint_text(table, 0)}\n\n{expected}"
    body = policy(0)
    assert joint_ids(table, body)[1] == tuple(body.render((Message("user", joint_text(table, 1)),)))


def test_a_joint_conversation_that_does_not_fit_is_refused_before_the_run_and_in_it(tmp_path):
    """Both read `a: task t0` (or b); in three turns those who may act have said 5 tokens twice by the last."""
    register_toy()
    labelled = "[a reads]\na: task t0\n\n[b reads]\nb: task t0"
    opening = len(policy(0).render((Message("user", labelled),)))

    def run(name: str, context: int, folder: str) -> None:
        model = save_model(tmp_path / f"m{context}", max_position_embeddings=context)
        values = {
            "env": {"id": "lengths-v0"}, "policy": {"model": model, "max_tokens": 5}, "device": "cpu",
            "algorithm": {"name": name, "group_size": 2}, "train": {"steps": 1}, "eval": {"n": 0},
            "log": {"tensorboard": False},
        }  # fmt: skip
        train(parse(values), tmp_path / folder)

    run("mappo", opening, "fits")
    with pytest.raises(PolicyError, match=f"of task 't0' has {opening} tokens, but the context of 'a' holds"):
        run("mappo", opening - 1, "never")
    assert not (tmp_path / "never").exists()
    run("ippo", opening - 1, "own")
    body, said = policy(0), {"a": 5, "b": 5}
    body.model.config.max_position_embeddings = opening + 20
    refuse_long_joint(Lengths(), body, said, 3)
    body.model.config.max_position_embeddings -= 1
    with pytest.raises(PolicyError, match="and may grow by 20 until the last turn"):
        refuse_long_joint(Lengths(), body, said, 3)
    pioneer, said = palaver.make("pioneer-v0", env="echo-v0", keywords={"num_turns": 1}), {"pioneer": 5, "observer": 7}
    with pytest.raises(PolicyError, match="and may grow by 5 until the last turn"):
        refuse_long_joint(pioneer, body, said, 2)
    body = policy(0)
    table = make_batch([episode("0", 0, [(1.0, 0.0), (0.0, 1.0)])])
    body.model.config.max_position_embeddings = max(map(len, joint_ids(table, body))) - 1
    with pytest.raises(PolicyError, match="has grown to"):
        joint_ids(table, body)


def test_one_critic_step_for_each_joint_transition_once():
    """Two agents, three joint steps, `b` alone in the last: three samples, one optimiser step, the mean of three."""
    first = dict(zip("ab", TEXT, strict=True))
    episodes = [episode("0", 0, [(1.0, 0.0), (0.0, 3.0)], [first, {"b": TEXT[0]}]), episode("0", 1, [(2.0, 2.0)])]
    settings = config(algorithm={"name": "maac", "gae_lambda": 1.0}, critic={"lr": 1e-2})
    study = Updater(algorithm("maac"), settings, learners({"a": policy(0), "b": policy(1)}, settings), WORLD)
    made = study.estimator.critics["joint"]
    torch.nn.init.normal_(made.head.weight, std=0.3)
    judged = study.estimate_advantages(make_batch(episodes))
    samples = study.estimator.samples("joint", judged)
    # team rewards .5, 1.5, 2; undiscounted returns 2, 1.5, 2
    assert samples.target.tolist() == [2.0, 1.5, 2.0]
    ids = joint_ids(judged.batch, made.body)
    expected = gradients(trunk(made), ((plain(made, ids) - torch.tensor([2.0, 1.5, 2.0])).square() / 2).mean())
    assert samples.old.tolist() == pytest.approx(plain(made, ids).tolist(), abs=1e-5)
    steps = []
    made.optimizer.register_step_pre_hook(lambda *_: steps.append([p.grad.clone() for p in trunk(made).parameters()]))
    study.update(judged, 1)
    assert len(steps) == 1
    assert_gradients_close(steps[0], expected.values())


@pytest.mark.parametrize("minibatches", [1, 2])
def test_a_shared_trunk_gets_both_gradients(minibatches):
    """The policy's, and `critic.coef` times that of the mean half square of (V - G), one trunk step each minibatch."""
    settings = config(
        algorithm={"name": "iac", "minibatches": minibatches, "group_size": 2, "turn_weights": "rows"},
        critic={"model": "shared", "coef": 0.3},
    )
    team = {"a": policy(0), "b": policy(1)}
    study = Updater(algorithm("iac"), settings, learners(team, settings), WORLD)
    made = study.estimator.critics["p0"]
    torch.nn.init.normal_(made.head.weight, std=0.3)
    judged = study.estimate_advantages(played(team, settings))
    judged = replace(judged, batch=scattered(judged.batch, settings))
    table, model = judged.batch, team["a"].model
    rows = table.rows_of(["a"])
    value = plain(made, [table.completions[row].prompt_ids for row in rows])
    loss = 0.3 * (value - table.returns[rows]).square().sum() / 2
    for row in rows:
        loss = loss - table.advantage[row] * row_log_probs(model, table.completions[row]).sum()
    expected = gradients(model, loss / len(rows))
    spy = spied(study.learners[0])
    head = made.head.weight.detach().clone()
    made.optimizer.param_groups[0]["lr"] = 0.0 if minibatches > 1 else 1e-2
    shown = study.update(judged, 1)
    assert len(spy.steps) == minibatches
    errors = value.detach().double() - table.returns[rows]  # of weights that only the test's last step moves
    assert shown["critic/p0/loss"] == pytest.approx(float(errors.square().mean()) / 2, rel=1e-5)
    explained = 1 - float(errors.var() / table.returns[rows].var())
    assert shown["critic/p0/explained"] == pytest.approx(explained, abs=1e-4)
    assert shown["critic/p0/grad_norm"] > 0
    assert "critic/p1/loss" in shown
    assert_gradients_close({n: sum(step[n] for step in spy.steps) / minibatches for n in spy.names}, expected)
    assert torch.equal(head, made.head.weight) == (minibatches > 1), "the head has its own optimiser"


def test_one_agent_makes_mappo_ippo(monkeypatch):
    """Up to what the critic reads: where the joint critic is given the agent's own prompt, all weights are equal."""
    monkeypatch.setattr(
        "palaver.trainers.update.value_estimator.joint_ids",
        lambda table, _: [t.completions["a"].prompt_ids for t in table.steps],
    )
    ends = []
    for name in ("ippo", "mappo"):
        values = {"name": name, "group_size": 2, "epochs": 2, "minibatches": 2, "normalize": "whiten", "discount": 0.9}
        settings = config(algorithm=values, critic={"lr": 1e-2, "epochs": 2, "clip": 0.2, "huber": 10.0})
        team = {"a": policy(0)}
        (learner,) = learners(team, settings)
        study = Updater(algorithm(name), settings, [learner], WORLD)
        shown = []
        episodes = [episode("0", lane, [(float(lane),), (1.0 - 3 * lane,)]) for lane in (0, 1)]
        for step in (1, 2):
            judged = study.estimate_advantages(make_batch(episodes))
            assert judged.batch.advantage.abs().min() > 0.1
            shown.append(study.update(judged, step))
        ends.append((dict(learner.model.named_parameters()), *study.estimator.critics.values(), shown))
    (one, own, first), (other, joint, second) = ends
    assert any(not torch.equal(p, one[name]) for name, p in policy(0).model.named_parameters())
    for name, weight in one.items():
        assert_values_close(other[name], weight, rel=1e-6)
    assert own.values(IDS).tolist() == pytest.approx(joint.values(IDS).tolist(), abs=1e-6)
    assert [s["a/loss"] for s in first] == pytest.approx([s["a/loss"] for s in second], abs=1e-6)
