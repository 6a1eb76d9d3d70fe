"""Episodes paid a second time: what must not change does not, what does is counted."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from palaver import registry
from palaver.agents.make_policy import make_policy
from palaver.benchmarks.evaluation import rescore
from palaver.benchmarks.evaluation import results as rows
from palaver.benchmarks.evaluation.evaluate import EvaluationConfig, measure, to_row
from palaver.benchmarks.evaluation.focal import FocalRound
from palaver.core import ConfigError, Sampling, ScoringError, TaskError
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task
from palaver.trainers.config.run import RunConfig
from palaver.trainers.rollout.episodes import SamplingPlan, rollout, text_env
from palaver.trainers.rollout.replays import again
from palaver.utils.config import dump
from tests.envs.rewards import Length

DRAW = Sampling(max_tokens=6)


def played(env, plan, seed=3, name="random", **keywords):
    made = text_env(env, keywords)
    team = dict.fromkeys(made.possible_agents, make_policy(name))
    ids = [task.id for task in made.tasks[:3]]
    return made, rollout(made, team, ids, plan, sampling=dict.fromkeys(team, DRAW), seed=seed)


@pytest.mark.parametrize(
    "plan",
    [
        SamplingPlan(2, turns="independent"),
        SamplingPlan(2),
        SamplingPlan(2, joint="cross", turns="best"),
        SamplingPlan(2, stop_above=0.1),
    ],
    ids=["independent", "tree", "best", "threshold"],
)
@pytest.mark.parametrize("env", ["echo-v0", "pioneer-v0", "maths-mini-v0"])
def test_a_second_scoring_without_a_change_is_the_first(env, plan):
    made, episodes = played(env, plan)
    assert again(made, episodes) == again(made, episodes, workers=2) == episodes


def test_who_booked_pay_turn_by_turn_books_it_again():
    made, episodes = played(
        "workflow-v0", SamplingPlan(1, turns="independent"), reward_scheme={"when": "accumulated"}, name="echo"
    )
    assert again(made, episodes) == again(made, episodes, workers=2) == episodes


def test_a_dropped_weight_takes_away_what_it_paid():
    keywords = {"tasks": "sample[:4]", "gated": False}
    _, episodes = played("arxiv-v0", SamplingPlan(2, turns="independent"), **keywords)
    found = rescore.EpisodeSource(episodes, "", "arxiv-v0", keywords, None)
    plain, _ = rescore.rescore(found, keywords)
    assert (plain.difference, plain.changed, plain.reobserved, plain.ended) == (0.0, 0, 0, 0)
    paid = [episode.turns[0].components["method"]["unique"] for episode in episodes]
    other, after = rescore.rescore(found, keywords | {"weights": {"unique": 0.0}})
    assert [old.team_return() - new.team_return() for old, new in zip(episodes, after, strict=True)] == pytest.approx(
        paid
    )
    assert other.changed == sum(part > 0 for part in paid) > 0
    assert other.difference == pytest.approx(-np.mean(paid))  # two samples of each of three tasks


def test_the_numbers_by_hand():
    # task A: returns 1, 3 -> 2, 4 (differences 1, 1); task B: 2 -> 0 (difference -2); mean over tasks (1 - 2) / 2
    _, (one, *_) = played("echo-v0", SamplingPlan(1, turns="independent"), num_turns=1)

    def paid(task, value, stop="terminated"):
        turn = replace(one.turns[0], rewards={"a1": value, "a2": value})
        return replace(one, task=task, turns=(turn,), stop=stop)

    old = [paid("A", 1.0), paid("A", 3.0), paid("B", 2.0), paid("C", 9.0, "unscored")]
    new = [paid("A", 2.0), paid("A", 4.0), paid("B", 0.0), paid("C", 1.0)]
    found = rescore.compare(old, new)
    assert (found.before, found.after) == (2.0, 1.5)  # tasks A and B: (2 + 2) / 2 and (3 + 0) / 2
    assert (found.difference, found.low, found.high) == (-0.5, -2.0, 1.0)
    assert (found.n, found.changed, found.reobserved, found.ended, found.unscored) == (3, 3, 0, 0, 1)
    with pytest.raises(ScoringError, match="none of the 1 episodes"):
        rescore.compare(old[3:], new[3:])


def test_a_judge_scores_what_was_said_all_episodes_of_a_turn_at_once():
    _, episodes = played("echo-v0", SamplingPlan(2, turns="independent"))
    judge = Length()
    found = rescore.EpisodeSource(episodes, "", "echo-v0", {}, None)
    result, after = rescore.rescore(found, {"reward": judge})
    assert [len(cases) for cases in judge.calls] == [6, 6, 6]  # three turns
    for old, new in zip(episodes, after, strict=True):
        said = [sum(len(text.text) for text in turn.completions.values()) for turn in old.turns]
        assert new.team_return() == pytest.approx(sum(min(1.0, n / 100) for n in said))
    assert (result.n, result.reobserved) == (6, 0)
    assert result.scoring


def test_what_would_now_be_told_otherwise_is_counted():
    made, episodes = played("echo-v0", SamplingPlan(1, turns="independent"))
    said = episodes[0].turns[0]
    asked = replace(said, observations=said.observations | {"a1": "The word is: other"})
    old = [replace(episodes[0], turns=(asked, *episodes[0].turns[1:])), *episodes[1:]]
    assert rescore.compare(old, again(made, old)).reobserved == 1


def test_an_environment_that_ends_earlier_or_later_is_told():
    found = rescore.EpisodeSource(played("echo-v0", SamplingPlan(1, turns="independent"))[1], "", "echo-v0", {}, None)
    shorter, ended = rescore.rescore(found, {"num_turns": 2})
    assert shorter.ended == 3
    assert [len(episode.turns) for episode in ended] == [2, 2, 2]
    longer, open_ended = rescore.rescore(found, {"num_turns": 5})
    assert longer.ended == 3
    assert {(len(episode.turns), episode.stop) for episode in open_ended} == {(3, "truncated")}


class Leaving(TextEnv):
    """Pays what the dice say; with `soon`, the first agent leaves after the first turn."""

    metadata = {**TextEnv.metadata, "name": "leaving_v0"}  # noqa: RUF012 - as PettingZoo has it

    def __init__(self, tasks="sample", soon=False):
        super().__init__(["a", "b"], [Task("t0", {}), Task("t1", {})], source=tasks)
        self.soon = soon

    def initial_observations(self, task):
        return dict.fromkeys(self.agents, task.id)

    def transition(self, actions):
        over = True if self.turn else (["a"] if self.soon else False)
        return StepResult({agent: {"dice": float(self.rng.integers(9))} for agent in self.agents}, {}, terminated=over)


def test_dice_fall_as_they_fell_and_who_has_left_is_not_heard(monkeypatch):
    monkeypatch.setitem(registry._SPECS, "leaving-v0", registry.Spec("leaving-v0", Leaving, agents=("a", "b")))
    env = Leaving()
    team = dict.fromkeys("ab", make_policy("random"))
    episodes = rollout(env, team, ["t0", "t1"], SamplingPlan(), sampling=dict.fromkeys("ab", DRAW), seed=1)
    assert len({episode.team_return() for episode in episodes}) == 2
    assert again(env, episodes) == episodes
    (new,) = again(Leaving(soon=True), episodes[:1])
    assert set(new.turns[1].completions) == {"b"}
    assert new.turns[1].rewards["a"] == 0.0


@pytest.fixture
def kept(tmp_path):
    result, episodes = measure(EvaluationConfig("echo-v0", team="random", n=4, samples=2, sampling=DRAW))
    return to_row(result, episodes, "random", tmp_path), tmp_path


def test_the_new_row_names_its_parent(kept, tmp_path_factory):
    row, folder = kept
    found = rescore.source(folder / "echo-v0--random.json")
    assert found.sha256 == row.episodes.sha256
    assert rescore.source(folder / "echo-v0--random.jsonl.gz").row == row
    _, episodes = rescore.rescore(found, {"num_turns": 2})
    new = rescore.new_row(found, {"num_turns": 2}, episodes, "two turns", tmp_path_factory.mktemp("new"))
    assert new.parent == f"echo-v0--random {row.episodes.sha256}"
    assert (new.keywords, new.max_reward, new.seed, new.n) == ({"num_turns": 2}, 3.0, row.seed, 8)
    assert new.config != row.config
    assert again(text_env("echo-v0", {}), []) == []
    assert new.mean == pytest.approx(np.mean([episode.team_return() for episode in episodes]))


def test_agents_in_focus_are_in_focus_again(tmp_path):
    seatings = (FocalRound(("solver1",), {"solver2": "random"}), FocalRound(("solver2",), {"solver1": "random"}))
    setting = EvaluationConfig("maths-mini-v0", team="scripted:reference", n=3, sampling=DRAW, seatings=seatings)
    result, episodes = measure(setting)
    to_row(result, episodes, "x", tmp_path)
    found = rescore.source(tmp_path / "maths-mini-v0--x.json")
    again_, same = rescore.rescore(found, {})
    assert again_.changed == 0
    assert rescore.new_row(found, {}, same, "y", tmp_path).focal == result.focal


def test_runs_know_their_keywords(tmp_path):
    config = RunConfig.model_validate(
        {"env": {"id": "echo-v0", "tasks": "sample[:2]", "num_turns": 2}, "eval": {"tasks": "sample[2:]"}}
    )
    (tmp_path / "episodes").mkdir()
    (tmp_path / "config.yaml").write_text(dump(config))
    _, episodes = played("echo-v0", SamplingPlan(), num_turns=2, tasks="sample[2:]")
    for name in ("eval-000000.jsonl", "train-000001.jsonl"):
        lines = [json.dumps(episode.to_dict()) + "\n" for episode in episodes]
        (tmp_path / "episodes" / name).write_text("".join(lines))
    found = rescore.source(tmp_path / "episodes" / "eval-000000.jsonl")
    assert found.keywords == {"tasks": "sample[2:]", "num_turns": 2}
    assert rescore.rescore(found, found.keywords)[0].changed == 0
    trained = rescore.source(tmp_path / "episodes" / "train-000001.jsonl")
    assert trained.keywords["tasks"] == "sample[:2]"
    with pytest.raises(TaskError, match="no task"):
        rescore.rescore(trained, trained.keywords)
    with pytest.raises(ConfigError, match="no row in their folder"):
        rescore.new_row(found, {}, episodes, "x", tmp_path)


def test_what_cannot_be_scored_again_is_one_line(kept, tmp_path):
    _, folder = kept
    lines = rows.read_episodes(folder / "echo-v0--random.jsonl.gz")[0]
    (folder / "echo-v0--random.jsonl").write_text(json.dumps(lines[0].to_dict()) + "\n")
    with pytest.raises(ConfigError, match="does not hold the episodes that the row"):
        rescore.source(folder / "echo-v0--random.jsonl")
    (tmp_path / "alone.jsonl").write_text(json.dumps(lines[0].to_dict()) + "\n")
    assert rescore.source(tmp_path / "alone.jsonl").keywords is None
    (tmp_path / "none.jsonl").write_text("\n")
    with pytest.raises(ConfigError, match="it holds none"):
        rescore.source(tmp_path / "none.jsonl")
    (tmp_path / "bad.jsonl").write_text('{"env": 3}\n')
    with pytest.raises(ConfigError, match="line 1: this is no episode"):
        rescore.source(tmp_path / "bad.jsonl")
    (tmp_path / "bad.jsonl.gz").write_bytes(b"\x1f\x8bnot packed")
    with pytest.raises(ConfigError, match="cannot read the episodes"):
        rescore.source(tmp_path / "bad.jsonl.gz")
    with pytest.raises(ConfigError, match="there is no row"):
        rescore.source(tmp_path / "nothing.json")
    with pytest.raises(ConfigError, match="of echo_v0, not of"):
        rescore.rescore(rescore.source(folder / "echo-v0--random.json", "tldr-v0"), {})
