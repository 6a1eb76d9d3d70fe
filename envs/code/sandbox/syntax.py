"""Syntax trees of Python texts, built by one thread at a time.

Standard library only: this module also runs in the examiner, where Palaver is not installed.
"""

from __future__ import annotations

import ast
import threading

# CPython up to 3.12 keeps the depth of the tree that it builds in the interpreter, not in the call. The garbage
# collector may run other code while a tree is built, and another thread that then builds one changes the depth:
# "SystemError: AST constructor recursion depth mismatch". Reentrant, for that code may parse in the same thread.
_one_at_a_time = threading.RLock()


def parse(source: str, name: str = "<unknown>") -> ast.Module:
    """`ast.parse`, by one thread at a time.

    Args:
        source: the text.
        name: of the file in messages.

    Raises:
        SyntaxError: it is no Python.
        ValueError, RecursionError, MemoryError: it holds a null byte, or nests too deeply.
    """
    with _one_at_a_time:
        return ast.parse(source, name)
