"""XOR: two agents that share one policy and read the same words earn 0.5 at most; with two policies they earn 1.

The values are exact: answers are one token long, so that a player's chances are a sum over the vocabulary.
"""

from __future__ import annotations

import itertools

import pytest
import torch

import palaver
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.core import Message
from palaver.envs.matrix import games, rules
from palaver.envs.matrix.solve import expected_return
from palaver.trainers.config.loading import parse
from palaver.trainers.rollout.team import load_run, model_options
from palaver.trainers.train import train
from tests.models import byte_tokenizer, tiny_qwen3

LETTERS = {"name": "letters", "agents": 2, "actions": ["l", "r"], "payoffs": [[0, 1], [1, 0]]}


def chances(policy, prompt):
    """Exact probabilities of l, of r and of naming neither, in an answer of one token."""
    ids = policy.render((Message("user", prompt),))
    with torch.no_grad():
        said = torch.softmax(policy.model(torch.tensor([ids])).logits[0, -1].double(), -1)
    found = [0.0, 0.0]
    for token, chance in enumerate(said.tolist()):
        text = policy.tokenizer.decode([token], skip_special_tokens=True)
        if (action := rules.action_index(text, LETTERS["actions"])) is not None:
            found[action] += chance
    return *found, 1.0 - sum(found)


def exact_return(team, env):
    """The mean over tasks of what the team is paid; who names no action forfeits the round, which pays 0."""
    values = []
    for task in env.tasks:
        told, _ = env.reset(options={"task": task.id})
        (l1, r1, _), (l2, r2, _) = (chances(team[agent], told[agent]) for agent in env.agents)
        values.append(l1 * r2 + r1 * l2)
    return sum(values) / len(values)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A random model that has been taught to answer any of these prompts with l or r, each about half the time."""
    folder = tmp_path_factory.mktemp("model")
    model, tokenizer = tiny_qwen3(0, initializer_range=0.1), byte_tokenizer(template=True)
    policy = LLMPolicy(model, tokenizer)
    prompts = []
    for named, n in itertools.product((True, False), range(4)):
        env = palaver.make("matrix-v1", game=LETTERS, tasks="sample[:4]", role_prompts=named)
        prompts += env.reset(options={"task": n})[0].values()
    rows = [torch.tensor(policy.render((Message("user", prompt),))) for prompt in prompts]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    last = torch.tensor([len(row) - 1 for row in rows])
    target = torch.zeros(len(rows), model.config.vocab_size)
    target[:, [tokenizer.convert_tokens_to_ids(action) for action in LETTERS["actions"]]] = 0.5
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        logits = model(ids).logits[torch.arange(len(rows)), last]
        loss = torch.nn.functional.cross_entropy(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def trained(model, folder, kind, role_prompts):
    """The exact returns before and after 40 updates of MAGRPO."""
    env = {"id": "matrix-v1", "game": LETTERS, "tasks": "sample[:4]", "role_prompts": role_prompts}
    config = parse(
        {
            "env": env,
            "policy": {"model": model, "max_tokens": 1, "force": True},
            "team": {"kind": kind},
            "algorithm": {"name": "magrpo", "group_size": 16},
            "optim": {"lr": 3e-3},
            "train": {"steps": 40, "prompts_per_step": 2},
            "eval": {"n": 0},
            "log": {"tensorboard": False, "episodes": False},
            "threads": 1,
            "device": "cpu",
        }
    )
    made = palaver.make("matrix-v1", **config.env.keywords())
    start = LLMPolicy.load(model, model_options(config, "cpu"))
    before = exact_return(dict.fromkeys(made.possible_agents, start), made)
    train(config, folder)
    team = load_run(folder, made.possible_agents, model_options(config, "cpu"))
    return before, exact_return(team, made)


def test_the_theorem():
    """J. G. Kuba et al. (2022), proposition 1, n = 2: one policy p, one prompt: 2 p (1 - p) <= 1/2; two reach 1."""
    game = games.built_in("xor")
    one = [float(expected_return(game, {"start": [[p, 1 - p]] * 2}).mean()) for p in (0.0, 0.1, 0.5, 0.8, 1.0)]
    assert one == pytest.approx([0.0, 0.18, 0.5, 0.32, 0.0])
    assert float(expected_return(game, {"start": [[1, 0], [0, 1]]}).mean()) == 1.0


def test_one_policy_with_equal_prompts_stays_at_a_half(model, tmp_path):
    before, after = trained(model, tmp_path / "run", "shared", role_prompts=False)
    assert 0.3 < before <= 0.5 + 1e-9
    assert 0.45 < after <= 0.5 + 1e-9


@pytest.mark.parametrize("role_prompts", [pytest.param(True, marks=pytest.mark.slow), False])
def test_two_policies_learn_it(model, tmp_path, role_prompts):
    before, after = trained(model, tmp_path / "run", "separate", role_prompts)
    assert before <= 0.51
    assert after >= 0.95
