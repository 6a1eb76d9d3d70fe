"""Commands that the documentation shows, and how each runs in a test: at short settings, or why it does not."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.source import ROOT
from tests.docs.blocks import PAGES

KEPT = ROOT / "docs" / "runs"  # commands of kept runs are those of the commit they were made at
_INLINE = re.compile(r"(?<!`)`palaver ([^`]+)`(?!`)")
_PLACEHOLDER = re.compile(r"(?<![\w-])(?:EPISODES|FILE|FOLDER|ID|LR|NAME|RECIPE|RUN)(?![\w-])")

NOT_RUN = {  # part of a command -> what it needs
    "Qwen/": "a model of the hub",
    "-qwen": "a model of the hub",
    "hf:MODEL": "a model of the hub",
    "echo-magrpo": "a model of the hub",
    "--push": "an account of the hub",
    "device=cuda": "a GPU",
    "peer_python=": "another library",
    "DATA/": "data of others",
    "judge:FILE.yaml": "a judge behind a server",
    "judge:hf:": "a model that judges",
    "judge:judge.yaml": "a judge behind a server",
    "judge:openai:MODEL": "a judge behind a server",
    "--browser": "a person, as in tests/benchmarks/play_page",
    "--live": "a run that trains at the same time, as in tests/benchmarks/test_live.py",
    "endurance=": "an hour",
    "evaluate --": "a part of a command",
    "crossing-": "a plug-in of the reader's, as in tests/test_plugin_wheel.py",
    "curriculum ablate": "minutes of battles, as in tests/cli/test_curriculum.py",
    "--from-scratch": "minutes of teaching, as in tests/agents/test_tiny.py",
}
EXTRAS = {  # pattern of a command -> the extra without which it ends in one line
    "^serve ": "serve",
    "log.wandb=": "wandb",
    "experiment marlhf reward-model": "rm",
    "experiment marlhf arxiv-marlhf": "rm",
    "experiment marlhf runs/": "rm",
    "export inspect": "inspect",
    "textarena": "textarena",
    "kuhn.yaml": "textarena",
    "pokemon ladder": "poke-env",
    "poke-env:": "poke-env",
    "import-metamon": "replays",
    "openai:": "judge",
    "placement.kind=ray": "ray",
    "engine=vllm": "vllm",
}
QUICK = "train.steps=1+train.prompts_per_step=1+algorithm.group_size=2+eval.n=1+eval.samples=1"
READERS = {"runs/FOLDER": "runs/longer", "run:FOLDER": "run:runs/longer", "data=FILE": "data=mbpp.jsonl"}

SHORT: Sequence[tuple[str, Mapping[str, str]]] = (  # pattern of a command -> settings; with ? only where none is given
    (
        r"^train (?!.*--(explain|dry-run|resume))(?!--resume)\S",
        {
            "train.steps": "1",
            "eval.n": "1",
            "eval.samples": "1",
            "log.tensorboard": "false",
            "train.prompts_per_step?": "1",
            "algorithm.group_size?": "2",
        },
    ),
    (r"^demo", {"train.steps": "1", "eval.n": "2", "train.prompts_per_step": "1", "algorithm.group_size": "2"}),
    (r"^evaluate .*--samples", {"--samples": "2"}),
    (r"^evaluate (?!.*( -n |--n ))(?!\S+-v[12]\b)(?!coding-mini-strangers)", {"-n": "2"}),
    (r"^evaluate (matrix|pokemon)-v1", {"-n": "2"}),
    (r"^train arxiv-(cispo|dapo|gspo)", {"algorithm.minibatches": "2"}),
    (r"^evaluate .*( --n )", {"--n": "2"}),
    (r"^arena (?!.*--(explain|dry-run))", {"--games": "2"}),
    (r"^leaderboard.*--measure", {"--only": "echo-v0", "--work": "work"}),
    (
        r"^results sweep",
        {
            "train.steps": "9",
            "eval.n": "1",
            "eval.samples": "1",
            "train.prompts_per_step": "1",
            "--seeds": "0",
        },
    ),
    (r"^results analyse", {"--tasks": "1", "--contexts": "1", "--alternatives": "2", "--replays": "1"}),
    (
        r"^experiment matrix-games(?!.*--dry-run)",
        {"lab.games": "[xor]", "lab.algorithms": "[magrpo]", "lab.seeds": "1", "train.steps": "1"},
    ),
    (r"^experiment reasoning(?!.*--dry-run)", {"--seeds": "1", "--dry-run": ""}),  # its table has eleven rows
    (r"^experiment curriculum run \S", {"--no-rehearse": ""}),
    (r"^experiment curriculum run \S(?!.*--dry-run)", {"--dry-run": ""}),  # as minutes of battles
    (r"^pokemon clone", {"epochs": "1", "decisions": "64"}),
    (r"^judge audit", {"--repeats": "1", "--probes": "1", "--timed": "1"}),
    (r"^bench step", {"setting": "A", "prompts": "1", "repeats": "1", "steps": "1", "memory": "false"}),
    (r"^bench teams", {"size": "0.1M", "agents": "2", "group": "2", "steps": "1", "kinds?": "[one,lora]"}),
    (r"^bench sandbox", {"programs": "4"}),
    (
        r"^bench pokemon",
        {"formats": "gen1ou", "seconds": "0.1", "repeats": "1", "warm": "1", "battles": "1", "peers": "false"},
    ),
)
UNTIL = {"pokemon serve": "listening"}  # text after which a server is ended


@dataclass(frozen=True)
class Shown:
    """A command of a page.

    Attributes:
        page: its file.
        section: the nearest heading above it.
        words: its arguments.
    """

    page: Path
    section: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """The arguments on one line."""
        return shlex.join(self.words)

    @property
    def reason(self) -> str:
        """What it needs that no test has; empty where it runs."""
        readers = _PLACEHOLDER.search(" ".join(self._of_test()))
        return next((why for part, why in NOT_RUN.items() if part in " ".join(self.words)), "") or (
            f"{readers[0]} is the reader's" if readers else ""
        )

    @property
    def extra(self) -> str:
        """The extra that it names where only `demo` is installed; empty where it needs none."""
        if {"--explain", "--help"} & set(self.words):
            return ""
        return next((extra for part, extra in EXTRAS.items() if re.search(part, " ".join(self.words))), "")

    @property
    def until(self) -> str:
        """Text at which it is interrupted, for a server."""
        return next((text for part, text in UNTIL.items() if self.text.startswith(part)), "")

    def _of_test(self) -> list[str]:
        text = " ".join(self.words)
        words = list(self.words)
        for old, new in READERS.items():
            words = [word.replace(old, new) for word in words] if old in text else words
        words = [re.sub(r"(runs/longer/episodes/eval)-\d{6}", r"\1-000001", word) for word in words if word != "--open"]
        return [re.sub(r"^(recipe:[\w-]+).*", rf"\1+{QUICK}", word) for word in words]

    def short(self) -> list[str]:
        """Its arguments at short settings."""
        words = self._of_test()
        for pattern, settings in SHORT:
            if re.search(pattern, self.text):
                for key, value in settings.items():
                    words = _set(words, key, value)
        return words


def _set(words: list[str], key: str, value: str) -> list[str]:
    """Arguments with another value of an option or a key."""
    key, optional = key.removesuffix("?"), key.endswith("?")
    if key.startswith("-") and not value:
        return [*words, key]
    if key.startswith("-"):
        at = words.index(key) if key in words else len(words)
        return words if optional and key in words else [*words[:at], key, value, *words[at + 2 :]]
    given = [word for word in words if word.startswith(f"{key}=")]
    if optional and given:
        return words
    return [*(word for word in words if word not in given), f"{key}={value}"]


def commands(page: Path) -> list[Shown]:
    """Every `palaver` command of a page that has an argument, in blocks and within the text, in order."""
    found: list[Shown] = []
    heading, fence, text = "", "", ""
    for line in [*page.read_text(encoding="utf-8").splitlines(), "# end"]:
        mark = re.match(r" *(`{3,}|~{3,})(.*)", line)
        if mark or (line.startswith("#") and not fence):
            found += [
                Shown(page, heading, words) for each in _INLINE.findall(text) for words in _words(each, bare=False)
            ]
            text = ""
        if mark:
            fence = "" if fence else mark[2].strip() or "text"
        elif fence in ("text", "bash", "console"):
            shown = re.match(r" *(?:\$ )?palaver (.*)", line)
            found += [Shown(page, heading, words) for words in _words(shown[1])] if shown else []
        elif line.startswith("#") and not fence:
            heading = line.lstrip("# ")
        elif not fence:
            text += f"{line.strip()} "
    return found


def _words(text: str, bare: bool = True) -> Iterator[tuple[str, ...]]:
    words = shlex.split(text.removesuffix("&"), comments=True)
    if bare or any(not re.fullmatch(r"[a-z-]+", word) for word in words):  # else it names a command
        yield tuple(each for word in words for each in _expanded(word))


def _expanded(word: str) -> list[str]:
    """Paths that a shell makes of a pattern in the repository."""
    if not word.startswith("docs/"):
        return [word]
    if braces := re.search(r"\{(.+?)\}", word):
        return [path for part in braces[1].split(",") for path in _expanded(word.replace(braces[0], part, 1))]
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(word)) if "*" in word else [word]


def everywhere() -> list[Shown]:
    """The commands of all pages but those of kept runs, each once for a section."""
    pages = [page for page in PAGES if KEPT not in page.parents]
    return list(dict.fromkeys(command for page in pages for command in commands(page)))
