"""Files of the folder of a training run: names, initial config, status."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palaver.core import FORMAT, CheckpointError, ConfigError, refuse_format
from palaver.trainers.config.loading import parse
from palaver.trainers.config.run import RunConfig
from palaver.utils.config import dump
from palaver.utils.run_folder import read_record, replace_text

CONFIG = "config.yaml"
METRICS = "metrics.jsonl"
STATUS = "status.json"
LAUNCH = "launch.json"
RUN = "run.json"
RUNS = Path("runs")  # of the working folder, with the folders of runs that were given no other


def fresh(stem: str) -> Path:
    """Return an unused folder in `RUNS`, named by `stem` as file systems allow and by the time."""
    base = f"{re.sub(r'[^A-Za-z0-9._+-]+', '-', stem)}-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (base if n == 1 else f"{base}-{n}" for n in range(1, 1000))
    return next(RUNS / name for name in names if not (RUNS / name).exists())


def refuse_no_run(folder: Path) -> None:
    """Refuse a folder without a run.

    Raises:
        CheckpointError: it has no config.
    """
    if not (folder / CONFIG).is_file():
        raise CheckpointError(f"there is no run in {str(folder)!r}: it has no {CONFIG}")


def ended(folder: Path) -> bool:
    """Return whether the run in a folder is done; False if its status is not known."""
    return read_record(folder / STATUS).get("status") == "done"


def begin(folder: Path, config: RunConfig) -> None:
    """Write the config, as a readable file and as the record of the run's initial values.

    Raises:
        OSError: they cannot be written.
    """
    record = {"format": FORMAT, "config": config.model_dump(mode="json")}
    replace_text(folder / RUN, json.dumps(record, indent=1) + "\n")
    replace_text(folder / CONFIG, config_text(config))


def config_text(config: RunConfig) -> str:
    """Return the contents of `config.yaml`."""
    return f"format: {FORMAT}\n{dump(config)}"


def refuse_edited(folder: Path, config: RunConfig) -> None:
    """Refuse to resume a run whose `config.yaml`, read as `config`, was changed since it began.

    Raises:
        CheckpointError: the initial values are not known, or the folder has another format.
        ConfigError: a value differs; all that do are named.
    """
    path = folder / RUN
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        values = record["config"]
        refuse_format(record, f"the run folder {str(folder)!r}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{str(path)!r} is missing or damaged, so it is not known what the run began with; start a new one: "
            f"palaver train {folder / CONFIG} --out NEW"
        ) from error
    before, now = (_leaves(settings.model_dump(mode="json")) for settings in (parse(values), config))
    changed = [
        f"{key}: {before.get(key)!r} -> {now.get(key)!r}" for key in now | before if before.get(key) != now.get(key)
    ]
    if changed:
        raise ConfigError(
            f"{str(folder / CONFIG)!r} was edited after the run began ({'; '.join(changed)}): a resumed run keeps its "
            f"config. Set it back, or start a new run with it: palaver train {folder / CONFIG} --out NEW"
        )


def _leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted keys."""
    leaves: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            leaves |= _leaves(value, f"{prefix}{name}.")
        else:
            leaves[f"{prefix}{name}"] = value
    return leaves
