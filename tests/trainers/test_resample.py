"""Dynamic sampling: tasks without variance are replaced by others, and what they said still counts as sampled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from palaver import registry
from palaver.core import ConfigError
from palaver.envs.base.env import StepResult
from palaver.episodes import Episode
from palaver.registry import Spec, register
from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.config.loading import parse
from palaver.trainers.config.run import AlgorithmConfig
from palaver.trainers.rollout.tasks import ResampledEpisodes, batch_of_tasks, resampled, spares, varies, with_epochs
from palaver.trainers.train import resume, train
from palaver.utils.config import dump
from tests.trainers.learning import episode, untimed
from tests.trainers.toys import SEATS, Lengths, register_toy, save_model

SPARE = ["s0", "s1", "s2", "s3", "s4"]


def play_all(calls: list[list[tuple[int, str]]]):
    """Plays a task as two episodes whose first turn is paid 1, and keeps what it was asked for."""

    def play(mine: Sequence[tuple[int, str]], again: int) -> list[Episode]:
        assert again == len(calls)
        calls.append(list(mine))
        return [episode(str(place), lane, [(1.0, 1.0)]) for place, _ in mine for lane in (0, 1)]

    return play


def roots(episodes: Sequence[Episode]) -> list[int]:
    return [int(each.turns[0].node.partition("/")[0]) for each in episodes]


def by_root(dull: set[int]):
    return lambda episodes: roots(episodes)[0] not in dull


def test_places_of_replaced_tasks_by_hand():
    """Three tasks a step. Place 1 is dull and in round 1 too (1 + 3), place 2 once; round 2 plays 1 + 2 * 3 alone."""
    calls: list[list[tuple[int, str]]] = []
    found = resampled(list(enumerate("abc")), SPARE, 3, 5, play_all(calls), by_root({1, 2, 4}))
    assert calls == [[(0, "a"), (1, "b"), (2, "c")], [(4, "s1"), (5, "s2")], [(7, "s4")]]
    assert roots(found.episodes) == [0, 0, 5, 5, 7, 7]
    assert roots(found.replaced) == [1, 1, 2, 2, 4, 4]
    assert found.again == 3


def test_what_does_not_vary_after_the_last_round_stays():
    calls: list[list[tuple[int, str]]] = []
    found = resampled([(0, "a"), (1, "b")], SPARE, 2, 2, play_all(calls), lambda _: False)
    assert calls[1:] == [[(2, "s0"), (3, "s1")], [(4, "s2"), (5, "s3")]]
    assert (roots(found.episodes), roots(found.replaced), found.again) == ([4, 4, 5, 5], [0, 0, 1, 1, 2, 2, 3, 3], 4)


def test_without_rounds_nothing_is_looked_at():
    found = resampled([(0, "a")], SPARE, 1, 0, play_all([]), lambda _: pytest.fail("not needed"))
    assert (roots(found.episodes), found.replaced, found.again) == ([0, 0], [], 0)


def test_two_processes_draw_what_one_would():
    def of(first: list[tuple[int, str]]) -> ResampledEpisodes:
        return resampled(first, SPARE, 4, 3, play_all([]), by_root({0, 3, 4, 7, 8}))

    whole, parts = of(list(enumerate("abcd"))), [of(list(enumerate("abcd"))[rank::2]) for rank in (0, 1)]
    assert (
        sorted(roots(whole.episodes))
        == sorted(roots([*parts[0].episodes, *parts[1].episodes]))
        == [1, 1, 2, 2, 11, 11, 12, 12]
    )
    assert whole.again == sum(each.again for each in parts) == 5
    assert sorted(roots(whole.replaced)) == sorted(roots([*parts[0].replaced, *parts[1].replaced]))


def test_spare_tasks_are_others_in_an_order_of_the_step():
    tasks = [f"t{n}" for n in range(20)]
    first = batch_of_tasks(tasks, 4, 0, 1)
    found = spares(tasks, first, 0, 1)
    assert sorted([*found, *first]) == sorted(tasks)
    assert found == spares(tasks, first, 0, 1)
    assert found != spares(tasks, first, 1, 1)
    assert found != [task for task in spares(tasks, (), 0, 2) if task not in first]
    assert sorted(spares(["x", "y"], ["x", "y"], 0, 1)) == ["x", "y"], "there is no other"


# pay of a and b in two joint actions: their team's mean is 0.1 in both, their own is not
SHIFTED = [episode("0", 0, [(0.2, 0.0)]), episode("0", 1, [(0.0, 0.2)])]


@pytest.mark.parametrize(
    ("name", "expected"), [("magrpo", False), ("marloo", False), ("maremax", False), ("dapo", False), ("atgrpo", True)]
)
def test_variance_is_that_of_what_an_agent_answers_for(name, expected):
    assert varies(SHIFTED, algorithm(name), AlgorithmConfig(name=name), SEATS) is expected


def test_variance_of_later_turns_rounding_and_what_could_not_be_scored():
    row, config = algorithm("magrpo"), AlgorithmConfig()
    later = [episode("0", lane, [(0.0, 0.0), (paid, 0.0)]) for lane, paid in enumerate((0.0, 1.0))]
    assert varies(later, row, config, SEATS)
    assert varies(later, row, config, ["a"])
    assert not varies(later, row, AlgorithmConfig(discount=0.0), SEATS[:0]), "nobody is trained"
    tenths = [episode("0", lane, [(0.1, 0.7)]) for lane in range(3)]
    assert not varies(tenths, row, config, SEATS)
    lost = Episode("made", "0", 0, SHIFTED[0].turns, "unscored")
    assert not varies([lost, lost], row, config, SEATS)


class Half(Lengths):
    """`Lengths`, where every second task pays 0 whatever is said."""

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        paid = super().transition(actions)
        if int(self.task.id[1:]) % 2:
            return StepResult({seat: {"own": 0.0} for seat in actions}, terminated=True)
        return paid


@pytest.fixture
def half() -> Iterator[None]:
    register(Spec("half-v0", Half, agents=SEATS))
    yield
    registry._SPECS.pop("half-v0", None)
    registry.registration.parallel_registry.pop(f"{registry.NAMESPACE}/half-v0", None)


def read_episodes(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_run_replaces_tasks_counts_all_it_sampled_and_resumes(half, tmp_path):
    """Eight tasks, four of them dull, four drawn a step: nine rounds find others until each place has one that varies.

    Spare tasks run out and come again, so a task may be played twice in a step, with other texts.
    """
    config = parse({
        "env": {"id": "half-v0"}, "policy": {"model": save_model(tmp_path / "m"), "max_tokens": 6},
        "algorithm": {"group_size": 4, "resample": 9}, "optim": {"lr": 1e-3},
        "train": {"steps": 3, "prompts_per_step": 4, "checkpoint_every": 1}, "eval": {"n": 0}, "device": "cpu",
        "log": {"tensorboard": False, "tokens": True},
    })  # fmt: skip
    whole = train(config, tmp_path / "whole")
    found = untimed(whole)
    assert sum(line["groups/resampled"] for line in found) > 0
    for line in found:
        played = read_episodes(whole / f"episodes/train-{line['step']:06d}.jsonl")
        tasks = [each["turns"][0]["node"].partition("/")[0] for each in played]
        assert len(played) == 4 * (4 + 4 * line["groups/resampled"]) == 4 * len(set(tasks))
        assert line["groups/zero_advantage"] == 0
        texts = [said for each in played for said in each["turns"][0]["completions"].values()]
        assert line["completions"] == len(texts)
        assert line["sampled_tokens"] == sum(len(said["token_ids"]) for said in texts)
        paid = [sum(each["turns"][0]["rewards"].values()) / 2 for each in played]
        assert line["reward/mean"] == pytest.approx(sum(paid) / len(paid))
        assert line["return/raw"] >= line["reward/mean"], "of the tasks that stayed"
    cut = shutil.copytree(whole, tmp_path / "cut")
    shutil.rmtree(cut / "checkpoints/step-000003")
    resume(cut)
    assert untimed(cut) == found


SCRIPT = """
import sys
from pathlib import Path
from palaver.trainers.config.loading import load
from palaver.trainers.train import train
from tests.trainers.toys import register_toy
register_toy()
train(load(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_two_processes_replace_what_one_does(tmp_path):
    """Share of small letters in two tokens: often 0 in both samples of a task."""
    register_toy()
    config = parse({
        "env": {"id": "letters-v0"}, "policy": {"model": save_model(tmp_path / "m"), "max_tokens": 2},
        "algorithm": {"group_size": 2, "resample": 2}, "train": {"steps": 3, "prompts_per_step": 4},
        "eval": {"n": 0}, "device": "cpu", "log": {"tensorboard": False},
    })  # fmt: skip
    (tmp_path / "recipe.yaml").write_text(dump(config), encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [*launch, str(tmp_path / "script.py"), str(tmp_path / "recipe.yaml"), str(tmp_path / "two")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2]), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=400)
    one, two = untimed(train(config, tmp_path / "one")), untimed(tmp_path / "two")
    assert sum(line["groups/resampled"] for line in one) > 1
    for mine, other in zip(one, two, strict=True):
        for key in ("groups/resampled", "groups/zero_advantage", "reward/mean", "sampled_tokens", "return/target"):
            assert mine[key] == pytest.approx(other[key], rel=1e-6), key


@pytest.mark.parametrize(
    ("epochs", "prompts", "steps"), [(1, 2, 4), (2, 3, 6), (0.5, 8, 1), (0.3, 1, 3), (1, 8, 1), (1.1, 8, 2)]
)
def test_epochs_are_passes_over_the_tasks(epochs, prompts, steps):
    """Of 8 tasks; the last step is filled up."""
    register_toy()
    run = parse({"env": {"id": "lengths-v0"}, "train": {"epochs": epochs, "prompts_per_step": prompts, "steps": 77}})
    assert with_epochs(run).train.steps == steps
    seen = [task for step in range(1, steps + 1) for task in batch_of_tasks(list("abcdefgh"), prompts, 0, step)]
    assert len(set(seen)) == min(8, len(seen))
    assert len(seen) - prompts < epochs * 8 <= len(seen)


def test_without_epochs_the_steps_are_as_set():
    assert with_epochs(parse({})) == parse({})
    pairs = parse({"train": {"epochs": 1}, "algorithm": {"name": "madpo", "pairs": {"file": "pairs.jsonl"}}})
    with pytest.raises(ConfigError, match=r"this run trains on pairs: set train\.steps"):
        with_epochs(pairs)
