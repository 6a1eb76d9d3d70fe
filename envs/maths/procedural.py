"""Questions of reasoning-gym, `rg:NAME:SIZE:SEED`, made and scored in another process.

That process repeats (some families depend on the order of hashing), is killed when an answer keeps it busy, and holds
the libraries that the families need.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

from palaver.core import TaskError, did_you_mean, need
from palaver.envs.base.tasks import Task, load_tasks
from palaver.envs.maths import answers
from palaver.envs.workflows.scoring import Marks
from palaver.text import one_line
from palaver.utils.workers import Closing, ProcessLocal, wait_or_kill

MAKE_S = 900.0  # for the questions of a set; those of some families are searched for
SCORE_S = 60.0  # for an answer: the process gives up a computation in Python itself, earlier
_SOURCE = re.compile(r"rg:(?P<name>\w+):(?P<size>\d{1,5}):(?P<seed>\d{1,9})(?P<slice>\[[\d:\s-]*\])?")
_TAGS = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_CHILD = "palaver.envs.maths.procedural_worker"


def is_procedural(source: object) -> bool:
    """Return whether tasks are questions of reasoning-gym.

    >>> is_procedural("rg:chain_sum:100:7"), is_procedural("sample")
    (True, False)
    """
    return isinstance(source, str) and source.startswith("rg:")


def load_procedural(source: str) -> tuple[Task, ...]:
    """Return the tasks of `rg:NAME:SIZE:SEED`.

    They are those of `reasoning_gym.create_dataset(NAME, size=SIZE, seed=SEED)`; a slice may follow. A task
    has the `question` and the `answer` of the item, "" where it has none.

    Raises:
        ConfigError: reasoning-gym is not installed.
        TaskError: another form, no such family, or one that cannot be made.
    """
    match = _SOURCE.fullmatch(source)
    if match is None or int(match["size"]) < 1:
        raise TaskError(f"tasks={source!r} cannot be read; write rg:NAME:SIZE:SEED, for example rg:chain_sum:100:7")
    need(f"tasks={source!r}", "reasoning-gym")
    rows = partial(_rows, name=match["name"])
    return load_tasks(
        f"generated:{match['seed']}:{match['size']}{match['slice'] or ''}", sample=rows, fields={"question": str}
    )


def _rows(count: int, seed: int, name: str) -> list[dict[str, Any]]:
    family = {"family": name, "size": count, "seed": seed}
    try:
        reply = _worker().ask({"do": "make", **family}, MAKE_S)
    except NoReplyError as error:
        raise TaskError(f"the questions of rg:{name}:{count}:{seed} could not be made: {error}") from error
    if "known" in reply:
        raise TaskError(f"reasoning-gym has no family {name!r}.{did_you_mean(name, reply['known'])}")
    if "error" in reply:
        raise TaskError(f"the questions of rg:{name}:{count}:{seed} could not be made: {reply['error']}")
    return [
        {"id": f"{name}-{seed}-{n}", "question": question, "answer": answer, "index": n, **family}
        for n, (question, answer) in enumerate(reply["items"])
    ]


class ProceduralScorer:
    """Scores of reasoning-gym, from 0 to 1: some families give a part for a part."""

    def question(self, task: Task, _agent: str) -> str:
        """The same question for every agent."""
        return answers.opening(task["question"])

    def score(self, task: Task, texts: Mapping[str, str]) -> Marks:
        """Each answer by itself."""
        results = {agent: score_answer(task, given(text)) for agent, text in texts.items()}
        failures = [error for _, error in results.values() if error]
        scores = {agent: score for agent, (score, _) in results.items()}
        found = ", ".join(
            f"{agent} {scores[agent]:.3g} for {one_line(given(text), 60)}" for agent, text in texts.items()
        )
        right = f"right is {one_line(task['answer'], 60)}; " if task["answer"] else ""
        reason = one_line("; ".join([f"{right}{found}", *failures[:1]]), 300)
        return Marks(scores, {"scoring_failed": len(failures) / len(texts)}, reason)

    def key(self, text: str) -> str:
        """The number, if the answer is one, else the answer without case and spacing."""
        answer = given(text)
        value = answers.gold(answer).value if answer else None
        return " ".join(answer.casefold().split()) if value is None else str(value)

    def hide(self, text: str) -> str:
        """The text without the answer that it marks."""
        answer = given(text)
        return text.replace(answer, "(hidden)") if answer else text

    def formed(self, text: str) -> bool:
        """Return whether `####` or a box marks an answer."""
        return bool(answers.marked_text(text))


def given(text: str) -> str:
    """Return the answer in a text, unread.

    It is what follows the last `####`, to the end of the text; else the last box; else the last `<answer>`; else the
    whole text, thoughts left out.

    >>> given("so #### 1 2\\n3 4"), given("<answer> B </answer>!"), given("42")
    ('1 2\\n3 4', 'B', '42')
    """
    marked = answers.marked_text(text)
    if marked is not None:
        return marked
    spoken = answers.spoken(text)
    tagged = _TAGS.findall(spoken)
    return (tagged[-1] if tagged else spoken).strip()


def score_answer(task: Task, answer: str) -> tuple[float, str]:
    """Return the score of an answer, and the error where scoring failed, with a score of 0."""
    place = {name: task[name] for name in ("family", "size", "seed", "index")}
    try:
        reply = _worker().ask({"do": "score", **place, "answer": answer}, SCORE_S)
    except NoReplyError as error:
        return 0.0, str(error)
    return float(reply.get("score", 0.0)), str(reply.get("error", ""))


class NoReplyError(Exception):
    """End of the process before it replied."""


class _Worker(Closing):
    """The process; one that is lost is replaced at the next request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Send a request and return the reply.

        Raises:
            NoReplyError: the process ended, or took more than `seconds` and was killed.
        """
        with self._lock:
            process = self._process = self._process or self._start()
            try:
                return self._reply(process, json.dumps(request).encode() + b"\n", seconds)
            except (OSError, ValueError) as error:
                self._end()
                raise NoReplyError(one_line(str(error))) from error

    def _reply(self, process: subprocess.Popen[bytes], line: bytes, seconds: float) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line)
        process.stdin.flush()
        if not select.select([process.stdout], [], [], seconds)[0]:
            raise TimeoutError(f"no reply within {seconds:g} seconds")
        reply: dict[str, Any] = json.loads(process.stdout.readline())
        return reply

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(filter(None, sys.path))
        variables = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": path}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, "-m", _CHILD], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=variables
        )

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            wait_or_kill(process)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()


_worker = ProcessLocal(_Worker)
