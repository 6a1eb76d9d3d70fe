"""Calculator: a tool of the agents of maths environments. Exact, and bounded for any text."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

from palaver.envs.base.tools import ToolError
from palaver.envs.code.sandbox.suite import parse_expression

MOST_CHARACTERS = 200
MOST_BITS = 2048  # of a numerator or denominator
MOST_POWER = 64
_SPELLINGS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "^": "**"})
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_LONG_EXPONENT = re.compile(r"[eE][+-]?[\d_]{4,}")
_BINARY: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction | int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def calculator(expression: str) -> str:
    """Evaluate arithmetic exactly.

    Args:
        expression: numbers, + - * / // % **, and parentheses.

    >>> calculator("(3 + 4) * 1.5"), calculator("2 / 3")
    ('10.5', '2/3 = 0.666667')
    """
    if len(expression) > MOST_CHARACTERS:
        raise ToolError(f"the expression has {len(expression)} characters; at most {MOST_CHARACTERS}")
    source = _THOUSANDS.sub("", expression.translate(_SPELLINGS)).strip()
    try:
        return _shown(_value(parse_expression(source), source))
    except ZeroDivisionError:
        raise ToolError("division by zero") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ToolError("this is no arithmetic expression") from None


def _value(node: ast.expr, source: str) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        literal = ast.get_source_segment(source, node) or ""
        if _LONG_EXPONENT.search(literal):  # which would be computed before its size is known
            raise ToolError("the numbers are too large")
        return _bounded(Fraction(literal))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        value = _value(node.operand, source)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, source), _value(node.right, source)
        if isinstance(node.op, ast.Pow):
            if right.denominator != 1 or abs(right) > MOST_POWER:
                raise ToolError(f"exponents are whole numbers of at most {MOST_POWER}")
            return _bounded(left ** int(right))
        if type(node.op) in _BINARY:
            return _bounded(Fraction(_BINARY[type(node.op)](left, right)))
    raise ToolError("only numbers, + - * / // % ** and parentheses are known")


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MOST_BITS:
        raise ToolError("the numbers are too large")
    return value


def _shown(value: Fraction) -> str:
    """A whole number, a finite decimal, or a fraction with its value."""
    if value.denominator == 1:
        return str(value.numerator)
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest == 1 and value.denominator < 10**12:
        with localcontext(prec=MOST_BITS):
            return f"{Decimal(value.numerator) / Decimal(value.denominator):f}"
    return f"{value.numerator}/{value.denominator} = {float(value):.6g}"
