"""The published reward, level by level, with numbers worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest

from palaver.core import ConfigError
from palaver.envs.code.base import max_episode_return
from palaver.envs.code.reward import WEIGHTS, CodeRewardConfig, ProgramFacts, score

BEST = ProgramFacts(
    formatted=True, aux_defined=True, main_defined=True, aux_parses=True, main_parses=True, parses=True, passed=5,
    total=5, timeouts=0, calls_aux=True, wrapper=False, ignores_aux=False,
)  # fmt: skip


def rubric(weights=WEIGHTS, scale=1.0, shift=0.0, entry_format=False):
    return CodeRewardConfig(weights, scale, shift, entry_format)


@pytest.mark.parametrize(
    ("changes", "paid"),
    [
        ({}, 4.0),
        ({"wrapper": True}, 3.0),
        ({"ignores_aux": True}, 3.5),
        ({"wrapper": True, "ignores_aux": True}, 2.5),
        ({"calls_aux": False}, 2.5),
        ({"passed": 2}, 3.4),
        ({"passed": 2, "wrapper": True}, 2.4),
        ({"passed": 0}, 1.5),
        ({"passed": 0, "ignores_aux": True}, 1.5),
        ({"parses": False}, 1.0),
        ({"main_defined": False}, 0.4),
        ({"aux_defined": False}, 3.6),
        ({"aux_defined": False, "calls_aux": False}, 2.1),
        ({"aux_defined": False, "calls_aux": False, "passed": 1}, 1.3),
        ({"aux_defined": False, "main_defined": False}, 0.0),
    ],
)
def test_the_levels(changes, paid):
    parts = score(rubric(), dataclasses.replace(BEST, **changes))
    assert set(parts) == set(WEIGHTS)
    assert sum(parts.values()) == pytest.approx(paid, abs=1e-12)


def test_the_components_of_the_best_and_of_a_wrapper():
    assert score(rubric(), BEST) == {
        "aux_defined": 0.4, "main_defined": 0.6, "syntax": 0.5, "tests": 1.0, "calls_aux": 0.5, "no_wrapper": 1.0,
        "ignores_aux": 0.0,
    }  # fmt: skip
    assert score(rubric(), dataclasses.replace(BEST, ignores_aux=True))["ignores_aux"] == -0.5


def test_scale_and_shift():
    parts = score(rubric(scale=0.5, shift=-4.0), dataclasses.replace(BEST, passed=2))
    assert parts["tests"] == pytest.approx(0.2)
    assert parts["shift"] == -4.0
    assert sum(parts.values()) == pytest.approx(0.5 * 3.4 - 4.0)
    assert rubric(scale=0.5, shift=-4.0).max_reward == pytest.approx(-2.0)
    assert rubric().max_reward == 4.0


def test_the_format_gate():
    gated = rubric(entry_format=True)
    assert gated.max_reward == 4.5
    assert sum(score(gated, BEST).values()) == 4.5
    loose = score(gated, dataclasses.replace(BEST, formatted=False))
    assert set(loose.values()) == {0.0}
    assert set(loose) == {*WEIGHTS, "format"}


def test_own_weights():
    parts = score(rubric(weights={"tests": 3.0, "ignores_aux": 0.0}), dataclasses.replace(BEST, ignores_aux=True))
    assert (parts["tests"], parts["ignores_aux"], parts["calls_aux"]) == (3.0, 0.0, 0.5)
    assert rubric(weights={"tests": 3.0}).max_reward == 6.0


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"weights": {"test": 1}}, "weights has no component 'test'. Did you mean 'tests'?"),
        ({"weights": {"tests": "1"}}, "weights.tests must be a number"),
        ({"weights": 3}, "weights must map components to numbers"),
        ({"scale": 0}, "scale must be above 0"),
        ({"shift": float("nan")}, "shift must be between"),
        ({"entry_format": 1}, "entry_format must be true or false"),
    ],
)
def test_bad_constants(kwargs, message):
    with pytest.raises(ConfigError, match="^" + message.replace("?", r"\?")):
        rubric(**kwargs)


@pytest.mark.parametrize(
    ("turn", "turns", "stop_above", "expected"),
    [(4, 2, None, 8), (4, 3, None, 12), (4, 2, 3.8, 7.8), (4, 2, 9, 8), (0, 2, -0.2, 0), (0, 2, None, 0), (4, 1, 1, 4)],
)
def test_the_most_that_an_episode_pays(turn, turns, stop_above, expected):
    assert max_episode_return(turn, turns, stop_above) == pytest.approx(expected)
