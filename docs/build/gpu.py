"""The computed table of the GPU in `docs/benchmarks.md`, from the records kept in `docs/runs/gpu`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

STAGES = ("right", "decode", "update", "step")


def parts(kept_runs: Path) -> dict[str, str]:
    """Return the table as Markdown: what was measured, by stage; of the training runs the worst."""
    rows = ["| stage | measured | value | asked | |", "| --- | --- | --- | --- | --- |"]
    for number, stage in enumerate(STAGES, 1):
        lines = (kept_runs / "gpu" / f"{stage}.jsonl").read_text(encoding="utf-8").splitlines()
        measured: dict[str, dict[str, Any]] = {}
        for line in map(json.loads, lines):
            if "about" in line or line["verdict"] == "SKIP":
                continue
            first, _, last = line["name"].rpartition(": ")
            name = f"training, all of the table above: {last}" if first.startswith("training") else line["name"]
            if name not in measured or line["value"] > measured[name]["value"]:
                measured[name] = line
        for name, line in measured.items():
            verdict = {"INFO": "", "PASS": "met"}.get(line["verdict"], "**not met**")
            bound = line["bound"].replace("<=", "at most").replace(">=", "at least")
            value = f"{line['value']:,.0f}" if line["value"] >= 1000 else f"{line['value']:.3g}"
            cells = (f"{number} {stage}", name, f"{value} {line['unit']}".strip(), bound, verdict)
            rows.append(f"| {' | '.join(cells)} |")
    return {"gpu": "\n".join(rows)}
