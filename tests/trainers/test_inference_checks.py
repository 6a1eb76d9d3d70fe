"""Settings that select by the reward of one turn are refused where agents are asked."""

from __future__ import annotations

import pytest

from palaver.core import ConfigError
from palaver.trainers.config.loading import load
from palaver.trainers.train import prepare


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["algorithm.turns=best", "algorithm.discount=0"], "continue the best guesser"),
        (["algorithm.stop_above=0.5"], "algorithm.stop_above would compare"),
    ],
)
def test_selection_by_turn_is_refused(changes, message):
    asked = ["env.infer=after", "algorithm.turns=tree"]
    with pytest.raises(ConfigError, match=message):
        prepare(load("build-magrpo", [*asked, *changes]))
    prepare(load("build-magrpo", asked))
