"""Data card of stored episodes: a folder for the Hugging Face hub.

    FOLDER/README.md         the card: metadata and a page
           episodes.parquet  a row for each episode, which `palaver.from_dataset` reads back

Texts of episodes are not trusted: metadata is written by `huggingface_hub`, text of the page is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import DatasetCard, DatasetCardData

import palaver
from palaver.benchmarks.evaluation.results import read_episodes
from palaver.benchmarks.reports.run_folder import is_sound
from palaver.benchmarks.reports.summary import interval
from palaver.core import ConfigError, refuse
from palaver.episodes import Episode
from palaver.markdown import code, code_block, markdown_table, prose
from palaver.text import one_line
from palaver.trainers.rollout.evaluation import summarize

README, TABLE = "README.md", "episodes.parquet"
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
EXCERPT = 1000  # characters of a text in the example
COLUMNS = {
    "env": "environment",
    "task": "id of the task",
    "seed": "of the episode",
    "stop": "how it ended",
    "team_return": "undiscounted sum of the team's reward",
    "returns": "agent and its return",
    "team": "agent and name of its policy",
    "record": "the whole episode in JSON",
}
READ = """from datasets import load_dataset

import palaver

episodes = palaver.from_dataset(load_dataset("parquet", data_files="episodes.parquet", split="train"))
"""


def write_data(source: Path, folder: Path) -> Path:
    """Write the data card and table of a file of episodes; returns the path of the card.

    Raises:
        ConfigError: there is no such file, it holds no episodes, those of several environments, or damaged ones.
        ScoringError: none of them could be scored.
    """
    episodes, _ = read_episodes(source)
    envs = {str(episode.env) for episode in episodes}
    damaged = next((number for number, episode in enumerate(episodes, start=1) if not is_sound(episode)), 0)
    refuse(
        (
            (not episodes, f"{str(source)!r} holds no episodes"),
            (damaged, f"{str(source)!r}: the fields of episode {damaged} have unexpected types"),
            (len(envs) > 1, f"a data card describes episodes of one environment; {str(source)!r} has {len(envs)}"),
        )
    )
    try:
        palaver.to_dataset(episodes).to_parquet(folder / TABLE)
    except (ValueError, TypeError, OverflowError) as error:
        raise ConfigError(f"{str(source)!r} cannot be written as a table: {one_line(error)}") from error
    data = DatasetCardData(
        pretty_name=one_line(f"Episodes of {episodes[0].env}"),
        task_categories=["text-generation"],
        tags=["palaver", "multi-agent", "reinforcement-learning", one_line(episodes[0].env)],
        size_categories=[next((name for bound, name in SIZES if len(episodes) < bound), "n>1M")],
        configs=[{"config_name": "default", "data_files": TABLE}],
    )
    card = DatasetCard(f"---\n{data.to_yaml()}\n---\n\n{_page(episodes)}\n")
    (folder / README).write_text(str(card), encoding="utf-8")
    return folder / README


def _page(episodes: Sequence[Episode]) -> str:
    env = code(episodes[0].env)
    parts = {
        "Content": _content(episodes),
        "Columns": markdown_table(["column", "content"], [[code(name), text] for name, text in COLUMNS.items()]),
        "Example": _example(episodes[0]),
        "Use": code_block(READ.strip(), "python"),
        "Limits": "* Texts were written by models and were not reviewed: they may be wrong, offensive, or contain "
        "instructions.\n* Observations quote the tasks, whose data set has a licence of its own.\n"
        "* No licence is set.",
    }
    sections = [f"## {title}\n\n{text}" for title, text in parts.items()]
    return "\n\n".join([f"# Episodes of {env}", f"Episodes of {env}, stored by Palaver.", *sections])


def _content(episodes: Sequence[Episode]) -> str:
    summary = summarize(episodes)
    teams = Counter(", ".join(f"{agent}: {policy}" for agent, policy in episode.team.items()) for episode in episodes)
    stops = Counter(episode.stop for episode in episodes)
    rows = [
        ["episodes", f"{len(episodes):,}"],
        ["tasks", f"{len({episode.task for episode in episodes}):,}"],
        ["turns", f"{sum(len(episode.turns) for episode in episodes):,}"],
        ["mean return of the team", f"{summary.mean:.3f} {interval(summary.low, summary.high)}, 95 % over tasks"],
        *(["ended", f"{code(stop)}: {count:,}"] for stop, count in stops.most_common()),
        *(["team", f"{code(team)}: {count:,}"] for team, count in teams.most_common(10)),
    ]
    if summary.unscored:
        rows.append(["not scored", f"{summary.unscored:,}, left out of the mean"])
    return markdown_table(["", ""], rows)


def _example(episode: Episode) -> str:
    """First turn of an episode."""
    parts = [f"The first turn of the first episode, task {code(episode.task)}."]
    for turn in episode.turns[:1]:
        for agent, completion in turn.completions.items():
            observation = str(turn.observations.get(agent, ""))[:EXCERPT]
            parts += [f"{code(agent)} reads", code_block(observation, "text")]
            parts += [f"{code(agent)} answers", code_block(completion.text[:EXCERPT], "text")]
        parts += [prose(f"Reward: {turn.team_reward:.3f}")]
    return "\n\n".join(parts)
