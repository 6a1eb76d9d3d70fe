"""Scripts that train an agent with TRL, written to a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

from palaver.benchmarks.doors.partners import DEFAULT_PARTNERS, make_partners
from palaver.core import ConfigError
from palaver.registry import spec
from palaver.trainers.rollout.episodes import text_env

SCRIPTS = ("train.py", "train_with_tools.py")


def export_trl(
    id: str, agent: str, folder: Path, partners: str = DEFAULT_PARTNERS, keywords: Mapping[str, Any] | None = None
) -> list[Path]:
    """Write the scripts.

    The environment and the partners are made once, so that a mistake shows.

    Args:
        id: environment.
        agent: the agent that is trained.
        folder: of the scripts; it is made.
        partners: policies of the others.
        keywords: of the environment.

    Returns:
        Paths of the scripts.

    Raises:
        ConfigError: no such environment, agent or keyword, or a script exists.
        PolicyError: a partner that does not exist.
        TaskError: the tasks cannot be read.
    """
    keywords = dict(keywords or {})
    make_partners(text_env(id, keywords), spec(id), agent, partners)
    paths = [folder / name for name in SCRIPTS]
    if taken := [path for path in paths if path.exists()]:
        raise ConfigError(f"{str(taken[0])!r} exists; name another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    values = {"env": spec(id).id, "agent": agent, "partners": partners, "keywords": keywords}
    for path in paths:
        source = Path(__file__).with_name(f"{path.name}.txt").read_text(encoding="utf-8")
        path.write_text(Template(source).substitute({name: repr(v) for name, v in values.items()}), encoding="utf-8")
    return paths
