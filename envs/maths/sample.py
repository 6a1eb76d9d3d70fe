"""Path of the sample of `gsm8k-v0`: word problems written for this project."""

from __future__ import annotations

from pathlib import Path

SAMPLE = Path(__file__).with_name("sample.jsonl")
