"""Failures of a call, in the words of `palaver.scoring`, and whether to retry."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import openai

from palaver.text import one_line

AGAIN = (408, 409, 425)  # in addition to 429 and 5xx: statuses that another attempt may not meet


class CallError(Exception):
    """One attempt that brought no answer.

    Attributes:
        word: `transport`, `timeout`, `rate limit`, `refusal`, `unparseable` or `budget`.
        again: True if another attempt may succeed.
        after: seconds that the server requests to wait before it.
        billed: True if the server may have charged for it: it had the request and did not refuse it.
    """

    def __init__(
        self, word: str, detail: str, *, again: bool = False, after: float | None = None, billed: bool = False
    ) -> None:
        super().__init__(f"{word}: {one_line(detail, 300)}")
        self.word = word
        self.again = again
        self.after = after
        self.billed = billed


def failed(error: openai.OpenAIError) -> CallError:
    """Translate an error of the client."""
    if isinstance(error, openai.APIStatusError):
        return _refused(error)
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__
        # the HTTP library behind the client changes with its version, its names do not
        unmet = type(cause).__name__ in ("ConnectError", "ConnectTimeout", "UnsupportedProtocol", "ProxyError")
        word = "timeout" if isinstance(error, openai.APITimeoutError) else "transport"
        return CallError(word, str(cause or "") or type(cause or error).__name__, again=True, billed=not unmet)
    return CallError("transport", str(error))


def _refused(error: openai.APIStatusError) -> CallError:
    status, after = error.status_code, retry_after(error.response.headers, time.time())
    detail = f"HTTP {status}: {_server_message(error)}"
    if status == 429:
        return CallError("rate limit", detail, again=error.code != "insufficient_quota", after=after)
    if error.code in ("content_filter", "content_policy_violation"):
        return CallError("refusal", detail)
    return CallError("transport", detail, again=status >= 500 or status in AGAIN, after=after)


def _server_message(error: openai.APIStatusError) -> str:
    """The server's own words: those of OpenAI's error shape, else the beginning of what it sent."""
    if isinstance(error.body, dict) and isinstance(error.body.get("message"), str):
        return str(error.body["message"])
    return error.response.text.strip()[:200] or "no words"


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait according to a reply's headers; None if they have none.

    The headers are `retry-after-ms`, or `Retry-After` in seconds or as a date.

    Args:
        headers: names in small letters, or in any where the mapping does not mind.
        now: seconds since the epoch, to measure a date by.
    """
    exact = _parse_number(headers.get("retry-after-ms"))
    if exact is not None:
        return exact / 1000
    header = headers.get("retry-after")
    seconds = _parse_number(header)
    if seconds is not None or header is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except (TypeError, ValueError, OverflowError):  # neither a number nor a date
        return None


def _parse_number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None
