"""The environments' pages, written from their specs, signatures and docstrings.

`python -m palaver.envs.pages` rewrites `docs/envs/*.md`; with `--check` it names the pages that are out of date instead
and exits with code 1. Nothing on a page is typed twice, so a page cannot say what the code does not do.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from palaver.registry import Spec, make, resolve, specs

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "envs"
_ARGUMENT = re.compile(r"^    (?:    )?(\w+): (.+?)(?=^    (?:    )?\w+: |\Z)", re.MULTILINE | re.DOTALL)


def page(spec: Spec) -> str:
    """The whole page of an environment whose entry point is `module:class`, as Markdown."""
    module = importlib.import_module(str(spec.entry_point).partition(":")[0])
    summary, _, body = inspect.cleandoc(module.__doc__ or "").partition("\n\n")
    return (
        "\n\n".join(
            [
                f"# {spec.id}",
                f"<!-- written by `python -m palaver.envs.pages` from {module.__name__}; do not edit -->",
                summary,
                _table(spec),
                *_pictures(spec),
                *body.split("\n## ", 1)[:1],
                _arguments(spec),
                *("## " + section.strip() for section in ("\n" + body).split("\n## ")[1:]),
            ]
        ).replace("\n\n\n", "\n\n")
        + "\n"
    )


def _table(spec: Spec) -> str:
    env = make(spec.id)
    agent = env.possible_agents[0]
    rows = {
        "Creation": f'`palaver.make("{spec.id}")`, `pettingzoo.make("parallel", "palaver/{spec.id}")`',
        "Agents": ", ".join(f"`{name}`" for name in env.possible_agents),
        "Turns": str(spec.turns),
        "Observation": f"`{env.observation_space(agent)!r}`",
        "Action": f"`{env.action_space(agent)!r}`",
        "Conversation": env.metadata["conversation"],
        "Largest reward of a turn": f"{spec.max_reward:g}",
        "Built-in tasks": str(len(env.tasks)),
        "Public data set": f"`{spec.dataset}`" if spec.dataset else "none",
        "Scripted policies": ", ".join(f"`scripted:{name}`" for name in spec.scripted) or "none",
        "Render modes": ", ".join(f"`{mode}`" for mode in env.metadata["render_modes"]),
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def pictures(spec: Spec) -> dict[str, str]:
    """Scripted team -> the picture of its result on the first task.

    Teams are named as in `palaver.benchmarks.figures`.
    """
    offered = make(spec.id).metadata["render_modes"]
    teams = [name for name in spec.scripted if name != "lazy"] if "rgb_array" in offered else []
    return {name: f"{spec.id}-{name}.png" for name in teams}


def _pictures(spec: Spec) -> list[str]:
    images = pictures(spec)
    rows = ["| " + " | ".join(f"`scripted:{name}`" for name in images) + " |", "|" + "---|" * len(images)]
    rows += ["| " + " | ".join(f"![built by {name}](../figures/{file})" for name, file in images.items()) + " |"]
    return ["The first task after its first turn, by team:", "\n".join(rows)] if images else []


def _arguments(spec: Spec) -> str:
    descriptions: dict[str, str] = {}
    for base_class in reversed(inspect.getmro(resolve(str(spec.entry_point)))):  # a class tells what its bases do not
        section = inspect.cleandoc(base_class.__doc__ or "").partition("Args:\n")[2].partition("\nRaises:")[0]
        descriptions |= {name: " ".join(text.split()) for name, text in _ARGUMENT.findall(section)}
    rows = [f"| `{name}` | `{_value(p.default)}` | {descriptions[name]} |" for name, p in spec.keywords().items()]
    return "\n".join(["## Arguments", "", "| keyword | default | meaning |", "|---|---|---|", *rows])


def _value(default: object) -> str:
    return repr(dict(default) if isinstance(default, Mapping) else default)


def main(arguments: list[str]) -> int:
    """Write the pages of what is registered by its path, or with `--check` compare them.

    Returns the exit code.
    """
    paged = [spec for spec in specs().values() if isinstance(spec.entry_point, str)]
    wanted = {FOLDER / f"{spec.id}.md": page(spec) for spec in paged}
    return renew(wanted, "--check" in arguments, "python -m palaver.envs.pages")


def renew(wanted: Mapping[Path, str], check: bool, command: str) -> int:
    """Write the pages that are not as wanted, or only name them and the command that does.

    Returns the exit code.
    """
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if check and stale:
        print(f"out of date: {', '.join(path.name for path in stale)}; run {command}", file=sys.stderr)
        return 1
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
