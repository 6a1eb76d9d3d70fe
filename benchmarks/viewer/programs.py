"""Rerun of an episode's programs to list the passed tests.

A record holds only their number.
"""

from __future__ import annotations

from typing import Any

from palaver.core import Episode, PalaverError
from palaver.envs.base.env import TextEnv, as_heard
from palaver.envs.code import answers
from palaver.envs.code.base import PairEnv, run
from palaver.envs.code.programs import AUX, join
from palaver.envs.code.prompts import MAIN, SOLO
from palaver.text import clean, one_line

TESTS = 40  # of a program, maximum listed
SHOWN = 400  # characters of a test and of its result


def verdicts(env: TextEnv, episode: Episode) -> list[dict[str, Any]]:
    """Return each turn's program, the sandbox's verdict, its tests as (test, verdict, message).

    Args:
        env: as it was when the episode was played.
        episode: as saved.

    Raises:
        PalaverError: the environment has no programs or no such task, or no sandbox is possible on this machine.
    """
    if not isinstance(env, PairEnv) or episode.env != env.metadata["name"]:
        raise PalaverError(f"{episode.env} has no programs to run; leave --tests out")
    problem = env.problems.get(episode.task)
    if problem is None:
        raise PalaverError(f"the environment has no task {episode.task!r} any more")
    programs = []
    for turn in episode.turns:
        texts = {agent: as_heard(completion.text, env.max_length)[0] for agent, completion in turn.completions.items()}
        readings = {agent: answers.read(text) for agent, text in texts.items()}
        silent = answers.read("")
        aux, main = (readings.get(role) or readings.get(SOLO, silent) for role in (AUX, MAIN))
        program = join(problem.preamble, aux, main, problem.entry_point)
        entry: dict[str, Any] = {"source": clean(program.source), "verdict": "not run", "tests": []}
        if program.main is not None and not program.fault:
            report = run(problem, program.source, env.limits)
            listed = [
                [one_line(test_result.test, SHOWN), test_result.verdict, one_line(test_result.message, SHOWN)]
                for test_result in report.results[:TESTS]
            ]
            entry |= {"verdict": report.verdict, "tests": listed, "more": len(report.results) - len(listed)}
        programs.append(entry | {"fault": one_line(program.fault, SHOWN)})
    return programs
