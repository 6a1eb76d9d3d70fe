"""Questions answered by other policies than the acting ones: who reads what, who learns what, what is stored."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import palaver
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.simple import ScriptedPolicy
from palaver.api.training import Run
from palaver.benchmarks.evaluation import credit as fidelity
from palaver.benchmarks.evaluation import focal, messages
from palaver.benchmarks.evaluation.evaluate import EvaluationConfig, as_trained, measure
from palaver.core import Completion, ConfigError, Sampling
from palaver.episodes import Episode, Turn
from palaver.trainers.algorithms.base import algorithm, chosen
from palaver.trainers.config.loading import load, parse
from palaver.trainers.config.run import RunConfig
from palaver.trainers.config.team import TeamConfig
from palaver.trainers.rollout.batch import add_advantages, make_batch
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.trainers.rollout.metrics import expected_returns
from palaver.trainers.rollout.team import load_run, parse_team
from palaver.trainers.run import checkpoint
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.train import prepare, restore, resume, train
from palaver.trainers.update.updater import Updater
from tests.trainers import learning
from tests.trainers.toys import Script, save_model

MATRIX = {"id": "matrix-v1", "game": "coordination", "tasks": "sample[:4]"}
BEFORE = {"when": "before", "alpha": 1.0}
AGENTS = ["a1", "a2"]
ROLES = ["a1_inference", "a2_inference"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return save_model(tmp_path_factory.mktemp("model") / "m", max_position_embeddings=1024)


def config(model: str, **changes: Any) -> RunConfig:
    values = {
        "env": {**MATRIX, "infer": BEFORE},
        "policy": {"model": model, "max_tokens": 4},
        "team": {"inference": "shared"},
        "algorithm": {"name": "marloo", "group_size": 2, "turns": "tree", "credit": "own"},
        "optim": {"lr": 1e-2},
        "train": {"steps": 4, "checkpoint_every": 2, "keep": 9},
        "eval": {"n": 2, "every": 2},
        "log": {"tensorboard": False},
        "device": "cpu",
    }
    return parse(values | {key: {**values.get(key, {}), **value} for key, value in changes.items()})


def played(team: dict, width: int = 2, repeats: int = 2) -> list[Episode]:
    env = palaver.make("matrix-v1", game="coordination", repeats=repeats, infer=BEFORE)
    sampling = dict.fromkeys(AGENTS, Sampling(max_tokens=4))
    return rollout(env, team, [env.tasks[0].id], SamplingPlan(group_size=width), sampling=sampling, seed=1)


# --- who reads what ------------------------------------------------------------------------------


def test_a_role_reads_what_the_agent_reads_and_nothing_else():
    """Requests for answers are those that the acting policy gets without a role, in other hands."""
    own = {agent: Script(agent) for agent in AGENTS}
    played(own)
    acting, reader = {agent: Script(agent) for agent in AGENTS}, Script("a1")
    played(acting | {"a1_inference": reader})
    assert acting["a2"].calls == own["a2"].calls  # the other agent notices nothing

    def asked(calls: list) -> list[list[str]]:
        return [[m.content for m in r.conversation] for requests in calls for r in requests]

    questions = [texts for texts in asked(own["a1"].calls) if "Guess: " in texts[-1]]
    assert asked(reader.calls) == questions != []
    assert asked(acting["a1"].calls) == [texts for texts in asked(own["a1"].calls) if "Guess: " not in texts[-1]]
    assert {request.agent for requests in reader.calls for request in requests} == {"a1"}


@pytest.mark.parametrize("infer", [BEFORE, {"when": "after", "order": 2}])
def test_a_role_never_sees_the_card_of_the_other(infer):
    """In two deals that an agent cannot tell apart before it acts, its role reads the same."""
    read = []
    for deal in ("Q-J", "Q-K"):
        reader = Script("J")
        team = {"p1": Script("check"), "p2": Script("check"), "p1_inference": reader}
        env = palaver.make("kuhn-v0", infer=infer)
        rollout(env, team, [deal], SamplingPlan(), sampling=dict.fromkeys(("p1", "p2"), Sampling()), seed=0)
        read.append([[r.conversation for r in requests] for requests in reader.calls])
    assert read[0] == read[1] != []


# --- who learns what -----------------------------------------------------------------------------


def said(text: str) -> Completion:
    return Completion(text, (1,), (2,), (-0.5,), (-0.5,))


def turn(index: int, node: str, parent: str, rewards: dict, asked: list[str]) -> Turn:
    return Turn(
        index, node, parent, parent or "0", dict.fromkeys(rewards, 0), {}, {a: said(a) for a in rewards}, rewards, {},
        asked=asked,
    )  # fmt: skip


def test_a_question_is_a_turn_of_the_role_with_the_rewards_of_its_agent():
    """Rewards 1 and 3, then 5 and 7 for guesses: returns 6 and 10; the team's mean is (1 + 3) / 2 + (5 + 7) / 2 = 8."""
    turns = (turn(0, "0/0", "", {"a1": 1.0, "a2": 3.0}, []), turn(1, "0/0/0", "0/0", {"a1": 5.0, "a2": 7.0}, AGENTS))
    episode = Episode("e", "t", 0, turns, "terminated", dict.fromkeys([*AGENTS, *ROLES], "p"))
    batch = make_batch([episode])
    assert batch.agents == (*AGENTS, *ROLES)
    assert [batch.agents[n] for n in batch.agent] == [*AGENTS, *ROLES]
    assert batch.reward.tolist() == [[1.0, 3.0, 1.0, 3.0], [5.0, 7.0, 5.0, 7.0]]
    assert batch.rows_of(["a1"]) == [0]
    assert batch.rows_of(["a1_inference"]) == [2]
    for credited, returns in (("own", [6, 10, 5, 7]), ("team", [8, 8, 6, 6]), ("both", [14, 18, 11, 13])):
        settings = learning.config(algorithm={"name": "mareinforce", "credit": credited}).algorithm
        assert add_advantages(batch, chosen(settings), settings).returns.tolist() == returns
    mine = replace(episode, team=dict.fromkeys(AGENTS, "p"))
    assert mine.by_role() is mine
    assert make_batch([mine]).rows_of(["a1"]) == [0, 2]


@pytest.mark.parametrize("credit", ["own", "team", "both"])
def test_roles_change_no_return(credit):
    colours = ScriptedPolicy(lambda _conversation, seed: ("red", "blue", "red 0.75")[seed % 3], "colours")
    episodes = played(dict.fromkeys(AGENTS, colours), width=3)
    settings = learning.config(algorithm={"name": "marloo", "credit": credit, "group_size": 3}).algorithm
    plain = add_advantages(make_batch(episodes), chosen(settings), settings)
    roles = dict.fromkeys([*AGENTS, *ROLES], "p")
    other = add_advantages(make_batch([replace(e, team=roles) for e in episodes]), chosen(settings), settings)
    assert torch.allclose(plain.returns, other.returns, atol=1e-12)
    assert torch.allclose(plain.advantage, other.advantage, atol=1e-12)
    assert plain.advantage.abs().sum() > 0
    penalty = torch.arange(len(plain), dtype=torch.float64)
    means = [expected_returns(episodes, batch, 0.5, penalty) for batch in (plain, other)]
    assert means[0] == pytest.approx(means[1])


@pytest.mark.parametrize("name", ["marloo", "magrpo", "ippo"])
def test_no_policy_has_a_gradient_of_the_turns_of_the_other(name):
    acting, reading = learning.policy(0), learning.policy(1)
    team = dict.fromkeys(AGENTS, acting) | dict.fromkeys(ROLES, reading)
    settings = learning.config(algorithm={"name": name, "group_size": 2})
    study = Updater(algorithm(name), settings, learning.learners(team, settings), Distributed("cpu", "fp32"))
    estimated = study.estimate_advantages(make_batch(played(team, repeats=1), study.agents))
    batch = estimated.batch
    answers = torch.tensor([batch.agents[n] in ROLES for n in batch.agent])
    assert 0 < answers.sum() < len(batch)
    for of_answers, moved, still in ((True, reading, acting), (False, acting, reading)):
        advantage = torch.where(answers == of_answers, 1.0, 0.0).double()
        per_token = None if batch.token_advantage is None else advantage[:, None].expand_as(batch.token_advantage)
        work = replace(estimated, batch=replace(batch, advantage=advantage, token_advantage=per_token))
        before = {id(p): [w.clone() for w in p.model.parameters()] for p in (moved, still)}
        metrics = study.update(work, 1)
        assert all(torch.equal(a, b) for a, b in zip(before[id(still)], still.model.parameters(), strict=True))
        assert not all(torch.equal(a, b) for a, b in zip(before[id(moved)], moved.model.parameters(), strict=True))
    assert {"a1_inference/loss", "a1/loss"} <= metrics.keys()


# --- runs ----------------------------------------------------------------------------------------

RUNS = [
    ("separate", "shared", "marloo", {"a1", "a2", "inference"}),
    ("shared", "model", "magrpo", {"shared", *ROLES}),
    ("separate", "model", "ippo", {*AGENTS, *ROLES}),
    ("shared", "shared", "ippo", {"shared", "inference"}),
    ("separate", "shared", "rae", {"a1", "a2", "inference"}),
]


@pytest.mark.parametrize(("kind", "inference", "name", "stored"), RUNS)
def test_a_run_resumes_and_is_evaluated_as_it_was_trained(model, tmp_path, kind, inference, name, stored):
    settings = config(
        model,
        team={"kind": kind, "inference": inference},
        algorithm={"name": name, "group_size": 2, "turns": "tree", "credit": "own"},
        kl={"coef": 0.05},
    )
    whole = train(settings, tmp_path / "whole")
    last = checkpoint.folder_of(whole, 4)
    assert {folder.name for folder in (last / "policies").iterdir()} == stored
    assert checkpoint.agents_of(last) == {agent: agent for agent in (*AGENTS, *ROLES)}
    first = checkpoint.folder_of(whole, 2)
    for policy in stored:  # every one is trained
        a, b = (load_file(folder / "policies" / policy / "model.safetensors") for folder in (first, last))
        assert any(not torch.equal(a[key], b[key]) for key in a)

    cut = shutil.copytree(whole, tmp_path / "cut")
    shutil.rmtree(checkpoint.folder_of(cut, 4))
    resume(cut)
    assert learning.untimed(cut) == learning.untimed(whole)
    for path in last.rglob("*.safetensors"):
        assert (cut / path.relative_to(whole)).read_bytes() == path.read_bytes()

    evals = [line for line in learning.untimed(whole) if line["kind"] == "eval"]
    keywords, sampling, _ = as_trained(f"run:{whole}", "matrix-v1")
    again, episodes = measure(
        EvaluationConfig(
            "matrix-v1", keywords, f"run:{whole}", n=2, sampling=sampling, options=ModelOptions(device="cpu")
        )
    )
    assert (again.mean, again.metrics) == (evals[-1]["mean"], evals[-1]["metrics"])
    reader = "inference" if inference == "shared" else "a1_inference"
    assert episodes[0].team["a1_inference"] == f"run:whole/{reader}@4"
    assert Episode.from_dict(episodes[0].to_dict()).turns[0].asked == AGENTS


@pytest.fixture(scope="module")
def finished(model, tmp_path_factory) -> Path:
    return train(config(model), tmp_path_factory.mktemp("runs") / "run")


def test_a_finished_run_gives_its_team_with_the_roles(finished):
    run = Run(finished)
    team = run.team(ModelOptions(device="cpu"))
    assert list(team) == [*AGENTS, *ROLES]
    assert team["a1_inference"] is team["a2_inference"] is not team["a1"]
    assert run.policies["a1_inference"].name == "inference"
    (episode, *_) = palaver.rollout(
        "matrix-v1", team, sampling=Sampling(max_tokens=4), game="coordination", infer=BEFORE
    )
    assert episode.team["a1_inference"] == "run:run/inference@4"
    spec, agents = palaver.spec("matrix-v1"), AGENTS
    parsed = parse_team(f"run:{finished}", spec, agents, ModelOptions(device="cpu"), "sample")
    assert list(parsed) == [*AGENTS, *ROLES]
    mixed = parse_team(f"a2=run:{finished},a1=random", spec, agents, ModelOptions(device="cpu"), "sample")
    assert [policy.name for policy in mixed.values()] == ["random", "run:run/a2@4", "run:run/inference@4"]
    assert list(mixed) == [*AGENTS, "a2_inference"]
    assert list(load_run(finished, agents, ModelOptions(device="cpu"))) == AGENTS
    assert list(restore(finished).team) == [*AGENTS, *ROLES]


def test_what_is_measured_of_a_run_asks_who_answered(finished):
    """Credit and messages are measured with the roles; a partner of another run, and silence, take them away."""
    assert fidelity.of_run(finished, fidelity.Effort(tasks=1, contexts=4, alternatives=2, replays=1)).contexts == 4
    assert messages.of_run(finished, 2, 0).worth.messages == 0.0
    team = load_run(finished, [*AGENTS, *ROLES], ModelOptions(device="cpu"))
    rounds = [focal.FocalRound(("a1",), {"a2": "x"}), focal.FocalRound(("a2",))]
    teams = focal.seated(dict(team), rounds, lambda _: dict.fromkeys(AGENTS, Script("red")))
    assert [list(one) for one in teams] == [[*AGENTS, ROLES[0]], [*AGENTS, *ROLES]]
    assert [one[ROLES[0]].name for one in focal.silenced(teams, rounds)] == ["silent", "run:run/inference@4"]


@pytest.mark.parametrize("name", ["marloo", "ippo"])
def test_a_step_without_questions_leaves_who_answers_alone(model, tmp_path, name):
    """Random texts name no action, so that nothing can be asked about them."""
    settings = config(
        model,
        env={"infer": "after"},
        team={"inference": "model"},
        algorithm={"name": name, "group_size": 2, "turns": "tree", "credit": "own"},
        train={"steps": 2},
        eval={"n": 0},
    )
    folder = train(settings, tmp_path / "run")
    stored = checkpoint.folder_of(folder, 2) / "policies"
    start = load_file(Path(model) / "model.safetensors")
    for role in ROLES:
        after = load_file(stored / role / "model.safetensors")
        assert all(torch.equal(after[key], value) for key, value in start.items())


def test_policies_by_name():
    assert TeamConfig().roster(AGENTS) == AGENTS
    shared = TeamConfig(kind="shared", inference="model")
    assert [shared.policy_of(name) for name in shared.roster(AGENTS)] == ["shared", "shared", *ROLES]
    one = TeamConfig(inference="shared", frozen={"a2": "random"})
    assert [one.policy_of(name) for name in one.trained(AGENTS)] == ["a1", "inference", "inference"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["env.infer=false"], "nothing is asked: set env.infer"),
        (["team.kind=lora"], "needs team.kind=separate or shared, not lora"),
        (["algorithm.name=mappo"], "mappo looks at all agents' texts together"),
        (["algorithm.name=happo", "algorithm.joint=aligned"], "happo looks at all agents' texts together"),
        (["algorithm.name=vdn"], "vdn looks at all agents' texts together"),
        (
            ["algorithm.name=c3", "algorithm.joint=aligned", "algorithm.turns=counterfactual"],
            "set algorithm.turns=tree",
        ),
        (["team.swap_every=2"], "set team.swap_every=0"),
        (["placement.kind=ray"], "set placement.kind=local"),
        (["team.inference=model", "env.infer={agents: [builder1]}"], "env.infer.agents asks some alone"),
        (["team.frozen={builder1_inference: random}", "team.inference=own"], "which is no agent"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        prepare(load("build-magrpo", ["env.infer=after", "team.inference=shared", "algorithm.turns=tree", *changes]))
