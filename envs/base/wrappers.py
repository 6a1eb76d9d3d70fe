"""Environments inside of wrappers, and the wrapper of the keyword `infer`."""

from __future__ import annotations

from palaver.core import ConfigError
from palaver.envs.base.env import TextEnv
from palaver.envs.base.infer_spec import parse_infer
from palaver.envs.base.inference_wrapper import InferenceWrapper
from palaver.envs.base.reward_wrapper import RewardWrapper


def own_env(env: TextEnv) -> TextEnv:
    """The environment itself, without the wrappers of questions and rewards."""
    while isinstance(env, InferenceWrapper | RewardWrapper):
        env = env.inner
    return env


def rewarded(env: TextEnv) -> RewardWrapper | None:
    """The environment with its judge or reward model, inside of questions; None without one."""
    env = env.inner if isinstance(env, InferenceWrapper) else env
    return env if isinstance(env, RewardWrapper) else None


def with_questions(env: object, value: object, turns: int = 1) -> object:
    """The environment with the questions of the keyword `infer`.

    Raises:
        ConfigError: it is no `TextEnv`, has no questions, or a setting does not fit.
    """
    infer = parse_infer(value)
    if infer is None:
        return env
    if not isinstance(env, TextEnv):
        raise ConfigError("infer needs a palaver.envs.base.env.TextEnv, which knows what its agents hold")
    return InferenceWrapper(env, infer, turns)
