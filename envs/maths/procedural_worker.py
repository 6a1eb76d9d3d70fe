"""Process that makes the questions of reasoning-gym and scores answers, in lines of JSON.

Answers are texts of models. Some families evaluate them as Python; here they get evaluators that know literals and
arithmetic only. An answer that takes too long, or too much memory, has the score 0 and an error.
"""

from __future__ import annotations

import ast
import functools
import json
import math
import os
import re
import resource
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

ANSWER_S = 10  # for an answer, while Python code runs
_MEMORY = 6 * 2**30
_ARITHMETIC = re.compile(r"[\w\s+\-*/^().,]*", re.ASCII)
_NAME = re.compile(r"(?<![0-9])[A-Za-z_]\w*|\.\s*[A-Za-z_]")
_FUNCTIONS = re.compile("a?(sin|cos|tan)h?|sec|csc|cot|sqrt|[Aa]bs|pi|True|False")
_MOST_POWER = 999
_scoring = False  # within the scoring of an answer; making questions is free to parse what it likes


class _SlowError(BaseException):
    """End of the time for an answer."""


def main() -> None:
    """Answer requests until the other side closes the pipe."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries print
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    signal.signal(signal.SIGALRM, _alarm)
    for line in sys.stdin:
        out.write(json.dumps(reply(json.loads(line))) + "\n")
        out.flush()


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """Return the result of `make` or `score`, whichever is to `do`; an `error` if it fails."""
    global _scoring
    try:
        return make(request) if request["do"] == "make" else score(request)
    except _SlowError:
        return {"error": f"scoring took more than {ANSWER_S} seconds"}
    except Exception as error:  # noqa: BLE001 - a library's, on a text that a model wrote
        return {"error": f"{type(error).__name__}: {error}"[:200]}
    finally:
        signal.alarm(0)
        _scoring = False


def make(request: dict[str, Any]) -> dict[str, Any]:
    """Return the `items` of a family, (question, answer) each; for no family the `known` ones."""
    from reasoning_gym.factory import DATASETS

    if request["family"] not in DATASETS:
        return {"known": sorted(DATASETS)}
    items = [_item(request["family"], request["size"], request["seed"], n) for n in range(request["size"])]
    return {"items": [(str(item["question"]), _text(item["answer"])) for item in items]}


def score(request: dict[str, Any]) -> dict[str, Any]:
    """Return the `score` of an answer, from 0 to 1.

    Raises:
        ValueError: it is no number.
    """
    global _scoring
    place = request["family"], request["size"], request["seed"]
    item = _item(*place, request["index"])
    _scoring = True
    signal.alarm(ANSWER_S)
    value = float(_dataset(*place).score_answer(request["answer"], item))
    if not math.isfinite(value):
        raise ValueError(f"the score is {value}")
    return {"score": min(1.0, max(0.0, value))}


@functools.lru_cache(maxsize=64)
def _dataset(family: str, size: int, seed: int) -> Any:
    import reasoning_gym

    dataset = reasoning_gym.create_dataset(family, size=size, seed=seed)
    _disarm(type(dataset))
    return dataset


@functools.lru_cache(maxsize=100_000)
def _item(family: str, size: int, seed: int, index: int) -> Any:
    return _dataset(family, size, seed)[index]


def _disarm(family: type) -> None:
    """Replace `eval` in the scoring of a family, and the parser of sympy."""
    import sympy
    from sympy.parsing import sympy_parser

    module = vars(sys.modules[family.__module__])
    if "eval" in family.score_answer.__code__.co_names:  # type: ignore[attr-defined]
        module["eval"] = ast.literal_eval
    if not hasattr(sympy_parser.parse_expr, "__wrapped__"):
        guarded = _arithmetic_only(sympy_parser.parse_expr)
        sympy_parser.parse_expr = sympy.parse_expr = guarded
    if getattr(module.get("parse_expr"), "__module__", "") == sympy_parser.__name__:
        module["parse_expr"] = sympy_parser.parse_expr


def _arithmetic_only(parse: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(parse)
    def guarded(text: str, *args: Any, **kwargs: Any) -> Any:
        if _scoring and not is_arithmetic(text):
            raise ValueError("the answer is no arithmetic expression")
        return parse(text, *args, **kwargs)

    return guarded


def is_arithmetic(text: str) -> bool:
    """Return whether a text is arithmetic without huge powers; variables have one letter.

    >>> is_arithmetic("x*asin(3*x) + C"), is_arithmetic("open('f')"), is_arithmetic("9**9**9")
    (True, False, False)
    """
    if not _ARITHMETIC.fullmatch(text):
        return False
    if any(len(name) > 1 and not _FUNCTIONS.fullmatch(name) for name in _NAME.findall(text)):
        return False
    try:
        tree = ast.parse(text.strip().replace("^", "**"), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True  # which the parser refuses too
    powers = (node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow))
    return all(_small(power.right) for power in powers)


def _small(exponent: ast.expr) -> bool:
    inner = list(ast.walk(exponent))
    numbers = [node.value for node in inner if isinstance(node, ast.Constant)]
    powers = [node for node in inner if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.Mult)]
    return not powers and all(isinstance(n, int | float) and abs(n) <= _MOST_POWER for n in numbers)


def _alarm(_number: int, _frame: FrameType | None) -> None:
    raise _SlowError


def _text(answer: object) -> str:
    return "" if answer is None else str(answer)


if __name__ == "__main__":
    main()
