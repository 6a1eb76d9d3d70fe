"""One agent with the mean of its group as baseline is GRPO: the same loss and gradient as TRL's own loss function."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from palaver.core import Sampling
from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import group_mean_baseline
from palaver.trainers.objectives.advantages import shared_reward as credit_team
from palaver.trainers.objectives.losses import cispo, ppo_clip
from palaver.trainers.rollout.batch import Batch, add_advantages, make_batch
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.trainers.update.update_records import UpdateInput
from tests.closeness import assert_gradients_close
from tests.trainers.learning import (
    Spy,
    anchor,
    config,
    gradients,
    learners,
    policy,
    row_log_probs,
    shaken,
    spied,
    stale,
)
from tests.trainers.toys import Lengths

grpo_trainer = pytest.importorskip("trl.trainer.grpo_trainer")
LONGEST, COEF, LOW, HIGH = 12, 0.05, 0.2, 0.28

# TRL's name -> our loss, aggregation and ratio, and TRL's level of importance sampling
SAME = {
    "grpo": (ppo_clip, "mean", "token", "token"),
    "bnpo": (ppo_clip, "token", "token", "token"),
    "dr_grpo": (ppo_clip, "fixed", "token", "token"),
    "dapo": (ppo_clip, "token", "token", "token"),
    "cispo": (cispo, "token", "token", "token"),
    "gspo": (ppo_clip, "mean", "turn", "sequence"),
}


class Alone(Lengths):
    """One agent of the toy."""

    def __init__(self) -> None:
        super().__init__(turns=1)
        self.possible_agents = self.agents = ["a"]


def trl_loss(
    loss_type: str, level: str, beta: float, logp, old, reference, mask, advantage, weight=None
) -> torch.Tensor:
    """`GRPOTrainer._compute_loss` on given log-probs (R, T), with the attributes that it reads and no more.

    `weight` (R, T) or (R, 1) is TRL's own for samples of another engine, see `trl_weight`.
    """
    accelerator = SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, **_: x, sync_gradients=True)
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (logp, torch.zeros_like(logp).detach(), None),
        aux_loss_enabled=False, top_entropy_quantile=1.0, off_policy_mask_threshold=None,
        importance_sampling_level=level, beta=beta, loss_type="grpo" if loss_type == "gspo" else loss_type,
        args=SimpleNamespace(use_bias_correction_kl=False, delta=None, steps_per_generation=1),
        # TRL's CISPO caps the ratio at epsilon_high, ours at 1 + high
        epsilon_low=LOW, epsilon_high=1 + HIGH if loss_type == "cispo" else HIGH,
        use_vllm=weight is not None, vllm_importance_sampling_correction=weight is not None,
        model=SimpleNamespace(training=True),
        current_gradient_accumulation_steps=1, max_completion_length=LONGEST, accelerator=accelerator,
        _entropy_bonus_enabled=False, use_adaptive_entropy=False,
        _metrics={"train": defaultdict(list), "eval": defaultdict(list)},
    )  # fmt: skip
    ids = torch.zeros(mask.shape, dtype=torch.long)
    inputs = {
        "prompt_ids": ids, "prompt_mask": ids, "completion_ids": ids, "completion_mask": mask.long(),
        "advantages": advantage, "old_per_token_logps": old, "ref_per_token_logps": reference,
        "num_items_in_batch": mask.sum(), "importance_sampling_ratio": weight,
    }  # fmt: skip
    return grpo_trainer.GRPOTrainer._compute_loss(trainer, None, inputs)


def trl_weight(mode: str, low: float | None, high: float, old, sampled, mask) -> torch.Tensor:
    """Importance weight of `GRPOTrainer._generate_and_score_completions`, of log-probs (R, T) of learner and sampler.

    All that the method does besides has no effect on it: generation is what is given, all rewards are 0.
    """
    lengths = mask.sum(dim=1).tolist()
    texts = [[0] * n for n in lengths]
    generated = [[0]] * len(texts), texts, None, texts, [r[:n].tolist() for r, n in zip(sampled, lengths, strict=True)]
    accelerator = SimpleNamespace(device=torch.device("cpu"), gather=lambda x: x, process_index=0)
    trainer = SimpleNamespace(
        accelerator=accelerator, environment_factories=None, environments=None, tools=None, _is_vlm=False,
        _generate=lambda _: (*generated, {}, None, None), _tokenizer=SimpleNamespace(pad_token_id=0),
        pad_to_multiple_of=None, mask_truncated_completions=False, num_iterations=1, num_generations=1, beta=0.0,
        args=SimpleNamespace(
            per_device_train_batch_size=1, steps_per_generation=1, gradient_accumulation_steps=1,
            gradient_checkpointing_kwargs=None,
        ),
        model=SimpleNamespace(training=True, is_gradient_checkpointing=False),
        use_vllm=True, vllm_importance_sampling_correction=True, vllm_importance_sampling_mode=mode,
        vllm_importance_sampling_clip_min=low, vllm_importance_sampling_clip_max=high,
        _get_per_token_logps_and_entropies=lambda *_, **__: (old, None, None),
        _calculate_rewards=lambda *_: torch.zeros(len(texts), 1), reward_weights=torch.ones(1), reward_funcs=[None],
        reward_func_names=["none"], multi_objective_aggregation="sum_then_normalize", scale_rewards="none",
        _metrics={"train": defaultdict(list)}, _logs=defaultdict(list, rewards=defaultdict(list)),
        _pending_extra_logs={}, _pending_metrics={}, log_multimodal=False,
    )  # fmt: skip
    scored = grpo_trainer.GRPOTrainer._generate_and_score_completions(trainer, [{"prompt": "x"}] * len(texts))
    return scored["importance_sampling_ratio"]


@pytest.fixture(scope="module")
def table() -> Batch:
    """Two groups of four answers of one agent, of an older policy, with returns that differ."""
    team = {"a": policy(0)}
    episodes = rollout(
        Alone(), team, ["t0", "t1"], SamplingPlan(4), sampling={"a": Sampling(max_tokens=LONGEST)}, seed=3
    )
    table = stale(make_batch(episodes))
    cut = [
        replace(said, token_ids=said.token_ids[: 4 + row], sample_logprobs=said.sample_logprobs[: 4 + row])
        for row, said in enumerate(table.completions)
    ]
    table = replace(table, completions=tuple(cut))
    return replace(table, reward=torch.randn(8, 1, generator=torch.Generator().manual_seed(4), dtype=torch.float64))


@pytest.mark.parametrize("coef", [0.0, COEF])
@pytest.mark.parametrize("name", list(SAME))
def test_one_agent_with_the_mean_as_baseline_is_grpo(table, name, coef):
    loss, aggregate, ratio, level = SAME[name]
    settings = config(
        algorithm={"aggregate": aggregate, "ratio": ratio, "clip": (LOW, HIGH)},
        kl={"coef": coef}, policy={"max_tokens": LONGEST}, train={"micro_tokens": 150, "steps": 10},
    )  # fmt: skip
    (learner,) = learners({"a": policy(0)}, settings)
    spy = spied(learner)
    row = Algorithm("grpo", "arXiv 2402.03300", credit_team, group_mean_baseline, loss)
    filled = add_advantages(table, row, settings.algorithm)
    rows = list(range(8))
    reference = {}
    if coef:
        shaken(anchor(learner))
        reference = learner.reference_log_probs(filled, rows)
    stats = learner.update(UpdateInput(filled, rows, loss, 1, reference=reference))

    model = learner.model
    lengths = [len(said.token_ids) for said in table.completions]
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    logp = pad_sequence([row_log_probs(model, said) for said in table.completions], batch_first=True)
    old = pad_sequence([torch.tensor(said.sample_logprobs).double() for said in table.completions], batch_first=True)
    pulled = None
    if coef:
        with torch.no_grad():
            each = [row_log_probs(anchor(learner), said) for said in table.completions]
        pulled = pad_sequence(each, batch_first=True)
    returns = table.reward[:, 0].view(2, 4)
    advantage = (returns - returns.mean(dim=1, keepdim=True)).flatten()
    expected = trl_loss(name, level, coef, logp, old, pulled, mask, advantage)

    ratios = (logp.detach() - old).exp()[mask]
    assert len(set(lengths)) == 8
    assert ratios.min() < 1 - LOW
    assert ratios.max() > 1 + HIGH
    assert stats.loss == pytest.approx(expected.item(), rel=1e-4, abs=1e-5)
    assert_gradients_close(spy.steps[0], gradients(model, expected))


class Moving(Spy):
    """Moves the weights once, between the first pass and the second."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.model = model

    def step(self, closure=None):
        super().step()
        if len(self.steps) == 1:
            shaken(self.model, 0.05)


# TRL's mode -> our settings, and its bounds
MODES = {
    "token_truncate": ({"truncate": 1.2, "correction": "token"}, None, 1.2),
    "token_mask": ({"truncate": 1.3, "mask": (0.8, 1.3), "correction": "token"}, 0.8, 1.3),
    "sequence_truncate": ({"truncate": 1.2, "correction": "sequence"}, None, 1.2),
    "sequence_mask": ({"truncate": 2.0, "mask": (0.5, 2.0), "correction": "sequence"}, 0.5, 2.0),
}


def too_much(name: str, mask: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """(R,) factor by which TRL divides too much: its denominators count masked tokens, ours those that are left."""
    left = kept.any(dim=1)
    rows = len(left) / left.sum()
    lengths, left_lengths = mask.sum(dim=1), kept.sum(dim=1).clamp(min=1)
    each = {"grpo": rows * lengths / left_lengths, "gspo": rows * lengths / left_lengths, "dr_grpo": rows}
    return torch.as_tensor(each.get(name, mask.sum() / kept.sum())).expand(len(left)).double()


@pytest.fixture
def exact():
    """The policy that `table` is of, in float64, and float64 by default, as a bound of 1e-6 on gradients needs."""
    before, who = torch.get_default_dtype(), policy(0)
    who.model.double()
    torch.set_default_dtype(torch.float64)
    yield who
    torch.set_default_dtype(before)


@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize("name", list(SAME))
def test_off_policy_corrections_are_those_of_trl(table, exact, name, mode):
    """Two passes, so that the ratio of the second is not 1; samples of a third policy."""
    loss, aggregate, ratio, level = SAME[name]
    choices, low, high = MODES[mode]
    settings = config(
        algorithm=choices
        | {"old": "learner", "aggregate": aggregate, "ratio": ratio, "clip": (LOW, HIGH), "epochs": 2},
        policy={"max_tokens": LONGEST}, train={"micro_tokens": 150, "steps": 10},
    )  # fmt: skip
    (learner,) = learners({"a": exact}, settings)
    learner.optimizer = spy = Moving(learner.model)
    filled = add_advantages(
        table, Algorithm("grpo", "arXiv 2402.03300", credit_team, group_mean_baseline, loss), settings.algorithm
    )
    lengths = torch.tensor([len(said.token_ids) for said in table.completions])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]

    def log_probs() -> torch.Tensor:
        return pad_sequence([row_log_probs(learner.model, said) for said in table.completions], batch_first=True)

    with torch.no_grad():
        old = log_probs()
    sampled = pad_sequence([torch.tensor(said.sample_logprobs) for said in table.completions], batch_first=True)
    weight = trl_weight(mode, low, high, old, sampled, mask)
    kept = mask & (weight > 0)
    stats = learner.update(UpdateInput(filled, list(range(8)), loss, 1))

    advantage = filled.advantage * too_much(name, mask, kept)
    logp = log_probs()  # at the weights of the second pass
    expected = trl_loss(name, level, 0.0, logp, old, None, mask, advantage, weight)
    assert ((logp - old).exp()[mask] > 1 + HIGH).any()
    assert torch.equal(kept, mask) == ("truncate" in mode)
    assert kept.any()
    assert (weight.expand_as(mask)[mask] == high).any() == ("truncate" in mode)
    assert stats.loss == pytest.approx(expected.item(), rel=1e-6, abs=1e-9)
    assert_gradients_close(spy.steps[1], gradients(learner.model, expected), rel=1e-6)
    assert stats.correction == pytest.approx(weight.expand_as(mask)[kept].mean().item(), rel=1e-6)
    assert (stats.masked or 0.0) == pytest.approx(1 - (kept.sum() / mask.sum()).item())
