"""Parsing of command arguments: `key=value` pairs, teams and tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from palaver.core import ConfigError, TaskError, did_you_mean
from palaver.envs.base.env import TextEnv

_PAIR = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*=.*", re.DOTALL)


def check_pairs(pairs: Sequence[str]) -> None:
    """Refuse arguments other than `key=value` or `key.sub=value`.

    Raises:
        ConfigError: the first one that is not.
    """
    for pair in pairs:
        if not _PAIR.fullmatch(pair):
            raise ConfigError(f"write key=value, or key.sub=value; got {pair!r}")


def keywords(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse `key=value` pairs as keyword arguments.

    A value is YAML, so `length=[32,64]` is a list.

    Raises:
        ConfigError: an item that is not such a pair, or a value that is not YAML.
    """
    check_pairs(pairs)
    try:
        values = OmegaConf.to_container(OmegaConf.from_dotlist(list(pairs)), resolve=True)
    except (OmegaConfBaseException, YAMLError, ValueError) as error:
        raise ConfigError(f"cannot read {' '.join(pairs)!r}: {' '.join(str(error).split())}") from error
    return cast("dict[str, Any]", values)


def merged(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Update `base` by `given`, recursively where both hold a mapping.

    >>> merged({"weights": {"a": 1, "b": 1}, "n": 1}, {"weights": {"b": 2}})
    {'weights': {'a': 1, 'b': 2}, 'n': 1}
    """
    both = {
        key: {**base[key], **value}
        for key, value in given.items()
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
    }
    return {**base, **given, **both}


def choose_task(env: TextEnv, wanted: str | None, seed: int) -> str:
    """Return the id of a task given by id or index, or by the seed if none is given.

    Raises:
        TaskError: there is no such task.
    """
    ids = [task.id for task in env.tasks]
    if wanted is None:
        return ids[seed % len(ids)]
    if wanted in ids:
        return wanted
    if wanted.isdecimal() and int(wanted) < len(ids):
        return ids[int(wanted)]
    hint = did_you_mean(wanted, ids) if len(ids) <= 200 else ""
    raise TaskError(
        f"there is no task {wanted!r} among the {len(ids)} of {env.source or 'this environment'}.{hint[:120]}"
    )
