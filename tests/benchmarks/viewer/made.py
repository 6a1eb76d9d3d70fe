"""Episodes made for the viewer's tests, and what a page of theirs holds."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from palaver.core import Completion
from palaver.episodes import Episode, Turn

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=alert(1)><!-- {{ 7*7 }}{% raw %}"
    "\x1b[2J\x00\u202e\ud800\u2028 ]]> --> __proto__ &lt;b&gt;"
)


def episode(
    task: str = "t0",
    texts: dict[str, str] | None = None,
    parts: dict[str, float] | None = None,
    *,
    turns: int = 1,
    group: str = "0",
    env: str = "arxiv_v0",
    **changed: Any,
) -> Episode:
    """Every turn pays every agent the sum of `parts`; `changed` are fields of the turns."""
    texts = texts or {"a": "one two three", "b": "four"}
    parts = parts or {"style": 0.5}
    made = [
        Turn(**{
            "index": n, "node": f"{group}/{n}", "parent": "", "group": f"{group}@{n}",
            "choice": dict.fromkeys(texts, 0),
            "observations": {agent: f"{task}, turn {n}, for {agent}" for agent in texts},
            "completions": {agent: Completion(text) for agent, text in texts.items()},
            "rewards": dict.fromkeys(texts, sum(parts.values())), "components": dict.fromkeys(texts, parts),
            **changed,
        })
        for n in range(turns)
    ]  # fmt: skip
    return Episode(env, task, 7, tuple(made), "terminated", dict.fromkeys(texts, "tiny"))


def lines(*episodes: Episode) -> str:
    return "".join(json.dumps(each.to_dict()) + "\n" for each in episodes)


def save(path: Path, *episodes: Episode) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(lines(*episodes), encoding="utf-8")
    return path


class Page(HTMLParser):
    """Elements of a page: its tags, the texts of its scripts and styles, and its content policy."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.text = path.read_text(encoding="utf-8")
        self.tags: list[str] = []
        self.inside: dict[str, str] = {}
        self.loads: list[str] = []
        self.policy = ""
        self._open = ""
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self.loads += [v or "" for k, v in attrs if k in {"src", "href", "srcset", "data"} or k.startswith("on")]
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""
        self._open = found.get("id") or tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.inside[self._open] = self.inside.get(self._open, "") + data

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.inside["data"])
        return found
