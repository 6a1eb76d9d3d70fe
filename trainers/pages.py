"""The computed parts of the algorithms' pages: the row, its defaults and a worked example, between markers.

`python -m palaver.trainers.pages` rewrites them in `docs/algorithms/*.md`; with `--check` it names the pages that are
out of date instead and exits with code 1. The prose around the markers is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from pydantic import BaseModel

from palaver.envs.pages import renew
from palaver.trainers.algorithm import ROWS, Algorithm, algorithm
from palaver.trainers.baselines import normalize
from palaver.trainers.config import AlgorithmConfig, CriticConfig, KLConfig, OptimConfig

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "algorithms"
RETURNS = (0.0, 1.0, 1.0, 2.0)
SECTIONS: dict[str, type[BaseModel]] = {
    "algorithm": AlgorithmConfig, "critic": CriticConfig, "kl": KLConfig, "optim": OptimConfig,
}  # fmt: skip
_PART = re.compile(r"(<!-- computed: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


CRITICS = {
    "none": "none",
    "own": "`critic.Critic`, one per policy, on what the agent has heard",
    "joint": "`critic.Critic`, one for the team, on what all have heard and said",
    "agent": "`moving.Moving`, a moving mean of each agent's returns",
}
ORDERS = {"together": "all update together", "sequence": "one after the other, weighed by how the former have moved"}


def filled(text: str, row: Algorithm | None) -> str:
    """A page with its computed parts renewed; `row` is the algorithm the page is about, None on the shared page."""
    parts = {"keys": keys()} | ({"row": choices(row), "example": example(row)} if row else {})
    return _PART.sub(lambda found: f"{found[1]}{parts[found['name']]}\n{found[3]}", text)


def choices(row: Algorithm) -> str:
    """The row as a table: each choice, the function that makes it, and that function's first line."""
    table = {"name": f"`{row.name}`", "paper": row.paper}
    for name, function in (("credit", row.credit), ("baseline", row.baseline), ("loss", row.loss)):
        place = f"{function.__module__.rpartition('.')[2]}.{getattr(function, '__name__', '')}"
        table[name] = f"`{place}`: {(function.__doc__ or '').strip().splitlines()[0]}"
    table |= {"critic": CRITICS[row.critic], "order": ORDERS[row.order]}
    table["smallest group"] = "2" if row.needs_group else "1"
    return _table(("choice", "value"), list(table.items()))


def example(row: Algorithm) -> str:
    """The advantages of one group of four, under each normalisation."""
    returns, group = torch.tensor(RETURNS, dtype=torch.float64), torch.zeros(len(RETURNS), dtype=torch.long)
    base = row.baseline(returns, group)
    lines = [("return", *(f"{value:.2f}" for value in RETURNS))]
    for how, kind in (("none", "population"), ("std", "population"), ("std", "unbiased")):
        advantage = normalize(base, returns, group, how, kind)  # type: ignore[arg-type]
        label = f"`normalize: {how}`" + (f", `std: {kind}`" if how != "none" else "")
        lines.append((f"advantage, {label}", *(f"{value:+.2f}" for value in advantage.tolist())))
    return _table(("", *(f"sample {n}" for n in range(1, len(RETURNS) + 1))), lines)


def keys() -> str:
    """Every key of the sections that shape the estimator, with its default."""
    lines = []
    for section, model in SECTIONS.items():
        for name, field in model.model_fields.items():
            default = field.get_default(call_default_factory=False)
            if name != "name":
                lines.append((f"`{section}.{name}`", f"`{_written(default)}`", field.description or ""))
    return _table(("key", "default", "meaning"), lines)


def _written(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else "null" if value is None else str(value)


def _table(head: tuple[str, ...], lines: Sequence[tuple[str, ...]]) -> str:
    rows = [head, ("---",) * len(head), *(tuple(cell.replace("|", "\\|") for cell in line) for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(arguments: list[str]) -> int:
    """Renew the pages, or with `--check` compare them; returns the exit code."""
    wanted = {
        path: filled(path.read_text(encoding="utf-8"), algorithm(path.stem) if path.stem in ROWS else None)
        for path in sorted(FOLDER.glob("*.md"))
    }
    return renew(wanted, "--check" in arguments, "python -m palaver.trainers.pages")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
