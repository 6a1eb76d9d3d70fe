"""Monitoring of scores: too many failures, and signs of reward hacking."""

from __future__ import annotations

import math
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from palaver.core import PalaverWarning, ScoringError
from palaver.scoring import Cost, Reward, Score, ScoringRequest
from palaver.text import one_line

RECENT = 100  # verdicts whose failures are counted
LEAST = 20  # verdicts before a share of failures means anything
FAILURES = 0.2
HISTORY = 400  # scores that are searched for signs of gaming
EARLY = 50  # scores before lengths are looked at
LENGTH = 0.7
APART = 2.0  # standard errors


class RewardMonitor:
    """Scores cases and looks at what comes back. Every fork of an environment shares one.

    Args:
        reward: scores. Its `failure_limit`, if it has one, is the share of recent failures above which the run stops.
    """

    def __init__(self, reward: Reward) -> None:
        self.reward = reward
        self.limit = float(getattr(reward, "failure_limit", FAILURES))
        self._recent: deque[str] = deque(maxlen=RECENT)
        self._lengths: deque[tuple[int, float]] = deque(maxlen=HISTORY)
        self._pairs: deque[tuple[float, float]] = deque(maxlen=HISTORY)
        self._spent, self._cases, self._failed = Cost(), 0, 0
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    def score(self, cases: Sequence[ScoringRequest]) -> list[Score]:
        """One verdict a case.

        Raises:
            ScoringError: too many of the recent cases could not be scored, or the reward broke its contract.
        """
        verdicts = list(self.reward.score(cases))
        name = one_line(self.reward.name, 80)
        if len(verdicts) != len(cases):
            raise ScoringError(f"{name} gave {len(verdicts)} verdicts for {len(cases)} cases")
        for verdict in verdicts:
            numbers = (0.0 if verdict.score is None else verdict.score, *verdict.criteria.values())
            if not all(map(math.isfinite, (*numbers, *verdict.metrics.values()))):
                raise ScoringError(f"{name} gave a score that is not finite")
        with self._lock:
            self._note(cases, verdicts)
            self._stop(name)
            self._warn(name)
        return verdicts

    def measured(self) -> dict[str, float]:
        """Metrics since the last call: cases, failures, calls, tokens, dollars, the reward's own."""
        with self._lock:
            spent = self._spent
            metrics = {
                "cases": float(self._cases),
                "unscored": self._failed / max(1, self._cases),
                "calls": float(spent.calls),
                "tokens": float(spent.prompt_tokens + spent.completion_tokens),
                "dollars": spent.dollars,
            }
            if len(self._lengths) >= EARLY:
                metrics["length_correlation"] = correlation(self._lengths)
            self._spent, self._cases, self._failed = Cost(), 0, 0
        reward_metrics: Callable[[], Mapping[str, float]] = getattr(self.reward, "metrics", dict)
        return {**metrics, **reward_metrics()}

    def _note(self, cases: Sequence[ScoringRequest], verdicts: Sequence[Score]) -> None:
        for case, verdict in zip(cases, verdicts, strict=True):
            self._cases += 1
            self._spent += verdict.cost
            self._recent.append("" if verdict.score is not None else verdict.failure or "no reason given")
            if verdict.score is None:
                self._failed += 1
                continue
            self._lengths.append((sum(map(len, case.completions.values())), verdict.score))
            if "holdout" in verdict.metrics:
                self._pairs.append((verdict.score, verdict.metrics["holdout"]))

    def _stop(self, name: str) -> None:
        failures = Counter(failure for failure in self._recent if failure)
        share = failures.total() / max(1, len(self._recent))
        if len(self._recent) >= LEAST and share > self.limit:
            often = one_line(failures.most_common(1)[0][0], 160)
            raise ScoringError(
                f"{name} could not score {failures.total()} of its last {len(self._recent)} cases, more than "
                f"{self.limit:.0%}; most often: {often}"
            )

    def _warn(self, name: str) -> None:
        if "length" not in self._warned and len(self._lengths) >= EARLY:
            corr = correlation(self._lengths)
            if corr > LENGTH:
                self._warned.add("length")
                warnings.warn(
                    f"{name}: scores follow length (rank correlation {corr:.2f} over the last {len(self._lengths)} "
                    "answers); look at some before you trust them",
                    PalaverWarning,
                    stacklevel=2,
                )
        if "gap" not in self._warned and parted(self._pairs):
            self._warned.add("gap")
            warnings.warn(
                f"{name}: scores rise while those of the judge held out fall; the team may be gaming its judge",
                PalaverWarning,
                stacklevel=2,
            )


def correlation(points: Sequence[tuple[float, float]]) -> float:
    """Spearman's rank correlation of (length, score); 0 where either never changes."""
    from scipy import stats

    lengths, scores = np.asarray(list(points), dtype=float).T
    changing = np.ptp(lengths) > 0 and np.ptp(scores) > 0
    return float(stats.spearmanr(lengths, scores).statistic) if changing else 0.0


def parted(pairs: Sequence[tuple[float, float]]) -> bool:
    """Return whether scores rose while hold-out scores fell, from the first half to the second.

    Each by more than `APART` standard errors of a difference of means, sqrt(s1^2/n1 + s2^2/n2) (Welch 1947), and over
    `EARLY` pairs or more.
    """
    if len(pairs) < EARLY:
        return False
    pairs_array = np.asarray(list(pairs), dtype=float)
    first, second = pairs_array[: len(pairs_array) // 2], pairs_array[len(pairs_array) // 2 :]
    error = np.sqrt(first.var(0, ddof=1) / len(first) + second.var(0, ddof=1) / len(second))
    moved = second.mean(0) - first.mean(0)
    return bool(moved[0] > APART * error[0] and moved[1] < -APART * error[1])
