"""Record of a stage: a JSON line after each measurement, with its bound and verdict."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from palaver.core import PalaverError
from palaver.text import one_line

Verdict = Literal["PASS", "FAIL", "SKIP", "INFO"]
LIMIT_S = 540.0  # a stage begins nothing new after so long, so that it ends within 10 minutes


@dataclass(frozen=True, slots=True)
class Bound:
    """Bound of a value.

    Attributes:
        number: of the bound.
        most: True if it is the largest value allowed, False if it is the smallest.
        gpu: True if it holds on a CUDA GPU only.
    """

    number: float
    most: bool = True
    gpu: bool = True

    def holds(self, value: float) -> bool:
        """Return whether a value is within the bound; what is not a number never is."""
        return value <= self.number if self.most else value >= self.number

    def __str__(self) -> str:
        return f"{'<=' if self.most else '>='} {self.number:g}"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of a stage.

    Attributes:
        stage: 1 to 4.
        name: of the measurement.
        verdict: PASS or FAIL of its bound, SKIP if it was not measured, INFO if it has no bound here.
        value: measured; None if it was not.
        unit: of the value.
        bound: as text, "" if none.
        reason: why it was skipped or failed without a value.
        details: further numbers.
    """

    stage: int
    name: str
    verdict: Verdict
    value: float | None = None
    unit: str = ""
    bound: str = ""
    reason: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """The measurement as a line of text."""
        parts = [f"{self.verdict:<4}", self.name]
        parts += [] if self.value is None else [f"{self.value:.4g} {self.unit}".strip()]
        parts += [f"({self.bound})"] if self.bound else []
        return "  ".join([*parts, self.reason]).rstrip()


class StageRecord:
    """Measurements of a stage, each written to a file as soon as it is made.

    Args:
        stage: 1 to 4.
        out: file of JSON lines, which is written from the beginning.
        gpu: True on a CUDA GPU, where all bounds hold.
        log: called with each line of text.
    """

    def __init__(self, stage: int, out: Path, gpu: bool, log: Callable[[str], None]) -> None:
        self.stage, self.out, self.gpu, self.log = stage, out, gpu, log
        self.measurements: list[Measurement] = []
        self._began = time.monotonic()
        out.write_text("", encoding="utf-8")

    @property
    def failed(self) -> list[str]:
        """Names of the measurements outside of their bounds."""
        return [each.name for each in self.measurements if each.verdict == "FAIL"]

    def begin(self, about: dict[str, Any]) -> None:
        """Write the first line: device, versions, sizes."""
        self._write({"stage": self.stage, "about": about})

    def value(self, name: str, value: float, unit: str = "", bound: Bound | None = None, **details: Any) -> None:
        """Record a value; a bound of a GPU is not applied elsewhere."""
        applies = bound is not None and (self.gpu or not bound.gpu)
        verdict: Verdict = "INFO"
        if bound is not None and applies:
            verdict = "PASS" if bound.holds(value) else "FAIL"
        number = value if math.isfinite(value) else None  # JSON has no others
        reason = "not a finite number" if number is None else ""
        text = str(bound) if applies else ""
        self._add(Measurement(self.stage, name, verdict, number, unit, text, reason, details))
        if bound is not None and not applies:
            self.skip(f"{name}: bound", f"{bound} holds on a CUDA GPU")

    def skip(self, name: str, reason: str) -> None:
        """Record that something was not measured."""
        self._add(Measurement(self.stage, name, "SKIP", reason=reason))

    def gpu_only(self, name: str) -> bool:
        """Return whether there is a CUDA GPU, and record the measurement as skipped if not."""
        if not self.gpu:
            self.skip(name, "needs a CUDA GPU")
        return self.gpu

    def measure(self, name: str, make: Callable[[], None]) -> None:
        """Call a function that records values; an error is a failure of `name`."""
        if time.monotonic() - self._began > LIMIT_S:
            self.skip(name, f"the stage has taken {LIMIT_S:.0f} s already")
            return
        try:
            make()
        except (RuntimeError, PalaverError) as error:  # CUDA's errors are RuntimeErrors, lack of memory too
            reason = one_line(f"{type(error).__name__}: {error}", 300)
            self._add(Measurement(self.stage, name, "FAIL", reason=reason))

    def _add(self, measurement: Measurement) -> None:
        self.measurements.append(measurement)
        self._write(asdict(measurement))
        self.log(measurement.line())

    def _write(self, line: dict[str, Any]) -> None:
        with self.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
