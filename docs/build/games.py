"""The computed table of `docs/textarena.md`, from the survey kept in `docs/runs/doors/textarena.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palaver.markdown import code, markdown_table, prose


def parts(kept_runs: Path) -> dict[str, str]:
    """Return the counts, the games that pass, and those that are refused, as Markdown."""
    survey: dict[str, Any] = json.loads((kept_runs / "doors" / "textarena.json").read_text(encoding="utf-8"))
    rows = survey["games"]
    passing = [row for row in rows if row.get("passes")]
    several = sum(row["players"] > 1 for row in passing)
    versions = f"TextArena {survey['textarena']} and Python {survey['python']}"
    counts = f"With {versions}, {len(passing)} of {len(rows)} games pass,\n{several} of them for several players."
    played = [(code(row["game"]), str(row["players"]), str(row["ids"])) for row in passing]
    others = [row for row in rows if not row.get("passes")]
    refused = [(code(row["game"]), prose(row.get("refused") or row["breaks"], 120)) for row in others]
    return {
        "counts": counts,
        "games": markdown_table(("game", "players", "ids"), played, ("---", "---:", "---:")),
        "refused": markdown_table(("game", "why it is refused"), refused),
    }
