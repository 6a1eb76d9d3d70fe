"""Computed tables of docs/negotiation.md: known answers on the sample tasks, kept runs of two recipes."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from docs.build.guesses import Evaluation, mean, table
from palaver.envs.base.tasks import SAMPLES
from palaver.envs.negotiation import deal_or_no_deal as deal
from palaver.envs.negotiation import price, price_corpus
from palaver.markdown import markdown_table

DIGITS = "---:"
DEAL_HEAD = ("division", "agreed", "efficiency", "mean reward of both")
PRICE_HEAD = ("gain that the seller asks", "agreed", "efficiency", "gain of the seller", "of the buyer", "mean of both")
RUN_HEAD = ("seed", *(f"{name}: before, after" for name in ("agreed", "efficiency", "mean of both")), "CPU seconds")
ALONE_HEAD = (
    "seed",
    "gain of the seller, buyer is `scripted:reference`",
    "of the buyer, seller is `scripted:stubborn`",
    "agreed",
)


def parts(kept_runs: Path) -> dict[str, str]:
    """Name -> Markdown of each table."""
    kept = kept_runs / "negotiation"
    offers = [_posted(margin) for margin in price_corpus.MARGINS.values()]
    return {
        "deal": markdown_table(DEAL_HEAD, _divisions(), ("---", *(DIGITS,) * 3)),
        "deal-runs": table(RUN_HEAD, kept / "deal", _run),
        "price": markdown_table(PRICE_HEAD, offers, (DIGITS,) * 6),
        "price-runs": table(RUN_HEAD, kept / "price", _run),
        "price-alone": table(ALONE_HEAD, kept / "price", functools.partial(_alone, kept / "price")),
    }


def _divisions() -> list[tuple[str, ...]]:
    """Sums of both values: of the best division, of the best fixed one, and of those drawn by chance."""
    rows = deal.generate_deals(SAMPLES, 0)
    best = [deal.best_total(row["counts"], row) for row in rows]
    fixed = []  # of each way to give kinds to p1 and p2, in each task
    for givers in itertools.product(("p1", "p2"), repeat=len(deal.KINDS)):
        kinds = range(len(deal.KINDS))
        fixed.append([sum(row["counts"][k] * row[givers[k]][k] for k in kinds) for row in rows])
    chance = [fmean(column) / len(fixed) for column in zip(*fixed, strict=True)]
    return [
        _division("each kind to whom it is worth more", 1.0, best, best),
        _division("the best that is the same in all tasks", 1.0, max(fixed, key=fmean), best),
        _division("each agent takes or leaves each kind by chance", 1 / len(fixed), chance, best),
    ]


def _division(name: str, agreed: float, totals: Sequence[float], best: Sequence[float]) -> tuple[str, ...]:
    efficiency = fmean(total / most for total, most in zip(totals, best, strict=True))
    return (name, f"{agreed:.3f}", f"{efficiency:.3f}", f"{fmean(totals) / 2:.2f}")


def _posted(margin: int) -> tuple[str, ...]:
    """Outcome where the seller's last offer is its cost and `margin`, and the buyer accepts what loses nothing."""
    rows = price.generate_prices(SAMPLES, 0)
    reached = [row for row in rows if row["value"] >= row["cost"] + margin]
    agreed = len(reached) / len(rows)
    buyer = sum(row["value"] - row["cost"] - margin for row in reached) / price.SCALE / len(rows)
    seller = agreed * margin / price.SCALE
    return (str(margin), *(f"{x:.3f}" for x in (agreed, agreed, seller, buyer, (seller + buyer) / 2)))


def _run(seed: str, first: Evaluation, last: Evaluation) -> tuple[str, ...]:
    shown = [f"{first['metrics'][key]:.3f}, {last['metrics'][key]:.3f}" for key in ("agreed", "efficiency")]
    return (seed, *shown, f"{first['mean']:.3f}, {mean(last)}", f"{last['cpu_s']:.0f}")


def _alone(kept: Path, seed: str, *_: Evaluation) -> tuple[str, ...]:
    """Gains of a run's seller and buyer with a scripted partner."""
    results = [json.loads((kept / seed / f"{role}.json").read_text(encoding="utf-8")) for role in price.ROLES]
    gains = [mean(each["focal"]) for each in results]
    return (seed, *gains, f"{results[1]['metrics']['agreed']:.3f}")
