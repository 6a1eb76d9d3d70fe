"""One agent with the mean of its group as baseline is GRPO: the same loss and gradient as TRL's own loss function."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

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
from palaver.trainers.update.policy_update import UpdateInput
from tests.closeness import assert_gradients_close
from tests.trainers.learning import (
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


def trl_loss(loss_type: str, level: str, beta: float, logp, old, reference, mask, advantage) -> torch.Tensor:
    """`GRPOTrainer._compute_loss` on given log-probs (R, T), with the attributes that it reads and no more."""
    accelerator = SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, **_: x, sync_gradients=True)
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (logp, torch.zeros_like(logp).detach(), None),
        aux_loss_enabled=False, top_entropy_quantile=1.0, off_policy_mask_threshold=None,
        importance_sampling_level=level, beta=beta, loss_type="grpo" if loss_type == "gspo" else loss_type,
        args=SimpleNamespace(use_bias_correction_kl=False, delta=None, steps_per_generation=1),
        # TRL's CISPO caps the ratio at epsilon_high, ours at 1 + high
        epsilon_low=LOW, epsilon_high=1 + HIGH if loss_type == "cispo" else HIGH,
        use_vllm=False, vllm_importance_sampling_correction=False, model=SimpleNamespace(training=True),
        current_gradient_accumulation_steps=1, max_completion_length=LONGEST, accelerator=accelerator,
        _entropy_bonus_enabled=False, use_adaptive_entropy=False,
        _metrics={"train": defaultdict(list), "eval": defaultdict(list)},
    )  # fmt: skip
    ids = torch.zeros(mask.shape, dtype=torch.long)
    inputs = {
        "prompt_ids": ids, "prompt_mask": ids, "completion_ids": ids, "completion_mask": mask.long(),
        "advantages": advantage, "old_per_token_logps": old, "ref_per_token_logps": reference,
        "num_items_in_batch": mask.sum(),
    }  # fmt: skip
    return grpo_trainer.GRPOTrainer._compute_loss(trainer, None, inputs)


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
