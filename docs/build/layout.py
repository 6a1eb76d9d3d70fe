"""The computed part of docs/layout.md: every folder of the package with the first line of its docstring."""

from __future__ import annotations

import ast
from pathlib import Path

from palaver.markdown import markdown_table, prose

ROOT = Path(__file__).resolve().parents[2]
WINGS = ("envs", "agents", "trainers", "benchmarks", "palaver")


def parts(kept_runs: Path) -> dict[str, str]:
    """Name -> Markdown of a table for each wing; no kept run has a part in it."""
    del kept_runs
    return {wing: _table(wing) for wing in WINGS}


def _table(wing: str) -> str:
    folder_rows = []
    for path in sorted((ROOT / wing).rglob("__init__.py")):
        folder = path.parent.relative_to(ROOT)
        lines = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()
        if lines and not set(folder.parts[1:2]) & set(WINGS):  # palaver/ links to the wings
            folder_rows.append([f"`{folder}`", prose(lines[0])])
    return markdown_table(("folder", "holds"), folder_rows)
