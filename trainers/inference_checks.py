"""Checks for environments whose agents are asked about each other."""

from __future__ import annotations

from palaver.core import refuse
from palaver.envs.base.env import TextEnv
from palaver.envs.base.inference_wrapper import InferenceWrapper
from palaver.trainers.config.run import RunConfig


def refuse_selection(config: RunConfig, env: TextEnv) -> None:
    """Refuse settings that select siblings by the reward of a turn: guesses have another.

    Raises:
        ConfigError: the run selects so, or learns values of listed actions, and its agents are asked.
    """
    if not isinstance(env, InferenceWrapper):
        return
    a, why = config.algorithm, "env.infer adds turns whose reward is that of guesses"
    refuse(
        [
            (
                a.turns in ("best", "by_agent"),
                f"{why}, and algorithm.turns={a.turns} would continue the best guesser: set algorithm.turns=tree or "
                "independent",
            ),
            (a.stop_above is not None, f"{why}, which algorithm.stop_above would compare too: set it to null"),
            (
                a.mixer.actions == "legal",
                f"{why}, and not all of their answers are listed: set algorithm.mixer.actions=sentences",
            ),
        ]
    )
