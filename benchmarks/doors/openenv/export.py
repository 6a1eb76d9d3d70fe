"""Packages of OpenEnv, written to a folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import yaml

import palaver
from palaver.benchmarks.doors.packages import write_new
from palaver.benchmarks.doors.partners import DEFAULT_PARTNERS, make_partners
from palaver.benchmarks.reports.summary import most_possible
from palaver.registry import spec
from palaver.trainers.rollout.episodes import text_env

PY = ".py"
UNBOUNDED = 1e6  # of an environment that declares no largest return
APP = '''"""OpenEnv server: `uvicorn server.app:app --port 8000` in the folder above."""

from palaver.benchmarks.doors.openenv.server import make_app

app = make_app($env, agent=$agent, partners=$partners, **$keywords)
'''
MODELS = '''"""Actions and observations of the server."""

from palaver.benchmarks.doors.openenv.server import $models

__all__ = $names
'''
CLIENT = '''"""Client of the server."""

from openenv.core.generic_client import GenericEnvClient

__all__ = ["GenericEnvClient"]
'''
DOCKERFILE = """FROM python:3.11-slim
WORKDIR /app
COPY . /app
RUN pip install --no-cache-dir .
EXPOSE 8000
CMD ["uvicorn", "server.app:app", "--host", "0.0.0.0", "--port", "8000"]
"""
PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "openenv-$name"
version = "$version"
requires-python = ">=3.11"
dependencies = ["palaver[openenv]==$version"]

[tool.setuptools]
packages = []
"""


def export_openenv(
    id: str,
    folder: Path,
    agent: str = "",
    partners: str = DEFAULT_PARTNERS,
    keywords: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Write a package with the server of an environment.

    The environment and the partners are made once, so that a mistake shows.

    Args:
        id: environment.
        folder: of the package; it is made.
        agent: the agent that clients play; "" for all.
        partners: policies of the others.
        keywords: of the environment.

    Returns:
        Paths of the files.

    Raises:
        ConfigError: no such environment, agent or keyword, or a file exists.
        PolicyError: a partner that does not exist.
        TaskError: the tasks cannot be read.
    """
    keywords = dict(keywords or {})
    env = text_env(id, keywords)
    if agent:
        make_partners(env, spec(id), agent, partners)
    name = f"palaver-{spec(id).id}{'-' * bool(agent)}{agent}".replace("/", "-").replace(":", "-").lower()
    models = ["AgentAction", "AgentObservation"] if agent else ["TeamAction", "TeamObservation"]
    values = {"env": spec(id).id, "agent": agent, "partners": partners, "keywords": keywords}
    source = {key: repr(value) for key, value in values.items()}
    version = palaver.__version__
    texts = {
        "openenv.yaml": yaml.safe_dump(_manifest(name, version, most_possible(env, spec(id))), sort_keys=False),
        "__init__.py": "",
        f"models{PY}": Template(MODELS).substitute(models=", ".join(models), names=repr(models).replace("'", '"')),
        f"client{PY}": CLIENT,
        "pyproject.toml": Template(PROJECT).substitute(name=name, version=version),
        "server/__init__.py": "",
        "server/app.py": Template(APP).substitute(source),
        "server/Dockerfile": DOCKERFILE,
    }
    return write_new(folder, texts)


def _manifest(name: str, version: str, most: float) -> dict[str, Any]:
    """OpenEnv's description; the range of rewards is the largest return, to both sides."""
    bound = float(most) if 0 < most < math.inf else UNBOUNDED
    return {
        "spec_version": 1,
        "name": name,
        "version": version,
        "type": "space",
        "runtime": "fastapi",
        "app": "server.app:app",
        "port": 8000,
        "validation": {
            "reward": {"range": [-bound, bound], "oracle_tolerance": 0.0, "floor_margin": 0.1},
            "resources": {"cpu": 1.0, "memory_mb": 2048, "disk_mb": 2048, "episode_timeout_s": 600.0},
            "capabilities": {"verifier": {"kind": "reward_channel"}},
            "types": {"tags": ["text", "multi-agent"]},
        },
    }
