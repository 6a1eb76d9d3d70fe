"""Pages whose script, style and data are within them, under a policy that names them."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from pathlib import Path
from typing import NamedTuple

from palaver.text import fill

TEMPLATE = Path(__file__).with_name("inline.html.j2")


class InlinePage(NamedTuple):
    """A page, and its content security policy, which it also names itself."""

    html: str
    policy: str


def inline_page(title: str, script: str, style: str, data: object, *directives: str) -> InlinePage:
    """Return a page that runs only this script and style, and loads nothing.

    Args:
        title: plain text.
        script: its script, which finds the element `app` and the data in `data`.
        style: its style.
        data: read by the script.
        directives: more of the policy.
    """
    sources = (f"script-src '{content_hash(script)}'", f"style-src '{content_hash(style)}'")
    policy = "; ".join(
        ["default-src 'none'", *sources, "img-src data:", "base-uri 'none'", "form-action 'none'", *directives]
    )
    values = {"title": escape(title), "policy": policy, "style": style, "script": script, "data": island(data)}
    return InlinePage(fill(TEMPLATE.read_text(encoding="utf-8"), values), policy)


def bundle(*paths: Path) -> str:
    """Return scripts as one, in a scope of its own."""
    return "(() => {\n'use strict';\n" + "".join(path.read_text(encoding="utf-8") for path in paths) + "})();\n"


def content_hash(text: str) -> str:
    """Return the CSP hash source of an inlined script or style: `sha256-` and base-64 digest."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def island(data: object) -> str:
    """Return JSON that is safe in a `<script>` element: no tag, comment or entity can start."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
