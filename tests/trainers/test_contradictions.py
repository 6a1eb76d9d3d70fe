"""Settings that contradict each other are refused before any model is loaded; those without meaning are left alone."""

from __future__ import annotations

import numpy as np
import pytest

from palaver.core import ConfigError
from palaver.envs.matrix.env import constant_sum
from palaver.envs.pokemon.env import PokemonEnv
from palaver.trainers.config.loading import load
from palaver.trainers.train import prepare
from tests.trainers.toys import register_toy

# two agents; one turn of lengths-v0 in the spec, G = 4, so 4 completions of a policy and task
REFUSED = [
    (["algorithm.name=magrpo", "algorithm.group_size=1"], "group_size must be 2 or more"),
    (["policy.temperature=0"], "set it above 0"),
    (["policy.top_p=0.9"], "policy.top_p=0.9 samples from a part of the vocabulary"),
    (["policy.top_k=40"], "policy.top_k=40 samples from a part of the vocabulary"),
    (["team.kind=heterogeneous", "team.agents.b.top_k=40"], "team.agents.b.top_k=40 samples from a part"),
    (
        ["policy.top_p=0.9", "policy.score_truncated=true", "algorithm.name=ippo", "algorithm.epochs=2"],
        "ippo scores texts with later ones too",
    ),
    (["policy.top_k=40", "policy.score_truncated=true", "algorithm.name=happo"], "happo scores texts with later ones"),
    (
        ["policy.top_k=40", "policy.score_truncated=true", "algorithm.name=madpo", "kl.coef=0.1"],
        "madpo scores texts with later ones",
    ),
    (["algorithm.name=maac", "critic.model=shared"], "critic.model=separate"),
    (["algorithm.name=mappo", "critic.model=shared"], "critic of mappo"),
    (["algorithm.name=happo", "critic.model=shared"], "critic of happo"),
    (["algorithm.name=rae", "algorithm.normalize=whiten"], "the baseline of rae"),
    (["kl.coef=0.1", "kl.estimator=k1"], "teaches nothing"),
    (["kl.coef=0.1", "kl.reference=base"], "set kl.reference=start"),
    (["kl.coef=0.1", "kl.reference=adapter:somewhere", "team.kind=shared"], "team.kind=shared has none"),
    (["kl.target=3"], "kl.coef=0 is none"),
    (["kl.schedule=linear"], "set kl.coef above 0"),
    (["kl.schedule=linear", "kl.coef=0.1", "kl.target=3", "kl.horizon=4"], "leave kl.target null"),
    (["kl.coef=0.1", "kl.target=3", "kl.horizon=3"], "less than the 4 completions"),
    (["kl.coef=0.1", "kl.target=3", "kl.horizon=7", "team.kind=shared"], "less than the 8 completions"),
    (["algorithm.minibatches=5"], "more than the 4 completions"),
    (["algorithm.minibatches=9", "team.kind=shared"], "more than the 8 completions"),
    (["env.id=echo-v0", "algorithm.turns=best"], "algorithm.discount=0"),
    (["env.id=echo-v0", "algorithm.turns=by_agent"], "algorithm.turns=by_agent continues one sibling"),
    (["algorithm.turns=by_agent", "algorithm.joint=cross"], "algorithm.joint=aligned"),
    (["algorithm.name=c3", "algorithm.joint=cross"], "algorithm.joint=aligned"),
    (["algorithm.name=c3", "algorithm.stop_above=1"], "set it to null"),
    (["algorithm.name=ippo", "algorithm.turns=counterfactual"], "ippo compares no such candidates"),
    (["algorithm.name=madpo", "algorithm.turns=by_agent"], "madpo compares no such candidates"),
    (["algorithm.name=mareinforce", "algorithm.turns=counterfactual"], "compares no such candidates"),
    (["algorithm.name=qmix", "algorithm.mixer.actions=sentences", "algorithm.turns=by_agent"], "no such candidates"),
    (["env.id=echo-v0", "algorithm.name=c3", "kl.coef=0.1", "kl.place=reward"], "set kl.place to loss or advantage"),
    (["algorithm.name=happo", "algorithm.joint=cross"], "algorithm.joint=aligned"),
    (["algorithm.name=happo", "team.kind=shared"], "set team.kind=separate"),
    (["algorithm.name=ippo", "algorithm.ratio=sequence"], "algorithm.aggregate=mean"),
    (["algorithm.name=ippo", "algorithm.ratio=sequence", "algorithm.aggregate=token"], "algorithm.aggregate=mean"),
    (["algorithm.ratio=sequence", "algorithm.surrogate=clip"], "algorithm.aggregate=mean"),
    (["algorithm.epochs=2"], "algorithm.truncate=2"),
    (["algorithm.minibatches=4"], "magrpo takes all samples for fresh"),
    (["algorithm.name=iac", "algorithm.epochs=2"], "iac takes all samples for fresh"),
    (
        ["algorithm.name=ippo", "algorithm.epochs=2", "algorithm.surrogate=reinforce"],
        "ippo takes all samples for fresh",
    ),
    (
        ["algorithm.old=learner", "algorithm.truncate=2", "algorithm.epochs=2"],
        "magrpo has no ratio for the steps that follow: set algorithm.old=sampler",
    ),
    (["algorithm.old=learner", "algorithm.truncate=2", "algorithm.minibatches=2"], "no ratio for the steps"),
    (["algorithm.name=madpo", "algorithm.old=learner"], "madpo compares whole texts by a loss of its own"),
    (["algorithm.name=madpo", "algorithm.mask=[0.5,5]"], "madpo compares whole texts by a loss of its own"),
    (["algorithm.mask=[2,5]"], "algorithm.mask=[2, 5] drops fresh samples"),
    (["algorithm.mask=[5,0.5]"], "algorithm.mask=[5, 0.5] drops fresh samples"),
    (["algorithm.mask=[0,1]"], "algorithm.mask=[0, 1] drops fresh samples"),
    (
        ["policy.top_p=0.9", "policy.score_truncated=true", "algorithm.mask=[0.5,5]"],
        "set top_p=1 and top_k=0, or algorithm.old=sampler and algorithm.mask=null",
    ),
    (
        ["policy.top_k=40", "policy.score_truncated=true", "algorithm.old=learner"],
        "would be between distributions with other tokens",
    ),
    (["algorithm.name=maac", "algorithm.credit=own"], "algorithm.credit=team"),
    (["algorithm.name=happo", "algorithm.credit=both"], "the critic of happo estimates the return of the team"),
    *(
        ([f"algorithm.name={name}", "algorithm.normalize=whiten"], f"all that tells {name} from")
        for name in ("magrpo", "marloo", "maremax", "atgrpo", "drmas")
    ),
    (["env.id=echo-v0", "algorithm.name=atgrpo", "algorithm.discount=0.5"], "algorithm.discount=0"),
    *(
        ([f"algorithm.name={name}", "algorithm.resample=1"], f"but {name} takes no advantage from comparing samples")
        for name in ("mareinforce", "ippo", "rae", "madpo", "qmix")
    ),
    (["policy.max_tokens=20", "algorithm.overlong=21"], "is more than the 20 tokens that a text may have"),
    (
        ["team.kind=heterogeneous", "team.agents.b.max_tokens=7", "algorithm.overlong=8"],
        "is more than the 7 tokens that a text may have",
    ),
    (["algorithm.name=qmix", "algorithm.overlong=8"], "set algorithm.overlong=0"),
    (["algorithm.name=madpo", "algorithm.overlong=8"], "set algorithm.overlong=0"),
    (["algorithm.name=cory"], "in lengths-v0 all act at once: set env.id=pioneer-v0"),
    (["env.id=gsm8k-v0", "env.workflow=parallel", "algorithm.name=cory"], "all act at once"),
    (["algorithm.name=grpo"], "trains 2: set algorithm.name to magrpo or drmas"),
    (["algorithm.name=grpo", "team.kind=shared"], "trains 2: set algorithm.name to magrpo or drmas"),
    (["algorithm.name=dapo"], "algorithm.minibatches=16 is more than the 4 completions"),
    (["algorithm.name=cispo", "train.prompts_per_step=3"], "raise train.prompts_per_step or algorithm.group_size"),
    (["algorithm.name=adalign"], "lengths-v0 has 2 agents and 1 turns here"),
    (["env.id=echo-v0", "algorithm.name=adalign", "algorithm.credit=team"], "for agents with rewards of their own"),
    (["env.id=echo-v0", "algorithm.name=adalign", "algorithm.turns=counterfactual"], "were not played on"),
]
HARMLESS = [
    ["env.id=echo-v0", "env.num_turns=10", "algorithm.turns=independent", "algorithm.name=rae"],
    ["policy.top_p=0.9", "policy.top_k=40", "policy.score_truncated=true"],
    ["policy.temperature=0.6", "algorithm.name=ippo", "algorithm.epochs=2"],
    ["algorithm.name=happo", "team.kind=separate"],
    ["algorithm.name=madpo", "team.kind=shared", "kl.coef=0.1", "algorithm.aggregate=sum"],
    ["algorithm.name=ippo", "critic.model=shared"],
    ["algorithm.name=magrpo", "critic.model=shared"],
    ["algorithm.name=rae", "algorithm.normalize=std"],
    ["kl.place=reward"],
    ["kl.estimator=k1"],
    ["kl.coef=0.1", "kl.estimator=k1", "kl.place=reward"],
    ["kl.coef=0.1", "kl.estimator=k1", "kl.place=advantage"],
    ["kl.reference=model:somewhere"],
    ["kl.reference=base"],
    ["kl.horizon=1"],
    ["kl.coef=0.1", "kl.target=3", "kl.horizon=4"],
    ["kl.coef=0.1", "kl.reference=step:9"],
    ["kl.coef=0.1", "kl.reference=lag:9"],
    ["algorithm.order=fixed", "algorithm.factor=sum"],
    ["algorithm.minibatches=4", "algorithm.truncate=2"],
    ["algorithm.minibatches=4", "algorithm.truncate=2", "algorithm.mask=[0.5,5]"],
    ["algorithm.old=learner", "algorithm.truncate=2", "algorithm.correction=sequence"],
    ["algorithm.old=learner", "algorithm.epochs=2", "algorithm.surrogate=cispo"],
    ["algorithm.name=ippo", "algorithm.old=learner", "algorithm.truncate=2", "algorithm.mask=[0,3]"],
    ["algorithm.name=happo", "algorithm.old=learner", "algorithm.truncate=2"],
    ["algorithm.minibatches=8", "team.kind=shared", "algorithm.truncate=2"],
    ["algorithm.epochs=3", "algorithm.surrogate=clip"],
    ["algorithm.epochs=3", "algorithm.minibatches=2", "algorithm.surrogate=cispo"],
    ["algorithm.name=ippo", "algorithm.epochs=3"],
    ["algorithm.name=iac", "algorithm.credit=own"],
    ["algorithm.name=maac", "algorithm.credit=team"],
    ["algorithm.name=mareinforce", "algorithm.normalize=whiten"],
    ["env.id=echo-v0", "algorithm.name=atgrpo"],
    ["env.id=echo-v0", "algorithm.name=atgrpo-team"],
    ["env.id=echo-v0", "algorithm.name=c3", "kl.coef=0.1"],
    ["algorithm.name=c3", "kl.coef=0.1", "kl.place=reward"],
    ["algorithm.name=magrpo", "algorithm.turns=counterfactual", "algorithm.normalize=std"],
    ["env.id=echo-v0", "algorithm.name=drmas"],
    ["algorithm.turns=best", "algorithm.joint=cross"],
    ["env.id=echo-v0", "algorithm.turns=best", "algorithm.discount=0"],
    ["algorithm.entropy=0.1"],
    ["env.id=echo-v0", "algorithm.name=adalign"],
    ["algorithm.name=mappo", "algorithm.joint=cross"],
    ["algorithm.name=ippo", "algorithm.ratio=sequence", "algorithm.aggregate=mean"],
    ["algorithm.name=ippo", "algorithm.ratio=turn"],
    ["algorithm.ratio=sequence", "algorithm.truncate=2"],
    ["algorithm.name=grpo", "team.frozen.b=nowhere"],
    ["algorithm.name=dapo", "train.prompts_per_step=4"],
    ["algorithm.name=gspo"],
    ["env.id=chain-v0", "algorithm.name=cory"],
    ["env.id=pioneer-v0", "env.env=tldr-v0", "algorithm.name=cory"],
    ["algorithm.name=ippo", "critic.level=token", "algorithm.overlong=8"],
    ["policy.max_tokens=20", "algorithm.overlong=20"],
]


@pytest.fixture
def recipe(tmp_path):
    register_toy()
    path = tmp_path / "recipe.yaml"
    path.write_text("env: {id: lengths-v0}\npolicy: {model: nowhere}\nalgorithm: {group_size: 4}\n")
    return str(path)


@pytest.mark.parametrize(
    ("overrides", "told"), REFUSED, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_refused(recipe, overrides, told):
    with pytest.raises(ConfigError) as caught:
        prepare(load(recipe, overrides))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("overrides", HARMLESS, ids=" ".join)
def test_harmless(recipe, overrides):
    prepare(load(recipe, overrides))


def test_turns_that_a_keyword_sets_are_counted(recipe):
    """Two turns of one agent in a tree of G = 2: 2 completions, then 2 for each of the 2."""
    settings = ["env.id=echo-v0", "env.num_turns=2", "algorithm.group_size=2", "algorithm.truncate=2"]
    prepare(load(recipe, [*settings, "algorithm.minibatches=6"]))
    with pytest.raises(ConfigError, match="more than the 6 completions"):
        prepare(load(recipe, [*settings, "algorithm.minibatches=7"]))


PENNIES = (
    "env:\n  id: matrix-v1\n"
    "  game: {agents: 2, actions: [head, tail], payoffs: [[[1, -1], [-1, 1]], [[-1, 1], [1, -1]]]}\n"
    "policy: {model: nowhere}\nalgorithm: {group_size: 4}\n"
)


@pytest.mark.parametrize("name", ["magrpo", "marloo", "iac", "mappo", "qmix", "madpo"])
def test_team_credit_is_refused_where_one_wins_what_the_other_loses(tmp_path, name):
    path = tmp_path / "pennies.yaml"
    path.write_text(PENNIES)
    with pytest.raises(ConfigError, match="matrix-v1 is zero-sum here") as caught:
        prepare(load(str(path), [f"algorithm.name={name}"]))
    assert "\n" not in str(caught.value)
    offered = (
        "set algorithm.credit=own, or algorithm.name=rae"
        if name in ("magrpo", "marloo", "iac")
        else "set algorithm.name=rae"
    )
    assert str(caught.value).endswith(offered)


@pytest.mark.parametrize(
    "how",
    [["algorithm.name=rae"], ["algorithm.credit=own"], ["algorithm.credit=both"], ["env.game=prisoners-dilemma"],
     ["env.shared=true"]],
    ids=" ".join,
)  # fmt: skip
def test_own_credit_and_games_of_another_kind_are_not_refused(tmp_path, how):
    path = tmp_path / "pennies.yaml"
    path.write_text(PENNIES)
    prepare(load(str(path), how))


def test_which_games_are_zero_sum():
    """Pennies 0 everywhere, .1 + .2 against .3 + 0 up to rounding; the dilemma 6, 5 or 2."""
    assert constant_sum(np.array([[[1.0, -1], [-1, 1]], [[-1, 1], [1, -1]]]))
    assert constant_sum(np.array([[0.1, 0.2], [0.3, 0.0]]))
    assert not constant_sum(np.array([[[3.0, 3], [0, 5]], [[5, 0], [1, 1]]]))
    assert PokemonEnv.zero_sum
