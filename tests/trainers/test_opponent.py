"""Self-play evaluated against a fixed opponent: win rates worked out by hand, and what a run logs and refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest

from palaver import registry
from palaver.benchmarks.reports.run_folder import read
from palaver.benchmarks.reports.summary import comparison
from palaver.core import Completion, ConfigError, PolicyError, Sampling
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task
from palaver.episodes import Episode, Turn
from palaver.registry import Spec, register
from palaver.trainers.config.loading import load, parse
from palaver.trainers.rollout.evaluation import evaluate
from palaver.trainers.rollout.metrics import agent_returns
from palaver.trainers.rollout.opponent import against, win
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import prepare, train
from tests.trainers.toys import Script, save_model

MOST = 4


class Duel(TextEnv):
    """The longer text wins 1 of the other, lengths above 4 being 4."""

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "duel_v0"}
    zero_sum = True

    def __init__(self, tasks: str = "sample", render_mode: str | None = None) -> None:
        super().__init__(["a", "b"], [Task(f"t{i}", {}) for i in range(3)], render_mode=render_mode, source=tasks)

    def initial_observations(self, task: Task) -> Mapping[str, str]:
        return {seat: f"{seat}: {task.id}" for seat in self.agents}

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        a, b = (min(len(actions[seat]), MOST) for seat in ("a", "b"))
        won = float((a > b) - (a < b))
        return StepResult({"a": {"won": won}, "b": {"won": -won}}, terminated=True)


def long(_conversation: object, _seed: int) -> str:
    """Longer than any model's answer here."""
    return "x" * MOST


def silent(_conversation: object, _seed: int) -> str:
    return ""


DUEL = Spec(
    "duel-v0", Duel, agents=("a", "b"), competitive=True,
    scripted={name: f"{__name__}:{name}" for name in ("long", "silent")},
)  # fmt: skip


@pytest.fixture(autouse=True)
def duel() -> Iterator[None]:
    register(DUEL)
    yield
    registry._SPECS.pop(DUEL.id)
    registry.registration.parallel_registry.pop(f"{registry.NAMESPACE}/{DUEL.id}")


def episode(*rewards: Mapping[str, float]) -> Episode:
    turns = tuple(
        Turn(n, str(n), "", "t", {}, {}, {seat: Completion("x") for seat in each}, each, {})
        for n, each in enumerate(rewards)
    )
    return Episode("duel_v0", "t", 0, turns, "terminated")


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([{"a": 1.0, "b": -1.0}], (1.0, 0.0)),
        ([{"a": 0.0, "b": 0.0}], (0.5, 0.5)),
        ([{"a": 2.0, "b": -2.0}, {"a": -3.0, "b": 3.0}], (0.0, 1.0)),  # -1 and 1 over the episode
        ([{"a": 0.1, "b": 0.3}, {"a": 0.2, "b": 0.0}], (0.5, 0.5)),  # 0.1 + 0.2 is 0.3 but for rounding
        ([{"a": 1.0, "b": 0.5, "c": -1.5}], (1.0, 0.0)),
        ([{"a": 1.0, "b": 1.0, "c": -2.0}], (0.5, 0.5)),
        ([{"a": 0.0, "b": -1.0, "c": 1.0}], (0.0, 0.0)),  # above one of two others
    ],
)
def test_a_win_is_a_return_above_all_others_and_a_draw_half(rewards, expected):
    assert (win(episode(*rewards), "a"), win(episode(*rewards), "b")) == expected


def test_returns_are_sums_of_own_rewards():
    assert agent_returns(episode({"a": 2.0, "b": -2.0}, {"a": -3.5, "b": 3.5})) == {"a": -1.5, "b": 1.5}


def test_win_rates_worked_out_by_hand():
    """Sample k of `xx` has 2, 4, 4, 4 letters and of `x` 1, 2, 3, 4: three victories and a draw in four games."""
    team, opponent = {"a": Script("xx"), "b": Script("x")}, {"a": Script("xx"), "b": Script("x")}
    how: dict[str, Any] = {"samples": 4, "sampling": {"a": Sampling(), "b": Sampling()}, "seed": 0}
    found = against(team, opponent, ["a", "b"], lambda players: evaluate(Duel(), players, ["t0", "t2"], **how))
    assert found == {"a/win_rate": 0.875, "a/return": 0.75, "b/win_rate": 0.125, "b/return": -0.75}
    best = {"a": Script("xxxx"), "b": Script("xxxx")}  # of four letters always
    found = against(team, best, ["b"], lambda players: evaluate(Duel(), players, ["t0"], **how))
    assert found == {"b/win_rate": 0.125, "b/return": -0.75}
    assert against(team, {}, ["a", "b"], lambda players: []) == {}


def settings(model: str, **changes: Any) -> dict[str, Any]:
    values = {
        "env": {"id": "duel-v0"}, "policy": {"model": model, "max_tokens": MOST - 1}, "device": "cpu",
        "algorithm": {"name": "rae", "group_size": 2}, "optim": {"lr": 1e-3}, "train": {"steps": 2},
        "eval": {"n": 2, "samples": 2}, "log": {"tensorboard": False, "episodes": False},
    }  # fmt: skip
    return {name: {**values.get(name, {}), **changes.get(name, {})} if isinstance(values.get(name), dict) else value
            for name, value in {**values, **changes}.items()}  # fmt: skip


def lines(folder) -> list[dict]:
    timings = ("wall_s", "cpu_s", "tokens_per_s", "time/")
    return [{k: v for k, v in line.items() if not k.startswith(timings)} for line in read_metrics(folder)]


def test_a_run_logs_each_seat_and_trains_as_without(tmp_path):
    """Three tokens of a byte model are at most three letters: `long` beats seat b always, `silent` never wins."""
    model = save_model(tmp_path / "model")
    plain = lines(train(parse(settings(model)), tmp_path / "plain") / "metrics.jsonl")
    team = "a=scripted:long,b=scripted:silent"
    folder = train(parse(settings(model, eval={"opponent": team})), tmp_path / "run")
    found = lines(folder / "metrics.jsonl")
    names = {"a/win_rate", "a/return", "b/win_rate", "b/return"}
    assert [{k: v for k, v in line.items() if line["kind"] == "train" or k not in names} for line in found] == plain
    evals = [line for line in found if line["kind"] == "eval"]
    assert [line["step"] for line in evals] == [0, 2]
    for line in evals:
        assert (line["b/win_rate"], line["b/return"]) == (0.0, -1.0)
        assert line["a/win_rate"] >= 0.5
        assert line["a/return"] == pytest.approx(2 * line["a/win_rate"] - 1)
    (_, rows) = comparison(read(folder))[-1]
    assert {row.name for row in rows} == names
    with_frozen = settings(model, eval={"opponent": "scripted:long"}, team={"frozen": {"b": "scripted:silent"}})
    frozen = lines(train(parse(with_frozen), tmp_path / "frozen") / "metrics.jsonl")
    assert (frozen[0]["a/win_rate"], "b/win_rate" in frozen[0]) == (0.0, False)
    past = settings(model, eval={"opponent": f"run:{folder}"}, seed=1)
    (first, *_) = lines(train(parse(past), tmp_path / "past") / "metrics.jsonl")
    assert first["a/return"] == pytest.approx(2 * first["a/win_rate"] - 1)


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"env": {"id": "echo-v0"}}, ConfigError, "for games whose agents compete, and echo-v0 is none here"),
        ({"eval": {"opponent": "scripted:wild"}}, PolicyError, "there is no scripted policy 'wild'"),
        ({"eval": {"opponent": "run:nowhere"}}, ConfigError, "eval.opponent: there is no run in 'nowhere'"),
        ({"eval": {"opponent": "a=random,b=run:nowhere"}}, ConfigError, "eval.opponent: there is no run in 'nowhere'"),
        ({"eval": {"opponent": "c=random"}}, PolicyError, "there is no agent 'c'"),
        ({"eval": {"opponent": "a=random"}}, PolicyError, "has no policy for the agent 'b'"),
        ({"eval": {"opponent": "tiny"}, "env": {"id": "duel-v0", "tasks": "f.json"}}, PolicyError, "the tiny model"),
    ],
)
def test_an_opponent_that_cannot_play_is_refused_before_anything_is_loaded(changes, error, says):
    values = {"eval": {"opponent": "scripted:long"}, "algorithm": {"name": "rae"}} | changes
    with pytest.raises(error, match=says) as caught:
        prepare(parse(settings("nowhere", **values)))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_recipe_wins_five_sixths_against_uniform_play(tmp_path):
    """Blue wins 2/3 and draws 1/3 of its games against uniform play: 5/6, with a variance of 2/3 + 1/12 - 25/36 = 1/18
    a game, so that the standard error of 128 games is 0.021; four of them are 0.083.
    """
    folder = train(load("matrix-rae", ["device=cpu", "log.tensorboard=false"]), tmp_path / "run")
    before, after = (line for line in lines(folder / "metrics.jsonl") if line["kind"] == "eval")
    for seat in ("a1", "a2"):
        assert before[f"{seat}/win_rate"] < 0.65
        assert after[f"{seat}/win_rate"] == pytest.approx(5 / 6, abs=0.083)
