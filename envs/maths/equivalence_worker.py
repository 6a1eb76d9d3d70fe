"""The process that calls math-verify.

It reads a line of JSON `[truth, answer]` and writes `true` or `false`.
"""

from __future__ import annotations

import json
import logging
import resource
import sys

MEMORY = 4 << 30  # bytes of address space


def main() -> None:
    """Answer lines until there are no more."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    logging.disable(logging.CRITICAL)  # the library warns that timeouts are left to us, which they are
    from math_verify import parse, verify

    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        truth, answer = (parse(f"${text}$", parsing_timeout=None) for text in json.loads(line))
        same = bool(truth and answer) and verify(truth, answer, timeout_seconds=None)
        sys.stdout.write("true\n" if same else "false\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
