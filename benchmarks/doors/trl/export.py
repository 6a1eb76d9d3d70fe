"""Scripts that train an agent with TRL, written to a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

from palaver.benchmarks.doors.packages import write_new
from palaver.benchmarks.doors.partners import DEFAULT_PARTNERS, make_partners
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
    values = {"env": spec(id).id, "agent": agent, "partners": partners, "keywords": keywords}
    source = {name: repr(value) for name, value in values.items()}
    scripts = {name: Path(__file__).with_name(f"{name}.txt").read_text(encoding="utf-8") for name in SCRIPTS}
    return write_new(folder, {name: Template(script).substitute(source) for name, script in scripts.items()})
