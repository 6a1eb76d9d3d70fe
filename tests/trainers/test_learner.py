"""The update: which tokens train, against gradients from plain full logits; invariance to micro-batches; bf16."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.core import Message, Request, Sampling
from palaver.trainers.algorithms.magrpo import MAGRPO
from palaver.trainers.config.kl import KLConfig
from palaver.trainers.config.run import AlgorithmConfig, OptimConfig, RunConfig, TrainConfig
from palaver.trainers.objectives.losses import cispo, ppo_clip, reinforce
from palaver.trainers.rollout.batch import Batch, add_advantages, make_batch
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.errors import NumericalError
from palaver.trainers.run.memory import most_rows
from palaver.trainers.update.critic import Samples
from palaver.trainers.update.policy_update import PolicyUpdater
from palaver.trainers.update.update_records import UpdateInput, micro_batches
from tests.closeness import assert_gradients_close
from tests.models import byte_tokenizer, tiny_gpt2, tiny_qwen3
from tests.trainers.learning import config, learners, played, scattered, spied
from tests.trainers.learning import policy as tiny
from tests.trainers.toys import SEATS, Lengths

CONFIG = RunConfig(
    algorithm=AlgorithmConfig(group_size=4), optim=OptimConfig(lr=1e-2, max_grad_norm=0), train=TrainConfig(steps=10)
)


def policy(seed: int = 0, dtype: str = "fp32") -> LLMPolicy:
    options = ModelOptions(dtype=dtype, device="cpu")
    return LLMPolicy(tiny_qwen3(seed), byte_tokenizer(), options, f"p{seed}")


def sampled(team, config: RunConfig = CONFIG, max_tokens: int = 12) -> Batch:
    sampling = dict.fromkeys(SEATS, Sampling(max_tokens=max_tokens))
    plan = SamplingPlan(config.algorithm.group_size)
    episodes = rollout(Lengths(turns=2), team, ["t0", "t1"], plan, sampling=sampling, seed=3)
    table = add_advantages(make_batch(episodes), MAGRPO, config.algorithm)
    # rewards of short random texts are often equal: give every row an advantage of its own
    advantage = torch.randn(len(table), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return replace(table, advantage=advantage)


def plain_gradient(model, table: Batch, rows, weight) -> dict[str, torch.Tensor]:
    """Gradient of sum_r w_r * -A_r * sum_t log pi, one row at a time, from full logits."""
    model = copy.deepcopy(model)
    for row in rows:
        said = table.completions[row]
        ids = torch.tensor([*said.prompt_ids, *said.token_ids])
        logp = torch.log_softmax(model(ids[None]).logits[0, :-1].double(), -1)
        picked = logp[torch.arange(len(ids) - 1), ids[1:]][len(said.prompt_ids) - 1 :]
        assert len(picked) == len(said.token_ids)
        (-float(table.advantage[row]) * weight(said) * picked.sum()).backward()
    return {name: p.grad for name, p in model.named_parameters()}


class Spy(torch.optim.SGD):
    """Keeps the gradients and leaves the weights alone."""

    def step(self, closure=None):
        self.seen = [None if p.grad is None else p.grad.clone() for p in self.param_groups[0]["params"]]


def learn(learner: PolicyUpdater, table: Batch, step: int):
    """One update on the learner's rows, with the log-probs of its reference where it has one."""
    rows = table.rows_of(learner.agents)
    reference = learner.reference_log_probs(table, rows)
    return learner.update(UpdateInput(table, rows, reinforce, step, reference=reference))


def update_with_spy(learner: PolicyUpdater, table: Batch) -> dict[str, torch.Tensor]:
    learner.optimizer = Spy(learner.model.parameters(), lr=0.0)
    learn(learner, table, 1)
    return dict(zip((n for n, _ in learner.model.named_parameters()), learner.optimizer.seen, strict=True))


@pytest.mark.parametrize("aggregate", ["sum", "mean", "token", "fixed"])
def test_the_gradient_is_that_of_the_sampled_tokens_alone(aggregate):
    config = CONFIG.model_copy(update={"algorithm": AlgorithmConfig(group_size=4, aggregate=aggregate)})
    team = {"a": policy(0), "b": policy(1)}
    table = sampled(team, config)
    rows = table.rows_of(["a"])
    tokens = sum(len(table.completions[r].token_ids) for r in rows)
    weight = {
        "sum": lambda u: 1 / len(rows),
        "mean": lambda u: 1 / len(rows) / len(u.token_ids),
        "token": lambda u: 1 / tokens,
        "fixed": lambda u: 1 / len(rows) / 256,  # policy.max_tokens
    }[aggregate]
    got = update_with_spy(PolicyUpdater(team["a"], ["a"], config, Distributed("cpu", "fp32")), table)
    expected = plain_gradient(team["a"].model, table, rows, weight)
    assert {len(table.completions[r].token_ids) for r in rows} != {12}, (
        "rows of different length, some with an end token"
    )
    assert_gradients_close(got, expected)


@pytest.mark.parametrize("loss", [ppo_clip, cispo])
@pytest.mark.parametrize("ratio", ["token", "turn"])
def test_one_pass_over_fresh_samples_is_reinforce_whatever_the_loss(loss, ratio):
    """At ratio 1 nothing is clipped. A `turn` shares a row's gradient among its tokens, which sum to the same."""
    config = CONFIG.model_copy(update={"algorithm": AlgorithmConfig(group_size=4, ratio=ratio)})
    team = {"a": policy(0), "b": policy(1)}
    table = sampled(team)
    learner = PolicyUpdater(team["a"], ["a"], config, Distributed("cpu", "fp32"))
    learner.optimizer = Spy(learner.model.parameters(), lr=0.0)
    found = []
    for each in (loss, reinforce):
        learner.update(UpdateInput(table, table.rows_of(["a"]), each, 1))
        found.append(learner.optimizer.seen)
    assert_gradients_close(*found)


def test_a_factor_weighs_rows():
    team = {"a": policy(0), "b": policy(1)}
    table = sampled(team)
    rows = table.rows_of(["a"])
    factor = 0.5 + torch.rand(len(table), generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    learner = PolicyUpdater(team["a"], ["a"], CONFIG, Distributed("cpu", "fp32"))
    learner.optimizer = Spy(learner.model.parameters(), lr=0.0)
    learner.update(UpdateInput(table, rows, ppo_clip, 1, factor=factor))
    weighed = replace(table, advantage=table.advantage * factor)
    expected = plain_gradient(team["a"].model, weighed, rows, lambda u: 1 / len(rows))
    assert_gradients_close(learner.optimizer.seen, expected.values())


def test_passes_times_minibatches_are_steps_and_each_pass_holds_every_row_once():
    algorithm = AlgorithmConfig(group_size=4, epochs=3, minibatches=4)
    team = {"a": policy(0), "b": policy(1)}
    table = sampled(team)
    rows = table.rows_of(["a"])
    learner = PolicyUpdater(
        team["a"], ["a"], CONFIG.model_copy(update={"algorithm": algorithm}), Distributed("cpu", "fp32")
    )
    target = torch.tensor(rows, dtype=torch.float64)  # so that the critic's targets name the rows
    trunk, seen = Samples([table.completions[row].prompt_ids for row in rows], target, target), []
    learner.critic = SimpleNamespace(
        take_in=lambda samples: None, learn=lambda samples: seen.append(samples.target.int().tolist())
    )
    stats = learner.update(UpdateInput(table, rows, ppo_clip, 1, trunk=trunk))
    assert stats.passes == 3
    assert len(seen) == 12
    assert team["a"].version == 1, "an update, of however many steps"
    passes = [list(itertools.chain(*seen[n : n + 4])) for n in (0, 4, 8)]
    assert all(sorted(each) == rows for each in passes)
    assert passes[0] != passes[1], "each pass has an order of its own"
    assert stats.moved > 0


@pytest.mark.parametrize(("most", "passes"), [(None, 5), (1e-9, 2), (1e9, 5)])
def test_the_passes_end_where_the_policy_has_moved_too_far(most, passes):
    algorithm = AlgorithmConfig(group_size=4, epochs=5, target_kl=most)
    team = {"a": policy(0), "b": policy(1)}
    table = sampled(team)
    learner = PolicyUpdater(
        team["a"], ["a"], CONFIG.model_copy(update={"algorithm": algorithm}), Distributed("cpu", "fp32")
    )
    assert learner.update(UpdateInput(table, table.rows_of(["a"]), ppo_clip, 1)).passes == passes


def test_shared_weights_count_the_rows_of_all_agents_and_step_once():
    shared = policy(0)
    table = sampled(dict.fromkeys(SEATS, shared))
    rows = table.rows_of(SEATS)
    got = update_with_spy(PolicyUpdater(shared, SEATS, CONFIG, Distributed("cpu", "fp32")), table)
    expected = plain_gradient(shared.model, table, rows, lambda u: 1 / len(rows))
    assert_gradients_close(got, expected)
    assert shared.version == 1


def test_micro_batches_change_nothing():
    gradients = []
    for micro in (1, 60, 100000):
        team = {"a": policy(0), "b": policy(1)}
        config = CONFIG.model_copy(update={"train": TrainConfig(steps=10, micro_tokens=micro)})
        gradients.append(
            update_with_spy(PolicyUpdater(team["a"], ["a"], config, Distributed("cpu", "fp32")), sampled(team))
        )
    for other in gradients[1:]:
        assert_gradients_close(other, gradients[0])


def test_micro_batches_hold_every_row_once_and_keep_prompts_together():
    table = sampled({"a": policy(0), "b": policy(1)})
    rows = list(range(len(table)))
    batches = list(micro_batches(table, rows, 120))
    assert sorted(r for b in batches for r in b) == rows
    length = [len(u.prompt_ids) + len(u.token_ids) for u in table.completions]
    assert all(len(b) == 1 or max(length[r] for r in b) * len(b) <= 120 for b in batches)
    assert len(batches) > 1
    whole = next(micro_batches(table, rows, 10**6))
    prompts = [table.completions[r].prompt_ids for r in whole]
    assert len(prompts) == len(rows)
    assert sum(a != b for a, b in itertools.pairwise(prompts)) == len(set(prompts)) - 1


def test_log_probs_of_the_table_are_those_of_sampling():
    team = {"a": policy(0), "b": policy(1)}
    stats = learn(PolicyUpdater(team["a"], ["a"], CONFIG, Distributed("cpu", "fp32")), sampled(team), 1)
    assert 0 < stats.drift < 1e-5


def test_stale_rows_show_as_drift():
    team = {"a": policy(0), "b": policy(1)}
    learner, table = PolicyUpdater(team["a"], ["a"], CONFIG, Distributed("cpu", "fp32")), sampled(team)
    learn(learner, table, 1)
    assert learn(learner, table, 2).drift > 1e-3


def test_rows_that_pay_nothing_are_skipped_but_counted():
    team = {"a": policy(0), "b": policy(1)}
    table = sampled(team)
    rows = table.rows_of(["a"])
    silent = table.advantage.clone()
    silent[rows[1:]] = 0.0
    table = replace(table, advantage=silent)
    learner = PolicyUpdater(team["a"], ["a"], CONFIG, Distributed("cpu", "fp32"))
    got = update_with_spy(learner, table)
    expected = plain_gradient(team["a"].model, table, rows[:1], lambda u: 1 / len(rows))
    assert_gradients_close(got, expected)
    stats = learn(learner, replace(table, advantage=torch.zeros_like(silent)), 2)
    assert stats.rows == 0
    assert team["a"].version == 1, "nothing to learn, no step"


def test_the_reference_pulls_towards_the_start_and_is_zero_there():
    config = CONFIG.model_copy(update={"kl": KLConfig(coef=10.0), "optim": OptimConfig(lr=1e-2)})
    team = {"a": policy(0), "b": policy(1)}
    learner = PolicyUpdater(team["a"], ["a"], config, Distributed("cpu", "fp32"))
    table = sampled(team)
    first = learn(learner, table, 1)
    assert abs(first.kl) < 1e-6
    still = replace(table, advantage=torch.zeros_like(table.advantage))
    drifted = learn(learner, still, 2)
    later = [learn(learner, still, step) for step in range(3, 9)][-1]
    assert drifted.kl > 1e-4
    assert later.kl < drifted.kl


def test_not_finite_stops_before_the_step_and_names_the_rows():
    team = {"a": policy(0), "b": policy(1)}
    table = sampled(team)
    rows = table.rows_of(["a"])
    broken = table.advantage.clone()
    broken[rows[2]] = torch.inf
    before = copy.deepcopy(team["a"].model.state_dict())
    with pytest.raises(NumericalError) as caught:
        learn(PolicyUpdater(team["a"], ["a"], CONFIG, Distributed("cpu", "fp32")), replace(table, advantage=broken), 1)
    assert rows[2] in caught.value.rows
    assert all(torch.equal(before[k], v) for k, v in team["a"].model.state_dict().items())


def test_bf16_keeps_fp32_master_weights_that_small_steps_move():
    """Pure bf16 weights lose most steps of 5e-6 (reference/comlrl.md, section 5, item 28)."""
    config = CONFIG.model_copy(update={"optim": OptimConfig(lr=5e-6)})
    team = {"a": policy(0, "bf16"), "b": policy(1, "bf16")}
    world = Distributed("cpu", "bf16")
    learner = PolicyUpdater(team["a"], ["a"], config, world)
    before = {n: p.detach().clone() for n, p in team["a"].model.named_parameters()}
    learn(learner, sampled(team), 1)
    moved = total = 0
    for name, p in team["a"].model.named_parameters():
        assert p.dtype == torch.float32
        moved += int((p != before[name]).sum())
        total += p.numel()
    assert moved / total > 0.9
    request = Request("a", (Message("user", "hi"),), (1,), Sampling(max_tokens=4))
    assert team["a"].act([request])[0][0].version == 1
    Distributed("cpu", "fp32")


def test_clipping_bounds_the_step():
    config = CONFIG.model_copy(update={"optim": OptimConfig(lr=1e-2, max_grad_norm=1e-3)})
    team = {"a": policy(0), "b": policy(1)}
    learner = PolicyUpdater(team["a"], ["a"], config, Distributed("cpu", "fp32"))
    got = update_with_spy(learner, sampled(team))
    norm = torch.sqrt(sum((g**2).sum() for g in got.values()))
    assert norm.item() == pytest.approx(1e-3, rel=1e-3)


def test_gradient_checkpointing_changes_no_gradient():
    """Recomputing needs training mode in transformers; a model with dropout must not notice."""
    model = tiny_gpt2(resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5)
    who = LLMPolicy(model, byte_tokenizer(), ModelOptions(device="cpu"), "p")
    table = sampled(dict.fromkeys(SEATS, who))
    found = []
    for switched in (False, True):
        config = CONFIG.model_copy(update={"train": TrainConfig(steps=10, gradient_checkpointing=switched)})
        own = LLMPolicy(copy.deepcopy(model), byte_tokenizer(), ModelOptions(device="cpu"), "p")
        learner = PolicyUpdater(own, SEATS, config, Distributed("cpu", "fp32"))
        found.append(update_with_spy(learner, table))
        on = [name for name, module in own.model.named_modules() if module.training]
        assert bool(on) == switched, "whatever was tried on the model in between"
    assert_gradients_close(found[1], found[0])


def test_a_fault_on_another_process_stops_this_one_before_its_step(monkeypatch):
    """The others would wait for its gradients forever."""
    who = policy()
    world = Distributed("cpu", "fp32")
    learner = PolicyUpdater(who, SEATS, CONFIG, world)
    table = sampled(dict.fromkeys(SEATS, who))
    before = [p.clone() for p in learner.model.parameters()]
    totals = iter([0.0, 0.0, 0.0, 0.0, 1.0])  # rows that pay, all rows, their weights, rows of the part, faults
    monkeypatch.setattr(world, "all_sum", lambda *n: [n[0] + next(totals), *n[1:]])
    with pytest.raises(NumericalError, match="another process") as caught:
        learn(learner, table, 1)
    assert caught.value.rows == []
    assert all(torch.equal(a, b) for a, b in zip(before, learner.model.parameters(), strict=True))


def test_most_rows_of_a_step():
    """2 agents, G = 3, B = 5, 3 turns: aligned tree 3 + 9 + 27 completions; crossed 3 + 27 + 243; lanes 3 + 3 + 3."""

    def rows(sharing: int, length: int, **choices: str) -> int:
        algorithm = AlgorithmConfig(group_size=3, **choices)
        return most_rows(RunConfig(algorithm=algorithm, train=TrainConfig(prompts_per_step=5)), sharing, 2, length)

    assert rows(1, 1) == 15
    assert rows(2, 1, joint="cross") == 30
    assert rows(1, 3) == 5 * 39
    assert rows(1, 3, joint="cross") == 5 * 273
    assert rows(1, 3, turns="independent") == 5 * (3 + 3 + 3)


@pytest.mark.parametrize("aggregate", ["sum", "mean", "token", "fixed"])
def test_minibatches_of_weighed_rows_have_the_whole_gradient_as_their_mean(aggregate):
    """Rows of a tree weigh differently; a part of the rows represents all, also where parts are not equal."""
    found = []
    for minibatches in (1, 3):
        settings = config(algorithm={"minibatches": minibatches, "aggregate": aggregate, "truncate": 2.0})
        who = tiny(0)
        (learner,) = learners({"a": who}, settings)
        table = scattered(played({"a": who, "b": who}, settings), settings)
        spy = spied(learner)
        rows = table.rows_of(["a"])
        learner.update(UpdateInput(table, rows, reinforce, 1, weight=table.weight / table.tasks))
        sizes = [len(part) for part in torch.arange(len(rows)).tensor_split(minibatches)]
        found.append(
            {n: sum(s / len(rows) * step[n] for s, step in zip(sizes, spy.steps, strict=True)) for n in spy.names}
        )
        assert len(set(table.weight[rows].tolist())) == 2
    assert_gradients_close(found[1], found[0])
