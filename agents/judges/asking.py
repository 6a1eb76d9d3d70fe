"""Questions to a chat, repeated until the answers can be parsed.

A cache comes before the chat, and the number of calls is limited.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from palaver.agents.base.chat import Answer, Chat, Question
from palaver.agents.judges.parsing import UnreadError
from palaver.core import Message, ScoringError, stable_seed
from palaver.scoring import Cost
from palaver.utils.machine import cache_folder

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
    """Answers that could be read, by key, in SQLite; failures are never kept.

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
                query = f"SELECT key, answer FROM answers WHERE key IN ({','.join('?' * len(batch))})"
                rows = ((key, json.loads(record)) for key, record in database.execute(query, batch))
                answers.update({key: Answer(text, finish, tuple(top)) for key, (text, finish, top) in rows})
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


T = TypeVar("T")

AGAIN = "Your last answer could not be used ({why}). Answer again, with the JSON object alone, in the form asked for."


@dataclass(frozen=True, slots=True)
class JudgeQuery(Generic[T]):
    """A question and how its answer is read; `read` raises `UnreadError`."""

    question: Question
    read: Callable[[Answer], T]


@dataclass(slots=True)
class QueryResult(Generic[T]):
    """Result of an item: its value, or the reason why there is none."""

    value: T | None = None
    cost: Cost = field(default_factory=Cost)
    failure: str = ""


class Asker:
    """Queries a chat, with a cache and limits.

    Args:
        chat: answers.
        cache: of answers that could be read; None keeps none.
        asks: most attempts per question, the first included, until its answer can be parsed.
        calls: most questions to the chat over the life of this one; None for no limit.
        sample: part of the cache key.
    """

    def __init__(
        self, chat: Chat, cache: AnswerCache | None = None, asks: int = 3, calls: int | None = None, sample: int = 0
    ) -> None:
        self.chat, self.cache, self.asks, self.calls, self.sample = chat, cache, asks, calls, sample
        self._lock = threading.Lock()
        self._looked, self._hits, self._called, self._unread = 0, 0, 0, 0

    def metrics(self) -> dict[str, float]:
        """The share of questions that the cache answered, and of answers that could not be read."""
        with self._lock:
            return {
                "cache_hits": self._hits / max(1, self._looked),
                "unread": self._unread / max(1, self._called),
            }

    def ask(self, items: Sequence[JudgeQuery[T]]) -> list[QueryResult[T]]:
        """One result an item, in order. Equal questions are put once."""
        results: list[QueryResult[T]] = [QueryResult() for _ in items]
        waiting = dict(enumerate(item.question for item in items))
        for attempt in range(self.asks):
            waiting = self._round(items, waiting, results)
            if not waiting:
                break
            for index, question in waiting.items():
                waiting[index] = _again(items[index].question, question, results[index].failure, attempt + 1)
        return results

    def _round(
        self, items: Sequence[JudgeQuery[T]], waiting: Mapping[int, Question], results: list[QueryResult[T]]
    ) -> dict[int, Question]:
        """Query the waiting questions; return those whose answers could not be parsed."""
        keys = {index: key(self.chat, question, self.sample) for index, question in waiting.items()}
        known = self.cache.get(list(dict.fromkeys(keys.values()))) if self.cache else {}
        first: dict[str, int] = {}  # of equal questions
        for index, name in keys.items():
            if name not in known:
                first.setdefault(name, index)
        fresh = self._call({name: waiting[index] for name, index in first.items()})
        with self._lock:
            self._looked += len(keys)
            self._hits += sum(name in known for name in keys.values())
        left, to_cache = {}, {}
        for index, name in keys.items():
            answer = known[name] if name in known else fresh[name]
            result = results[index]
            if first.get(name) == index:
                result.cost += answer.cost
            result.failure = answer.failure
            if answer.failure:
                continue
            try:
                result.value = items[index].read(answer)
                to_cache[name] = answer
            except UnreadError as unread:
                result.failure = unread.failure
                left[index] = waiting[index]
        with self._lock:
            self._unread += len({keys[index] for index in left})
        if self.cache:
            self.cache.put({name: answer for name, answer in to_cache.items() if name not in known})
        return left

    def _call(self, questions: Mapping[str, Question]) -> dict[str, Answer]:
        """Ask the chat as many as the limit of calls lets through."""
        with self._lock:
            room = len(questions) if self.calls is None else max(0, self.calls - self._called)
            names = list(questions)[:room]
            self._called += len(names)
        answers = self.chat.ask([questions[name] for name in names]) if names else []
        if len(answers) != len(names):
            raise ScoringError(f"{self.chat.name} gave {len(answers)} answers to {len(names)} questions")
        refused = Answer("", failure=f"budget: {self.calls} calls were allowed and are spent")
        return dict.fromkeys(questions, refused) | dict(zip(names, answers, strict=True))


def _again(first: Question, last: Question, why: str, attempt: int) -> Question:
    """The same question with the reason why its answer could not be used.

    The answer itself is not shown again.
    """
    *before, final = first.conversation
    message = Message(final.role, f"{final.content}\n\n{AGAIN.format(why=why.partition(':')[0])}")
    return replace(last, conversation=(*before, message), seed=stable_seed(first.seed, attempt))
