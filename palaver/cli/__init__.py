"""The command line.

`palaver envs | play | train | evaluate | report | compare | doctor | bench`. Importing this package is cheap; each
command imports what it needs when it runs.
"""

from __future__ import annotations

from palaver.cli.app import app, main

__all__ = ["app", "main"]
