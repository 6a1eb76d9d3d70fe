"""Our own source as the architecture tests read it: files, modules, syntax trees."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WINGS = ("envs", "agents", "trainers", "benchmarks")


@functools.cache
def files() -> tuple[Path, ...]:
    """Every Python file we ship, by its place in the repository (the links in palaver/ are not followed)."""
    own = [*(ROOT / "palaver").glob("*.py")]
    own += [path for part in ("api", "cli", "utils") for path in (ROOT / "palaver" / part).rglob("*.py")]
    for wing in WINGS:
        own += (ROOT / wing).rglob("*.py")
    return tuple(sorted(path.relative_to(ROOT) for path in own))


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), filename=str(path))


def module(path: Path) -> str:
    """`envs/base/env.py` is `palaver.envs.base.env`."""
    parts = path.with_suffix("").parts
    parts = parts if parts[0] == "palaver" else ("palaver", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def unit(name: str) -> str:
    """The part of the house a module belongs to: core, registry, a wing or cli; `palaver` itself is `registry`,
    because that is what importing it brings."""
    parts = name.split(".")
    if len(parts) == 1:
        return "registry"
    core = dict.fromkeys(("text", "markdown", "scoring", "episodes", "plugins"), "core")
    return ({"__main__": "cli"} | core).get(parts[1], parts[1])


def functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
    """(dotted name, node, public) of every function; public where no part of the name is private or local."""
    yield from _functions(tree(path), "", True)


def _functions(
    node: ast.AST, prefix: str, public: bool
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            special = child.name.startswith("__") and child.name.endswith("__")
            yield f"{prefix}{child.name}", child, public and (special or not child.name.startswith("_"))
            yield from _functions(child, f"{prefix}{child.name}.", False)
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.", public and not child.name.startswith("_"))
        else:
            yield from _functions(child, prefix, public)


def imports(path: Path) -> Iterator[str]:
    """The absolute name of every module imported anywhere in a file, in functions too.

    `from palaver import core` gives `palaver.core`; a name that is no module of ours gives the module it comes from.
    Modules named by a literal in `import_module("...")` count as imported.
    """
    known = {module(p) for p in files()}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, path)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield full if full in known or full in {f"palaver.{w}" for w in WINGS} else base
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("import_module", "resolve") and isinstance(node.args[0].value, str):
                yield node.args[0].value.partition(":")[0]


def _base(node: ast.ImportFrom, path: Path) -> str:
    if not node.level:
        return node.module or ""
    here = module(path).split(".")
    package = here if path.name == "__init__.py" else here[:-1]
    package = package[: len(package) - node.level + 1]
    return ".".join([*package, node.module] if node.module else package)
