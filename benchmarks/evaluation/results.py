"""Result rows: one evaluation as a file to check, compare and show, next to its episodes.

`NAME.json` is the row, `NAME.jsonl.gz` its episodes, one JSON object a line. A hash covers the team and all settings,
so that two rows with the same hash are two measurements of the same quantity.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from palaver.agents.base.policy import Policy
from palaver.core import FORMAT, ConfigError, refuse_format
from palaver.episodes import Episode
from palaver.scoring import Cost
from palaver.text import first_fault
from palaver.utils.config import Section
from palaver.utils.run_folder import replace_bytes, replace_text, writing

Short = Annotated[str, Field(max_length=120)]
ROW, EPISODES = ".json", ".jsonl.gz"


class EpisodeFile(Section):
    """Episode file of a row: its name in the row's folder, SHA-256, and number of episodes."""

    file: str
    sha256: str
    n: int


class Answers(Section):
    """Number of answers, and of those with illegal content.

    With focal agents only theirs count. See `palaver.trainers.rollout.evaluation.answers`.
    """

    due: int
    illegal: int

    @property
    def share(self) -> float:
        """Fraction of illegal answers."""
        return self.illegal / max(1, self.due)


class Focal(Section):
    """Score of the focal agents over all seatings.

    `mean`, `low` and `high` are of the mean return of the focal agents, a task's seatings averaged first; `seatings`
    holds the focal agents of each seating, and `by_seating` the mean of each. If `silent` is given, the score is their
    return less that of the same agents when silent, of which `silent` is the mean.
    """

    seatings: tuple[tuple[str, ...], ...]
    mean: float
    low: float | None
    high: float | None
    by_seating: dict[str, float]
    silent: float | None = None


class Spent(Section):
    """Usage of remote policies: input and output tokens, US dollars, calls."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    dollars: float = 0.0
    calls: int = 0


class Submission(Section):
    """Author of a row, model of its team, number of its parameters, and the day."""

    submitter: Short = Field(min_length=1)
    model: Short = ""
    size: Short = ""
    date: Short = ""


class TeamEvaluation(Section):
    """Numbers of one evaluation, and the settings that they depend on.

    `mean`, `low` and `high` are the mean team return and its 95 % bootstrap interval over tasks; one task has no
    interval.

    Attributes:
        scenario: the scenario's name, "" for self-play.
        policies: agent -> policy, for the team of a run with the step of its checkpoint.
        weights: agent -> fingerprint of a model's weights.
        config: hash of all that fixes the result but the code; see `config_hash`.
        max_reward: upper bound of the return; None if unbounded, as with a reward model.
        focal: the score of the focal agents, where there are any.
        tokens: agent -> mean sampled tokens of an answer.
        passes: pass@1 and pass@k where the environment reports solved tasks.
        by_task: task -> mean team return of its episodes; the keys are the task split.
        unscored: number of episodes left out because they could not be scored.
        seconds: wall time of the episodes alone.
        cost: of remote policies.
        scoring: usage and failures of a judge or a reward model; empty without one.
        answers: number of illegal ones, of the focal agents where there are any; None in rows without it.
    """

    env: str
    scenario: str = ""
    keywords: dict[str, Any] = Field({})
    team: str
    policies: dict[str, str]
    weights: dict[str, str] = Field({})
    config: str
    seed: int
    samples: int
    sampling: dict[str, Any]
    mean: float
    low: float | None
    high: float | None
    n: int
    tasks: int
    max_reward: float | None
    focal: Focal | None = None
    components: dict[str, float]
    metrics: dict[str, float]
    tokens: dict[str, float]
    passes: dict[str, float]
    by_task: dict[str, float]
    unscored: int
    seconds: float
    cost: Spent | None = None
    scoring: dict[str, float] = Field({})
    answers: Answers | None = None


class EvaluationOutcome(TeamEvaluation):
    """Result of an evaluation, before it has a label, with the versions of its making."""

    model_config = ConfigDict(allow_inf_nan=True)

    max_reward: float
    provenance: dict[str, Any]


class EvaluationResult(TeamEvaluation):
    """One evaluation as a row.

    Attributes:
        label: its name in tables, as `reference`.
        version: of the environment: increased by any change of its texts, rewards or dynamics; 0 if its id has none.
        commit: of Palaver's checkout; a `+` after it says that files differed.
        wheel: version and hash of an installed wheel, in place of a commit; "" for a checkout.
        parent: name and hash of the episodes of the row that this one rescores, "" for none.
        submission: its author; None for a row of this project.
    """

    format: Literal[2] = FORMAT
    label: str
    version: int
    commit: str
    made_with: dict[str, Any]
    date: str
    episodes: EpisodeFile
    wheel: str = ""
    parent: str = ""
    submission: Submission | None = None

    @property
    def name(self) -> str:
        """Stem of its files: the scenario or environment, and the label."""
        return row_name(self.scenario or self.env, self.label)


def row_name(what: str, label: str) -> str:
    """A file name from any two texts.

    >>> row_name("arxiv-v0", "trained, seed 1")
    'arxiv-v0--trained-seed-1'
    """
    return "--".join(re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:80] or "row" for text in (what, label))


def config_hash(**facts: Any) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the facts as JSON with sorted keys.

    >>> config_hash(a=1, b=2) == config_hash(b=2, a=1) != config_hash(a=1, b=3)
    True
    """
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def finite(value: float) -> float | None:
    """Return the number, None if it is infinite."""
    return value if math.isfinite(value) else None


def store(folder: Path, name: str, episodes: Sequence[Episode]) -> EpisodeFile:
    """Write the episodes of a row; equal episodes give equal bytes.

    Raises:
        ConfigError: the folder or the file cannot be written.
    """
    text = "".join(json.dumps(episode.to_dict()) + "\n" for episode in episodes).encode("utf-8")
    path = folder / f"{name}{EPISODES}"
    with writing(folder):
        replace_bytes(path, gzip.compress(text, mtime=0))
    return EpisodeFile(file=path.name, sha256=hashlib.sha256(text).hexdigest(), n=len(episodes))


def write_row(
    values: Mapping[str, Any], env: str, episodes: Sequence[Episode], label: str, folder: Path
) -> EvaluationResult:
    """Write a row and its episodes into a folder; returns the row as it is read from its file.

    Args:
        values: of its fields but those of the making.
        env: id of the environment, which ends with its version.
        episodes: of the row.
        label: its name in tables.
        folder: for both files.

    Raises:
        ConfigError: something cannot be written.
    """
    version = env.rpartition("-v")[2]
    record = {
        **values,
        "label": label,
        "version": int(version) if version.isdecimal() else 0,
        "commit": values["made_with"]["commit"],
        "wheel": values["made_with"].get("wheel", ""),
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "episodes": store(folder, row_name(values["scenario"] or values["env"], label), episodes).model_dump(),
    }
    row = parse({"format": FORMAT, **json.loads(json.dumps(record, default=str))}, "the result")
    _write(row, folder)
    return row


def write(row: EvaluationResult, episodes: Sequence[Episode], folder: Path) -> Path:
    """Write a row that was read, and its episodes; returns the path of the row.

    Raises:
        ConfigError: something cannot be written.
    """
    return _write(row.model_copy(update={"episodes": store(folder, row.name, episodes)}), folder)


def _write(row: EvaluationResult, folder: Path) -> Path:
    path = folder / f"{row.name}{ROW}"
    with writing(folder):
        replace_text(path, json.dumps(row.model_dump(mode="json"), indent=1) + "\n")
    return path


def parse(record: object, where: str) -> EvaluationResult:
    """A row from plain data.

    Raises:
        CheckpointError: it has another format.
        ConfigError: it is none; the first field that does not fit is named.
    """
    if isinstance(record, Mapping):
        refuse_format(record, where)
    try:
        return EvaluationResult.model_validate(record)
    except ValidationError as error:
        raise ConfigError(f"{where}: {first_fault(error, 'the row').lower()}") from error


def read_record(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        ConfigError: there is no such file, or it holds no JSON object.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{str(path)!r} holds no JSON") from error
    if not isinstance(record, dict):
        raise ConfigError(f"{str(path)!r} holds no result row")
    return record


def load(path: Path) -> EvaluationResult:
    """The row in a file.

    Raises:
        ConfigError: there is no such file, or it holds no row.
    """
    return parse(read_record(path), path.name)


def read_episodes(path: Path) -> tuple[list[Episode], str]:
    """The episodes of a JSON-lines file, packed by gzip or not, and the SHA-256 of the lines.

    Raises:
        ConfigError: there is no such file, or a line of it is no episode.
    """
    try:
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"cannot read the episodes {str(path)!r}: {error}") from error
    return list(_episodes(text, path)), hashlib.sha256(text).hexdigest()


def _episodes(text: bytes, path: Path) -> Iterator[Episode]:
    for line_index, line in enumerate(text.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            yield Episode.from_dict(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ConfigError(f"{str(path)!r}, line {line_index}: this is no episode") from error


def spent_by(policies: Mapping[str, object]) -> Spent | None:
    """Total usage of the policies that have `spent()`, each counted once; None if none has it."""
    methods = {id(policy): getattr(policy, "spent", None) for policy in policies.values()}
    costs: list[Cost] = [spent() for spent in methods.values() if callable(spent)]
    return Spent(**asdict(sum(costs[1:], start=costs[0]))) if costs else None


def fingerprint(policy: Policy) -> str:
    """First 16 hexadecimal digits of the SHA-256 of the trainable weights (shapes, fp32 values).

    For a LoRA policy those of the adapter; "" for a policy without weights, as a scripted or a remote one.
    """
    parameters = getattr(policy, "parameters", None)
    if parameters is None:
        return ""
    import torch

    digest = hashlib.sha256()
    for parameter in parameters():
        digest.update(repr(tuple(parameter.shape)).encode())
        digest.update(parameter.detach().to("cpu", torch.float32).contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
