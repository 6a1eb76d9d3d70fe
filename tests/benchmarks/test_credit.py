"""Credit diagnostics: messages replayed in their contexts, against games whose answers are known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from palaver.agents.make_policy import make_policy
from palaver.benchmarks.evaluation.credit import (
    Credit,
    Effort,
    SampledTeam,
    measure,
    mutual_information,
    rank_correlation,
)
from palaver.core import Sampling
from palaver.envs.base.env import StepResult
from palaver.trainers.algorithms.base import algorithm
from palaver.trainers.config.run import AlgorithmConfig
from palaver.trainers.rollout.batch import add_advantages, make_batch
from palaver.trainers.rollout.episodes import SamplingPlan, play_out, rollout
from palaver.trainers.rollout.replays import rebuilt
from tests.trainers.test_candidates import Additive, worth
from tests.trainers.toys import SEATS, Lengths

SAMPLING = dict.fromkeys(SEATS, Sampling(max_tokens=4))


def diagnosed(env: Any, name: str, effort: Effort, width: int = 16, **policies: str) -> Credit:
    """Of one task, with random policies but for those that are named."""
    row, config = algorithm(name), AlgorithmConfig.model_validate({"name": name, "group_size": width})
    team = {seat: make_policy(policies.get(seat, "random")) for seat in SEATS}
    episodes = rollout(env, team, ["t0"], SamplingPlan(width, turns=config.turns), sampling=SAMPLING, seed=1)
    table = add_advantages(make_batch(episodes), row, config)
    return measure(table, episodes, SampledTeam(env, dict(team), SAMPLING, row, config.discount), effort)


def test_fidelity_in_an_additive_game():
    """r = x_1 + x_2 for both: C3's advantage is the own part; MARLOO's holds the partner's, correlation 1/sqrt 2.

    Q of 32 replays has a noise of 1/sqrt 32 of the spread of a message: the correlation of C3 is about .98.
    """
    effort = Effort(contexts=2, alternatives=4, replays=32)
    ours = diagnosed(Additive(split=False), "c3", effort, width=24)
    theirs = diagnosed(Additive(split=False), "marloo", effort, width=24)
    assert (ours.fidelity or 0.0) > 0.95
    assert 0.4 < (theirs.fidelity or 0.0) < 0.9
    assert (ours.rows, ours.contexts, ours.replays) == (48, 2, 2 * (24 + 4) * 32)
    assert ours.variance < theirs.variance
    assert ours.influence == theirs.influence == 0.0, "nobody speaks later"


class Told(Lengths):
    """Two turns; after the first each agent hears what the other said, or nothing."""

    def __init__(self, deaf: bool = False) -> None:
        super().__init__(turns=2)
        self.deaf = deaf

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        heard = {"a": actions["b"], "b": actions["a"]}
        return StepResult(
            {seat: {"own": worth(text)} for seat, text in actions.items()},
            dict.fromkeys(heard, "nothing") if self.deaf else heard, terminated=self.turn == 1,
        )  # fmt: skip


def test_influence_is_the_entropy_of_a_message_that_is_repeated():
    """b repeats what it hears: I = H(message) = log 8 for eight messages of a in turn 0, and 0 in the other contexts.

    Deaf, b always says the same, and what a says depends on nothing that it hears.
    """
    effort = Effort(contexts=4, alternatives=8, replays=3)
    found = diagnosed(Told(), "c3", effort, b="echo")
    assert found.contexts == 4
    assert found.influence == pytest.approx(math.log(8) / 4)
    assert 0 < found.chance < found.influence
    assert diagnosed(Told(deaf=True), "c3", effort, b="echo").influence == 0.0


def test_replays_differ_in_every_turn_and_are_those_of_every_message():
    env, team = Lengths(turns=3), {seat: make_policy("random") for seat in SEATS}
    (episode,) = rollout(env, team, ["t0"], SamplingPlan(), sampling=SAMPLING, seed=1)
    before = rebuilt(env, episode, 1)
    texts = [replace(episode.turns[1].completions["a"], text=text) for text in ("one", "two")]
    names = [f"replay {n}" for _ in texts for n in range(3)]
    ends = play_out(
        [replace(before, env=before.env.fork(), seeds=name) for name in names],
        [{"a": text} for text in texts for _ in range(3)], team, sampling=SAMPLING, seed=0,
    )  # fmt: skip
    assert {end.turns[0].node for end in ends} == {episode.turns[0].node}
    said = [[turn.completions[seat].text for turn in end.turns[1:] for seat in SEATS] for end in ends]
    assert [each[0] for each in said] == ["one"] * 3 + ["two"] * 3
    for place in (1, 2, 3):
        assert len({each[place] for each in said[:3]}) == 3, "three replays, three draws"
        assert [each[place] for each in said[:3]] == [each[place] for each in said[3:]], "the same for both messages"


def test_estimates_by_hand():
    assert mutual_information([("x", 0)] * 3) == 0.0
    # p(x, 0) = 1/2, p(x, 1) = p(y, 1) = 1/4: I = .5 ln(.5/(.75 .5)) + .25 ln(.25/(.75 .5)) + .25 ln(.25/(.25 .5))
    by_hand = 0.5 * math.log(4 / 3) + 0.25 * math.log(2 / 3) + 0.25 * math.log(2)
    assert mutual_information([("x", 0), ("x", 0), ("x", 1), ("y", 1)]) == pytest.approx(by_hand)
    assert rank_correlation([1.0, 2.0, 3.0, 4.0], [1.0, 9.0, 4.0, 16.0]) == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert rank_correlation([1.0, 1.0], [0.0, 1.0]) is None
