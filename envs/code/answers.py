"""Parse the Python definitions out of a completion. Pure; nothing is run.

The rule, in order:

1. Text in `<think>` (or `<thinking>`, `<thought>`, `<reasoning>`) is left out: up to the closing tag, to the end
   where it is not closed, from the start where only the closing tag is there.
2. Where there are fenced blocks (``` or ~~~), those marked as Python or not marked are read; where none of them
   defines a function, all blocks; where none of those does, the whole text without its fence lines, then what is
   indented in it. A fence that is not closed goes to the end.
3. What is read is parsed as a whole or, where it does not parse, piece by piece: a piece begins with a line that is not
   indented, and ends before the first such line with which it parses. Prose does not parse and drops out.
4. Of the statements imports, functions, classes and assignments count, over all blocks in order; of several that define
   one name the last. Calls, prints, tests and `if __name__ == ...` are left out.
5. A piece that begins with `def NAME(` and does not parse counts as a function that is there but broken, unless there
   is one of that name that parses.
"""

from __future__ import annotations

import ast
import re
import textwrap
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from palaver.envs.code.sandbox import suite

LONGEST = 65_536  # characters read of one answer
EFFORT = 400_000  # characters parsed of one answer piece by piece
REACH = 40  # lines without indentation that one piece may run over

Kind = Literal["import", "function", "other"]

_THOUGHT = re.compile(r"<(think|thinking|thought|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_UNOPENED = re.compile(r"\A.*</(?:think|thinking|thought|reasoning)>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"^[ \t>]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<label>[^`\n]*)$", re.MULTILINE)
_PYTHON = frozenset({"", "python", "python3", "py", "py3", "python-3", "ipython", "pycon", "{.python}", "code"})
_HEADER = re.compile(r"def[ \t]+(\w+)[ \t]*\(")
_CONTINUES = re.compile(r"[)\]}]|(?:else|elif|except|finally)\b")
_INDENTED = re.compile(r"^([ \t]+)(?:def[ \t]+\w+[ \t]*\(|@\w)", re.MULTILINE)
_PROMPT = re.compile(r"^(?:>>>|\.\.\.)(?: |$)", re.MULTILINE)
_QUOTED = re.compile(r"^`([^`\n]+)`[ \t]*$", re.MULTILINE)
_BLANK = re.compile(r"[ \t]*(?:#.*)?$")
_quiet = threading.Lock()


@dataclass(frozen=True, slots=True)
class Part:
    """A statement of an answer.

    Attributes:
        kind: `function` for `def`, `other` for classes, assignments and `async def`.
        names: what it binds.
        source: its text.
        node: its syntax tree; None where it does not parse.
    """

    kind: Kind
    names: tuple[str, ...]
    source: str
    node: ast.stmt | None

    @property
    def always(self) -> bool:
        """True if it has an effect without any reader of its names: `import *`, `from __future__`."""
        return "*" in self.names or (isinstance(self.node, ast.ImportFrom) and self.node.module == "__future__")


@dataclass(frozen=True, slots=True)
class ParsedProgram:
    """The definitions of one answer, in order.

    Attributes:
        parts: each name is bound by one of them.
        bare: whether there was nothing else: no prose, one block at most, no other statement.
    """

    parts: tuple[Part, ...] = ()
    bare: bool = False

    def function(self, name: str) -> Part | None:
        """The function of that name, broken or not."""
        return next((part for part in self.parts if part.kind == "function" and name in part.names), None)

    def needed(self, name: str, without: frozenset[str] = frozenset()) -> tuple[Part, ...]:
        """The function `name` with all of this answer that it reads, directly or not.

        Empty where it is missing.

        Args:
            name: of the function.
            without: names that are taken from elsewhere.
        """
        binding: dict[str, list[Part]] = {}
        for part in self.parts:
            for bound_name in part.names:
                binding.setdefault(bound_name, []).append(part)
        first = self.function(name)
        wanted, needed_ids = [first] if first else [], set[int]()
        while wanted:
            part = wanted.pop()
            if id(part) not in needed_ids:
                needed_ids.add(id(part))
                wanted += [
                    dependency
                    for bound_name in _names_read(part) - without
                    for dependency in binding.get(bound_name, ())
                ]
        return tuple(part for part in self.parts if id(part) in needed_ids or (needed_ids and part.always))


def parse(source: str) -> ast.Module | None:
    """The syntax tree; None where the text is not Python. Never warns and never raises."""
    return _parsed(source)[0]


def fault(source: str) -> str:
    """The parser's message and line for a text that is not Python; "" if it is."""
    return _parsed(source)[1]


def _parsed(source: str) -> tuple[ast.Module | None, str]:
    with _quiet, warnings.catch_warnings():  # invalid escapes warn; one thread at a time, for filters are global
        warnings.simplefilter("ignore")
        try:
            return suite.parse(source), ""
        except SyntaxError as error:
            return None, f"line {error.lineno}: {error.msg}" if error.lineno else str(error.msg)
        except (ValueError, RecursionError, MemoryError, OverflowError) as error:
            return None, str(error) or type(error).__name__


def definitions(tree: ast.Module, source: str) -> tuple[Part, ...]:
    """The statements of a module that define something."""
    return _last_of_each(_statements(tree, source))


def read(text: str) -> ParsedProgram:
    """The definitions in an answer; see the module's rule."""
    lines = text[:LONGEST].replace("\r\n", "\n").replace("\r", "\n")
    spoken = _UNOPENED.sub("", _THOUGHT.sub("", lines))
    blocks = _blocks(spoken)
    python = [body for label, body in blocks if label in _PYTHON]
    unfenced = _QUOTED.sub(r"\1", _FENCE.sub("", spoken))
    budget = [EFFORT]
    for sources in (python, [body for _, body in blocks], [unfenced], list(_indented(unfenced))):
        parts = [part for source in sources for part in _parts(source, budget)]
        if any(part.kind == "function" for part in parts):
            return ParsedProgram(_last_of_each(parts), bare=_bare(spoken, python, len(blocks)))
        if any(isinstance(part.node, ast.ClassDef) for part in parts):
            break  # what is indented further on are methods
    return ParsedProgram()


def _blocks(text: str) -> list[tuple[str, str]]:
    """(label, body) of the fenced blocks."""
    blocks: list[tuple[str, str]] = []
    mark, label, start = "", "", 0
    for fence in _FENCE.finditer(text):
        if not mark:
            mark, start = fence["mark"], fence.end() + 1
            label = (fence["label"].split() or [""])[0].lower()
        elif fence["mark"].startswith(mark) and not fence["label"].strip():
            blocks.append((label, text[start : fence.start()]))
            mark = ""
    return [*blocks, (label, text[start:])] if mark else blocks


def _bare(spoken: str, python: Sequence[str], blocks: int) -> bool:
    if blocks > 1 or (blocks and (not python or _FENCE.sub("", spoken).strip() != python[0].strip())):
        return False
    tree = parse(python[0] if blocks else spoken)
    return tree is not None and all(_kind(node) for node in tree.body)


def _indented(text: str) -> Iterator[str]:
    """The first run of lines that begins with an indented function."""
    if match := _INDENTED.search(text):
        margin, lines = match[1], text[match.start() :].split("\n")
        run = takewhile(lambda line: not line.strip() or line.startswith(margin), lines)
        yield textwrap.dedent("\n".join(run))


def _parts(source: str, budget: list[int]) -> Iterator[Part]:
    for text in (source, textwrap.dedent(source), _PROMPT.sub("", source)):
        if (tree := parse(text)) is not None:
            yield from _statements(tree, text)
            return
    lines = textwrap.dedent(_PROMPT.sub("", source)).split("\n")
    starts = list(_starts(lines))
    at = 0
    while at < len(starts) and budget[0] > 0:
        after, piece, tree = _piece(lines, starts, at, budget)
        if tree is not None:
            yield from _statements(tree, piece)
        elif header := _HEADER.match(next((line for line in lines[starts[at] :] if line[:1] != "@"), "")):
            yield Part("function", (header[1],), piece, None)
        at = after


def _starts(lines: Sequence[str]) -> Iterator[int]:
    """Lines where a piece may begin: not indented, and no continuation of the line before."""
    decorated = False
    for index, line in enumerate(lines):
        if _BLANK.match(line) or line[0] in " \t" or _CONTINUES.match(line):
            continue
        if not decorated:
            yield index
        decorated = line[0] == "@"


def _piece(
    lines: Sequence[str], starts: Sequence[int], at: int, budget: list[int]
) -> tuple[int, str, ast.Module | None]:
    """The piece that begins at `starts[at]`.

    Returns the index in `starts` of the next piece, the text of this one, and its tree if it parses.
    """
    opens = re.match(r"(?:async[ \t]+)?def\b|class\b|@|from\b|import\b|\w+[ \t]*(?::[^=\n]+)?=[^=]", lines[starts[at]])
    shortest = ""
    for after in range(at + 1, min(at + 1 + (REACH if opens else 1), len(starts) + 1)):
        end = starts[after] if after < len(starts) else len(lines)
        piece = "\n".join(lines[starts[at] : end])
        shortest = shortest or piece
        budget[0] -= len(piece)
        if (tree := parse(piece)) is not None:
            return after, piece, tree
        if budget[0] <= 0:
            break
    return at + 1, shortest, None


def _statements(tree: ast.Module, source: str) -> Iterator[Part]:
    lines = source.split("\n")
    for node in tree.body:
        if kind := _kind(node):
            yield Part(kind, tuple(_bound(node)), _segment(node, lines), node)


def _kind(node: ast.stmt) -> Kind | None:
    """Kind of a statement; None if it is left out."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return "import"
    if isinstance(node, ast.FunctionDef):
        return "function"
    if isinstance(node, ast.Try | ast.If) and _imports_only(node):
        return "import"
    if isinstance(node, ast.AsyncFunctionDef | ast.ClassDef):
        return "other"
    named = isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets)
    typed = isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
    return "other" if named or typed else None


def _imports_only(node: ast.Try | ast.If) -> bool:
    inner = [child for child in ast.walk(node) if isinstance(child, ast.stmt) and child is not node]
    imports = [child for child in inner if isinstance(child, ast.Import | ast.ImportFrom)]
    return bool(imports) and all(
        isinstance(child, ast.Import | ast.ImportFrom | ast.Pass | ast.Assign) for child in inner
    )


def _bound(node: ast.stmt) -> Iterator[str]:
    for child in ast.walk(node) if isinstance(node, ast.Try | ast.If) else [node]:
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in child.names)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child.name
        elif isinstance(child, ast.Assign):
            yield from (target.id for target in child.targets if isinstance(target, ast.Name))
        elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            yield child.target.id


def _segment(node: ast.stmt, lines: Sequence[str]) -> str:
    """The text of a statement, decorators included.

    `ast.get_source_segment` would split the whole text for each statement.
    """
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    if decorators:  # nothing else can stand in the line of the first
        return "\n".join(lines[decorators[0].lineno - 1 : node.end_lineno])
    text = "\n".join(lines[node.lineno - 1 : node.end_lineno]).encode()
    after = len(lines[(node.end_lineno or 1) - 1].encode()) - (node.end_col_offset or 0)  # columns count bytes
    return text[node.col_offset : len(text) - after].decode()


def _last_of_each(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The imports, and of the other parts those that bind a name which none binds later.

    A part that parses takes precedence over one that does not.
    """
    selected: list[Part] = []
    bound = set[str]()
    known = list(parts)
    sound = {name for part in known if part.node is not None for name in part.names}
    for part in reversed(known):
        if part.kind == "import":
            selected.append(part)
        elif not bound.issuperset(part.names) and (part.node is not None or not sound.issuperset(part.names)):
            selected.append(part)
            bound.update(part.names)
    return tuple(reversed(selected))


def _names_read(part: Part) -> set[str]:
    return {node.id for node in ast.walk(part.node) if isinstance(node, ast.Name)} if part.node else set()
