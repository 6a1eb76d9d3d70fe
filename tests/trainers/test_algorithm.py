"""Rows, what comes with their names, and the choices of a config in place of a row's own."""

from __future__ import annotations

import pytest
import torch
import yaml

from palaver.core import ConfigError
from palaver.trainers.algorithms.base import ALGORITHMS, algorithm, chosen
from palaver.trainers.config.defaults import DEFAULTS
from palaver.trainers.config.loading import load, parse
from palaver.trainers.config.run import AlgorithmConfig, RunConfig
from palaver.trainers.config.team import refuse_team
from palaver.trainers.objectives.losses import LossInputs
from palaver.trainers.rollout.batch import add_advantages, make_batch
from palaver.utils.config import dump
from tests.trainers.learning import episode


def test_auto_is_the_row():
    for name in ALGORITHMS:
        assert chosen(AlgorithmConfig(name=name)) == algorithm(name)
    with pytest.raises(ConfigError, match="marloo"):
        chosen(AlgorithmConfig(name="marlo"))


# a is paid 1 and 5, b 3 and 1 in two joint actions: the team 2 and 3
ANSWERABLE = {
    "auto": [[2.0, 2.0], [3.0, 3.0]], "team": [[2.0, 2.0], [3.0, 3.0]],
    "own": [[1.0, 3.0], [5.0, 1.0]], "both": [[3.0, 5.0], [8.0, 4.0]],
}  # fmt: skip


@pytest.mark.parametrize("credit", ANSWERABLE)
def test_whose_reward_an_agent_answers_for(credit):
    config = AlgorithmConfig(credit=credit)
    table = make_batch([episode("0", 0, [(1.0, 3.0)]), episode("0", 1, [(5.0, 1.0)])])
    filled = add_advantages(table, chosen(config), config)
    keys = zip(table.episode.tolist(), table.agent.tolist(), strict=True)
    got = dict(zip(keys, zip(filled.returns.tolist(), filled.advantage.tolist(), strict=True), strict=True))
    for lane in (0, 1):
        for agent in (0, 1):
            own, other = ANSWERABLE[credit][lane][agent], ANSWERABLE[credit][1 - lane][agent]
            assert got[lane, agent] == (own, own - (own + other) / 2)


# ratios 2 and 1/2 of tokens with advantage 1, bounds 0.8 and 1.2: what they pay, and d / d log pi
PAYS = {
    "reinforce": ([-0.6931, 0.6931], [-1.0, -1.0]),
    "clip": ([-1.2, -0.5], [0.0, -0.5]),
    "cispo": ([-0.8318, 0.3466], [-1.2, -0.5]),  # -1.2 log 2 and -0.5 log 1/2
}


@pytest.mark.parametrize("surrogate", PAYS)
@pytest.mark.parametrize("name", ["magrpo", "mappo", "rae"])
def test_what_a_token_pays(surrogate, name):
    logp = torch.tensor([[2.0, 0.5]], dtype=torch.float64).log().requires_grad_()
    said = LossInputs(torch.ones_like(logp), torch.zeros_like(logp), torch.ones_like(logp, dtype=torch.bool))
    loss = chosen(AlgorithmConfig(name=name, surrogate=surrogate)).loss(logp, said)
    (slope,) = torch.autograd.grad(loss.sum(), logp)
    assert loss[0].tolist() == pytest.approx(PAYS[surrogate][0], abs=1e-4)
    assert slope[0].tolist() == pytest.approx(PAYS[surrogate][1])


def test_what_comes_with_a_name_and_what_stands_before_it():
    at = parse({"algorithm": {"name": "atgrpo"}}).algorithm
    assert (at.turns, at.discount, at.normalize, at.std, at.group_by) == ("by_agent", 0.0, "std", "unbiased", "prompt")
    assert parse({"algorithm": {"name": "atgrpo-team"}}).algorithm == at.model_copy(
        update={"name": "atgrpo-team", "turns": "best"}
    )
    assert parse({"algorithm": {"name": "c3"}}).algorithm.turns == "counterfactual"
    dr = load("arxiv-magrpo", ["algorithm.name=drmas"]).algorithm
    assert (dr.turns, dr.group_by, dr.discount, dr.normalize, dr.std) == (
        "independent",
        "agent",
        1.0,
        "std",
        "unbiased",
    )
    mine = parse({"algorithm": {"name": "atgrpo", "turns": "tree", "discount": 0.5}}).algorithm
    assert (mine.turns, mine.discount, mine.normalize) == ("tree", 0.5, "std")
    assert parse({"algorithm": {"name": "magrpo"}}).algorithm.turns == "tree"


def test_no_package_changes_an_algorithm_that_ships_with_palaver():
    assert DEFAULTS.keys() == ALGORITHMS.keys()


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_setting_of_a_name_is_a_key_that_it_sets(name):
    config = parse({"algorithm": {"name": name}})
    assert algorithm(name).defaults == DEFAULTS[name]
    for key, value in DEFAULTS[name].items():
        section, field = key.split(".")
        assert getattr(getattr(config, section), field) == value


def test_a_name_sets_keys_in_several_sections_below_a_recipe_and_an_override():
    config = parse({"algorithm": {"name": "mappo"}, "critic": {"huber": None}})
    assert (config.algorithm.epochs, config.critic.epochs, config.critic.clip) == (5, 5, 0.2)
    assert (config.critic.huber, config.critic.normalize, config.critic.beta) == (None, True, 0.99999)
    assert config.algorithm.normalize == "whiten"
    cory = load("arxiv-magrpo", ["algorithm.name=cory", "critic.epochs=1"])
    assert (cory.team.swap_every, cory.kl.place, cory.kl.coef) == (5, "reward", 0.08)
    assert (cory.algorithm.epochs, cory.critic.epochs) == (4, 1)
    assert cory.algorithm.normalize == "std", "the recipe's"
    assert parse({"algorithm": {"name": "madpo"}}).kl.coef == 0.1
    assert parse({"algorithm": {"name": "iac"}}).algorithm.gae_lambda == 0.0
    assert RunConfig(algorithm=AlgorithmConfig(name="cory")).team.swap_every == 5
    assert RunConfig().team.swap_every == 0


# name -> what divides the advantage, weights of tokens, ratio, its bounds, updates of a rollout, rounds of replacement
PUBLISHED = {
    "grpo": ("std", "mean", "token", (0.2, 0.2), 1, 0),
    "dr-grpo": ("none", "fixed", "token", (0.2, 0.2), 1, 0),
    "dapo": ("std", "token", "token", (0.2, 0.28), 16, 9),
    "gspo": ("std", "mean", "turn", (0.0003, 0.0004), 4, 0),
    "cispo": ("std", "token", "token", (0.2, 4.0), 16, 9),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_the_rows_after_grpo_publish(name):
    config = parse({"algorithm": {"name": name}})
    a = config.algorithm
    found = (a.normalize, a.aggregate, a.ratio, a.clip, a.epochs * a.minibatches, a.resample)
    assert found == PUBLISHED[name]
    assert (config.kl.coef, a.overlong, a.dual_clip) == (0.0, 0, None), "weights and lengths are a recipe's"


def test_a_run_keeps_what_its_name_set():
    config = parse({"algorithm": {"name": "cory", "epochs": 1}, "team": {"swap_every": 0}})
    assert parse(yaml.safe_load(dump(config))) == config


@pytest.mark.parametrize(("team", "agents"), [({"kind": "shared"}, ["a", "b"]), ({}, ["a"])])
def test_a_team_that_cannot_swap_is_told_how_to_switch_it_off(team, agents):
    config = parse({"algorithm": {"name": "cory"}, "team": team})
    with pytest.raises(ConfigError, match=r"set team\.swap_every=0"):
        refuse_team(config.team, agents)
    refuse_team(parse({"algorithm": {"name": "cory"}, "team": {**team, "swap_every": 0}}).team, agents)


@pytest.mark.parametrize("name", [["atgrpo"], {"a": 1}, None, 3])
def test_a_name_that_is_none_is_refused_as_ever(name):
    with pytest.raises(ConfigError, match=r"algorithm\.name"):
        parse({"algorithm": {"name": name}})


def test_at_grpo_on_two_turns_by_hand():
    """In two joint actions a turn a is paid 4 and 0, then 1 and 3, b 0 and 2, then 1 and 1; the team 2 and 1, 1 and 2.

    What a answers for: 2 + 4 = 6 and 1 + 0 = 1, then 1 + 1 = 2 and 2 + 3 = 5; half their distance over the unbiased
    deviation, distance / sqrt 2, is 0.7071 each time. b: 2 and 3, then 2 and 3. Nothing of turn two reaches turn one.
    """
    config = AlgorithmConfig(name="atgrpo", group_size=2)
    first, other = episode("0", 0, [(4.0, 0.0), (1.0, 1.0)]), episode("0", 1, [(0.0, 2.0), (3.0, 1.0)])
    table = make_batch([first, other])
    filled = add_advantages(table, chosen(config), config)
    keys = zip(table.agent.tolist(), table.turn.tolist(), table.episode.tolist(), strict=True)
    got = dict(zip(keys, zip(filled.returns.tolist(), filled.advantage.tolist(), strict=True), strict=True))
    expected = {
        (0, 0, 0): (6.0, 1), (0, 0, 1): (1.0, -1), (0, 1, 0): (2.0, -1), (0, 1, 1): (5.0, 1),
        (1, 0, 0): (2.0, -1), (1, 0, 1): (3.0, 1), (1, 1, 0): (2.0, -1), (1, 1, 1): (3.0, 1),
    }  # fmt: skip
    for key, (returned, sign) in expected.items():
        assert got[key][0] == returned
        assert got[key][1] == pytest.approx(sign * 0.5**0.5)
