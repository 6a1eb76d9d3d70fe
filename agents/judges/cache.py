"""Answers that could be read, kept in SQLite by a hash of everything that they depend on.

Failures are never kept.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from palaver.agents.base.chat import Answer, Chat, Question
from palaver.core import ScoringError, cache_folder

VERSION = 1  # of prompts, schemas and parsing; a change makes every kept answer unknown
FILE = "judges.sqlite"
_WAIT = 30.0  # seconds for another process to finish writing
_AT_ONCE = 500  # keys in one query


def key(chat: Chat, question: Question, sample: int) -> str:
    """SHA-256 of everything that an answer depends on.

    It depends on model and revision, sampling, seed, messages, schema, version and the index of the sample.
    """
    parts: dict[str, Any] = {
        "model": [chat.name, chat.revision],
        "sampling": asdict(question.sampling),
        "seed": question.seed,
        "messages": [[message.role, message.content] for message in question.conversation],
        "schema": question.schema,
        "top": question.top_logprobs,
        "version": VERSION,
        "sample": sample,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class AnswerCache:
    """Answers by key.

    Threads and processes may share the file: each call opens it and waits for the others.

    Args:
        path: of the file, made when first written; None takes the one in the cache folder.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_folder() / FILE

    def get(self, keys: Sequence[str]) -> dict[str, Answer]:
        """The answers that are known.

        Raises:
            ScoringError: the file cannot be read.
        """
        if not keys or not self.path.is_file():
            return {}
        answers = {}
        with self._open() as database:
            for start in range(0, len(keys), _AT_ONCE):
                batch = keys[start : start + _AT_ONCE]
                marks = ",".join("?" * len(batch))
                query = f"SELECT key, answer FROM answers WHERE key IN ({marks})"
                answers.update({key: _answer(json.loads(text)) for key, text in database.execute(query, batch)})
        return answers

    def put(self, answers: Mapping[str, Answer]) -> None:
        """Keep answers; what is there already stays.

        Raises:
            ScoringError: the file cannot be written.
        """
        rows = [(key, json.dumps([a.text, a.finish, [dict(p) for p in a.top]])) for key, a in answers.items()]
        if rows:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._open() as database, database:
                database.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?)", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=_WAIT)) as database:
                database.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT) WITHOUT ROWID")
                yield database
        except sqlite3.Error as error:
            raise ScoringError(
                f"the cache of verdicts {str(self.path)!r} cannot be used ({error}); delete it, or set PALAVER_CACHE"
            ) from error


def _answer(record: Sequence[Any]) -> Answer:
    text, finish, top = record
    return Answer(text, finish, tuple(top))
