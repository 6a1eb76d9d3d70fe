"""Rows of others: a row with its author, and its verification by replaying its episodes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from palaver.benchmarks.evaluation import results as rows
from palaver.benchmarks.evaluation.rescore import rescore, source
from palaver.benchmarks.evaluation.results import Submission
from palaver.benchmarks.leaderboard.read import VerifiedRow, trusted
from palaver.core import ConfigError, PalaverError
from palaver.envs.base.reward_wrapper import parse_reward
from palaver.utils.config import validated


def submit(row: Path, out: Path, *, submitter: str, model: str, size: str) -> Path:
    """Write a row with its author, next to its episodes, into a folder; returns its path.

    Args:
        row: file of the row, as `palaver evaluate --row` wrote it.
        out: folder, in which a row of the same name is replaced.
        submitter: name or address of the author.
        model: what the team is made of.
        size: number of its parameters, as text.

    Raises:
        ConfigError: it is no row, would be refused, or cannot be written.
    """
    checked = trusted(row).row
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    given = {"submitter": submitter.strip(), "model": model.strip(), "size": size.strip(), "date": date}
    submission = validated(Submission, given)
    episodes, _ = rows.read_episodes(row.with_name(checked.episodes.file))
    return rows.write(checked.model_copy(update={"submission": submission}), episodes, out)


def verify(path: Path) -> tuple[VerifiedRow, str]:
    """Check a row, and replay its recorded answers; returns the row and what was replayed.

    The team is never loaded or run, and code that the row names is not loaded: its environment must ship with Palaver
    or be installed.

    Raises:
        ConfigError: the row would be refused, its environment is not installed, or a replay gives other rewards.
    """
    checked = trusted(path)
    reward = checked.row.keywords.get("reward")
    if reward is not None and parse_reward(reward) is not None:
        return checked, f"not replayed: the reward {str(reward)!r:.80} is a model's"
    stored = source(path)
    try:
        result, _ = rescore(stored, checked.row.keywords)
    except PalaverError as error:
        raise ConfigError(f"its episodes cannot be replayed: {error}") from error
    if result.changed or result.reobserved or result.ended:
        raise ConfigError(
            f"a replay of its {len(stored.episodes)} episodes differs from them: other rewards in {result.changed}, "
            f"other observations in {result.reobserved}, another end in {result.ended}"
        )
    return checked, f"{result.n} episodes replayed, with the rewards that it states"
