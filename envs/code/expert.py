"""Third party that reads both functions and proposes better ones, for the feedback `expert`.

An expert is a function `(request: str) -> str`, given as `expert=` by itself or as `module:function`: a remote model, a
local one, or a script. It is queried at most three times, until its answer holds a JSON object `{"aux": CODE, "main":
CODE}`, of which one part may be missing. It may be called from several threads, and raises `OSError` (as the network
errors of Python's library are) if it cannot answer. Its answer is shown, and never run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from palaver.core import ConfigError
from palaver.envs.base.tasks import Shared
from palaver.envs.code.programs import AUX
from palaver.envs.code.prompts import MAIN, TurnResult
from palaver.plugins import load_code

TRIES = 3
LONGEST = 100_000  # characters read of an answer

Expert = Callable[[str], str]

_REQUEST = """Two programmers wrote a Python program for the problem below: one the helper function `aux`, the other
`{name}`. Say how you would write both so that they fit each other and are correct. Answer with one JSON object and
nothing else: {{"aux": "the code of aux", "main": "the code of {name}"}}

Problem:
{prompt}

`aux` as it is:
{aux}

`{name}` as it is:
{main}

Results:
{tests}"""
_OBJECT = re.compile(r"\{")


@dataclass(frozen=True)
class Advisor(Shared):
    """An expert that copies of an environment share."""

    expert: Expert

    def advise(self, prompt: str, result: TurnResult) -> dict[str, str]:
        """The functions it proposes, by `aux` and `main`; none where it failed three times."""
        request = advice_request(prompt, result)
        for _ in range(TRIES):
            try:
                response = self.expert(request)
            except OSError:
                continue
            if advice := read(response):
                return advice
        return {}


def advisor(expert: Expert | str | None) -> Advisor | None:
    """The expert given as `expert=`.

    Raises:
        ConfigError: it cannot be loaded, or is no function.
    """
    if expert is None:
        return None
    loaded = load_code(expert, "the expert ") if isinstance(expert, str) else expert
    if not callable(loaded):
        raise ConfigError(f"expert must be a function of a request, or its module:function, got {expert!r:.60}")
    return Advisor(loaded)


def advice_request(prompt: str, result: TurnResult) -> str:
    """The request."""
    program = result.program
    return _REQUEST.format(
        name=result.entry_point,
        prompt=prompt.strip(),
        aux=program.aux.source if program.aux else "(missing)",
        main=program.main.source if program.main else "(missing)",
        tests="\n".join(f"{test.source}: {'passed' if test.passed else test.message}" for test in result.seen)
        or program.fault
        or "(nothing could be run)",
    )


def read(response: object) -> dict[str, str]:
    """The first JSON object in an answer that has the text `aux` or `main`.

    Empty where there is none.
    """
    if not isinstance(response, str):
        return {}
    text, decoder = response[:LONGEST], json.JSONDecoder()
    for opening in list(_OBJECT.finditer(text))[:50]:
        try:
            parsed, _ = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            continue
        advice = {name: parsed[name] for name in (AUX, MAIN) if isinstance(parsed.get(name), str)}
        if any(code.strip() for code in advice.values()):
            return advice
    return {}
