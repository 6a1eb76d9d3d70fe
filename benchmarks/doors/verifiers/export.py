"""Packages of verifiers, written to a folder."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import palaver
from palaver.benchmarks.doors.packages import write_new
from palaver.core import ConfigError
from palaver.envs.base.env import TextEnv
from palaver.registry import spec
from palaver.trainers.rollout.episodes import text_env

PY = ".py"
SETTINGS = (
    "id",
    "interception",
    "max_concurrent_agents",
    "retries",
    "taskset",
    "timeout",
)  # of verifiers' environments
MODULE = '''"""Taskset and environment of verifiers: `vf-eval $name` when this package is installed."""

from palaver.benchmarks.doors.verifiers.environment import make_environment

PalaverTaskset, PalaverEnv = make_environment($env, **$keywords)
__all__ = ["PalaverEnv", "PalaverTaskset"]
'''
PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "$name"
version = "$version"
requires-python = ">=3.11"
dependencies = ["palaver[verifiers]==$version"]

[tool.setuptools]
py-modules = ["$module"]
"""


def export_verifiers(id: str, folder: Path, keywords: Mapping[str, Any] | None = None) -> str:
    """Write a package with the taskset and the environment of verifiers.

    The environment is made once, so that a mistake shows.

    Args:
        id: environment.
        folder: of the package; it is made.
        keywords: of the environment.

    Returns:
        Name of the package, by which verifiers finds it.

    Raises:
        ConfigError: no such environment or keyword, an agent that cannot be a role, or a file exists.
        TaskError: the tasks cannot be read.
    """
    keywords = dict(keywords or {})
    env = text_env(id, keywords)
    name = re.sub(r"[^a-z0-9]+", "-", f"palaver-{spec(id).id.lower()}")
    role_names(env, spec(id).id)
    values = {"name": name, "module": name.replace("-", "_"), "version": palaver.__version__}
    source = {"env": repr(spec(id).id), "keywords": repr(keywords)}
    texts = {
        "pyproject.toml": Template(PROJECT).substitute(values),
        values["module"] + PY: Template(MODULE).substitute(values | source),
    }
    write_new(folder, texts)
    return name


def role_names(env: TextEnv, id: str) -> list[str]:
    """Names of the agents, each a role and so a setting of verifiers.

    Args:
        env: the environment.
        id: its id.

    Raises:
        ConfigError: an agent has tools, or a name that no setting can have.
    """
    for agent in env.possible_agents:
        if env.tools(agent):
            raise ConfigError(f"{agent} of {id} has tools, which verifiers' chat does not offer; leave the tools out")
        if not agent.isidentifier() or agent.startswith("_") or keyword.iskeyword(agent) or agent in SETTINGS:
            raise ConfigError(f"the agent {agent!r} of {id} cannot be a setting of verifiers; give it another name")
    return list(env.possible_agents)
