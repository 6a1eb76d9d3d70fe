"""`palaver doctor`: check of this machine."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import util
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.text import Text

from palaver.cli.output import console, say, table
from palaver.core import EXTRAS
from palaver.utils.machine import usable_cores
from palaver.utils.provenance import version

HELP = """Check whether this machine can train; exit code 1 if not.

"""
State = Literal["ok", "note", "bad"]
_MARKS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "bad": ("missing", "bold red")}

NAMED = 4  # missing modules that are named, of an extra
SHOWN = ("numpy", "scipy", "pettingzoo", "gymnasium", "pydantic", "omegaconf", "transformers", "accelerate", "datasets")


@dataclass(frozen=True)
class Finding:
    """One line of the check; `hint` is the remedy."""

    name: str
    value: str
    state: State = "ok"
    hint: str = ""


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False) -> None:
    """Check this machine."""
    findings = list(examine())
    if as_json:
        import json

        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        _show(findings)
    raise typer.Exit(1 if any(finding.state == "bad" for finding in findings) else 0)


def examine() -> Iterator[Finding]:
    """Yield the findings that decide whether and how fast a team can be trained here."""
    old = sys.version_info < (3, 11)
    yield Finding("Python", platform.python_version(), "bad" if old else "ok", "Palaver needs 3.11" if old else "")
    yield Finding("Palaver", version("palaver") or "not installed, running from its folder")
    yield from _torch()
    yield Finding("libraries", ", ".join(f"{name} {installed}" for name in SHOWN if (installed := version(name))))
    yield from _extras()
    yield from _machine()
    yield from _caches()
    yield from _sandbox()
    yield from _showdown()


def _torch() -> Iterator[Finding]:
    if util.find_spec("torch") is None:
        yield Finding("torch", "not installed", "bad", "pip install 'palaver[train]'")
        return
    import torch

    yield Finding("torch", f"{torch.__version__}, {torch.get_num_threads()} threads")
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            free, total = torch.cuda.mem_get_info(index)
            name = torch.cuda.get_device_name(index)
            yield Finding(f"GPU {index}", f"{name}, {_size(free)} free of {_size(total)}")
    elif torch.backends.mps.is_available():
        yield Finding("GPU", "Apple MPS")
    else:
        yield Finding("GPU", "none; models run on the CPU", "note", "enough for the tiny model")


def _extras() -> Iterator[Finding]:
    for extra, modules in {**EXTRAS, "dev": ("pytest", "mypy", "hypothesis")}.items():
        missing = [name for name in modules if util.find_spec(name) is None]
        if not missing:
            yield Finding(f"extra [{extra}]", "complete")
        else:
            state: State = "bad" if extra == "train" else "note"
            more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
            value = f"without {', '.join(missing[:NAMED])}{more}"
            yield Finding(f"extra [{extra}]", value, state, f"pip install 'palaver[{extra}]'")


def _machine() -> Iterator[Finding]:
    usable = usable_cores()
    threads = os.environ.get("OMP_NUM_THREADS")
    yield Finding("cores", f"{usable}" + (f", OMP_NUM_THREADS={threads}" if threads else ""))
    if util.find_spec("psutil") is not None:
        import psutil

        memory = psutil.virtual_memory()
        low = memory.available < 2 << 30
        yield Finding(
            "memory",
            f"{_size(memory.available)} free of {_size(memory.total)}",
            "note" if low else "ok",
            "the demo wants about 2 GiB" if low else "",
        )
    disk = shutil.disk_usage(Path.cwd())
    low = disk.free < 1 << 30
    yield Finding(
        "disk here", f"{_size(disk.free)} free", "note" if low else "ok", "runs want about 1 GiB" if low else ""
    )


def _caches() -> Iterator[Finding]:
    if util.find_spec("torch") is not None:  # else there are no models to be cached
        from palaver.utils.machine import cache_folder

        folder = cache_folder()
        names = ", ".join(sorted(path.parent.name for path in folder.glob("tiny/*/config.json")))
        yield Finding("Palaver's cache", str(folder), *_writable(folder))
        yield Finding("tiny models taught here", names or "none", "ok", "" if names else "our own ones ship")
    offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    online = "asked when a model or data set is named hf:…"
    yield Finding("Hugging Face hub", "offline, by HF_HUB_OFFLINE" if offline else online)


def _sandbox() -> Iterator[Finding]:
    from palaver.envs.code.sandbox.view import probe

    abilities = probe()
    works = [ability for ability in abilities if ability.works]
    for ability in abilities:
        used = "used" if works and ability is works[0] else "fallback" if ability.works else "not possible"
        hint = "" if ability.works else ability.detail
        value = f"{used}: {ability.detail}" if ability.works else used
        yield Finding(f"sandbox, {ability.mode}", value, "ok" if ability.works else "note", hint)
    if not works:
        yield Finding("sandbox", "none", "note", "the coding environments need one; see docs/sandbox.md")


def _showdown() -> Iterator[Finding]:
    from palaver.envs.pokemon.showdown import install
    from palaver.envs.pokemon.showdown.errors import ShowdownError

    try:
        runtime = install.find_node()
        yield Finding("Node.js", f"{runtime.version}, {runtime.path}")
    except ShowdownError as error:
        yield Finding("Node.js", "not found", "note", str(error))
    if install.present():
        yield Finding("Pokémon simulator", f"pokemon-showdown {install.version()}, {install.folder()}")
    else:
        yield Finding("Pokémon simulator", "not installed", "note", "palaver pokemon install")


def _writable(folder: Path) -> tuple[State, str]:
    parent = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=parent):
            return "ok", ""
    except OSError:
        return "bad", f"{parent} cannot be written; set PALAVER_CACHE to a folder that can"


def _size(count: float) -> str:
    return f"{count / (1 << 30):.1f} GiB"


def _show(findings: list[Finding]) -> None:
    grid = table("", "", "", "")
    grid.show_header = False
    for finding in findings:
        mark, style = _MARKS[finding.state]
        grid.add_row(Text(mark, style=style), Text(finding.name), Text(finding.value), Text(finding.hint, style="dim"))
    console.print(grid)
    bad = [finding.name for finding in findings if finding.state == "bad"]
    say(Text(f"\nnot ready: {', '.join(bad)}", style="bold red") if bad else Text("\nready", style="bold green"))
