"""Every setting is used or shown: by a shipped recipe, as a default of an algorithm, or in an example of the docs."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import pytest
import typer
import yaml
from pydantic import BaseModel

from palaver.benchmarks.experiments.marlhf.recipe import MARLHFConfig
from palaver.benchmarks.experiments.matrix_games.plan import LabConfig
from palaver.benchmarks.experiments.reasoning.plan import ReasoningPlan
from palaver.benchmarks.performance.pokemon.speed import PokemonBenchmarkConfig
from palaver.benchmarks.performance.sandbox import SandboxBenchmark
from palaver.benchmarks.performance.step import StepBenchmark
from palaver.benchmarks.performance.teams import TeamBenchmark
from palaver.cli.app import app
from palaver.cli.commands.arena import ArenaSettings
from palaver.trainers.behaviour_cloning.config import BCConfig
from palaver.trainers.config.defaults import DEFAULTS
from palaver.trainers.config.run import RunConfig
from palaver.trainers.curriculum.config import Curriculum
from tests.architecture.source import ROOT, WINGS

CONFIGS: list[type[BaseModel]] = [
    *(RunConfig, MARLHFConfig, LabConfig, ReasoningPlan, BCConfig, Curriculum, ArenaSettings),
    *(StepBenchmark, TeamBenchmark, SandboxBenchmark, PokemonBenchmarkConfig),
]
MOST_OPTIONS = 12  # of a command; the rest are `key=value`
COMMAND_LINE = {"overrides"}  # holds the keys of the command line, whichever they are
EXAMPLE = re.compile(r"(?<![\w./-])((?:[a-z_]+\.)*[a-z_]+)(?:=(?=[^\s=`])|: (?=[^`\n]*`))")  # key=value, `key: value`
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)


def leaves(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Dotted keys of a config, with * for a name of the user's; numbers of lists are left out."""
    for name, field in model.model_fields.items():
        inner = [part for part in (field.annotation, *get_args(field.annotation)) if _is_model(part)]
        if inner:
            named = "*." if get_origin(field.annotation) is dict else ""
            yield from leaves(inner[0], f"{prefix}{name}.{named}")
        elif name not in COMMAND_LINE:
            yield f"{prefix}{name}"


def _is_model(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, BaseModel)


def keys(values: Any, prefix: str = "") -> Iterator[str]:
    """Dotted keys of plain data, of sections too; items of lists have the key of the list."""
    for item in values if isinstance(values, list) else ():
        yield from keys(item, prefix)
    for name, value in values.items() if isinstance(values, dict) else ():
        yield f"{prefix}.{name}"
        yield from keys(value, f"{prefix}.{name}")


@functools.cache
def used() -> str:
    """Every key that is set somewhere, one a line, each after a dot."""
    paths = [path for wing in WINGS for path in (ROOT / wing).rglob("*.yaml")]
    kept = ROOT / "docs" / "runs"
    pages = [ROOT / "README.md", *(path for path in (ROOT / "docs").rglob("*.md") if kept not in path.parents)]
    texts = [path.read_text(encoding="utf-8") for path in pages]
    data = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths]
    data += [yaml.safe_load(block) for text in texts for block in BLOCK.findall(text)]
    found = {key for values in data for key in keys(values)}
    found |= {f".{key}" for text in texts for key in EXAMPLE.findall(text)}
    found |= {f".{key}" for settings in DEFAULTS.values() for key in settings}
    return "".join(f"{key}\n" for key in sorted(found))


def shown(key: str) -> bool:
    """Whether a key is set somewhere, itself or with a name of the user's; an agent has the keys of `policy`."""
    patterns = [re.escape(each).replace(r"\*", r"\w+") for each in (key, key.replace("team.agents.*", "policy"))]
    return any(re.search(rf"\.{pattern}(\.|$)", used(), re.MULTILINE) for pattern in patterns)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_every_setting_is_used_or_shown(config):
    assert [key for key in leaves(config) if not shown(key)] == []


def test_a_setting_that_is_used_nowhere_is_named():
    class Section(BaseModel):
        lr: float = 0.1
        unheard_of: float = 0.1

    class Config(BaseModel):
        optim: Section = Section()

    assert [key for key in leaves(Config) if not shown(key)] == ["optim.unheard_of"]


def commands(group: Any = None, name: str = "palaver") -> Iterator[tuple[str, Any]]:
    """Every command with its name, those of groups too."""
    for word, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


def test_commands_have_few_options():
    counts = {
        name: sum(parameter.param_type_name == "option" and parameter.name != "help" for parameter in command.params)
        for name, command in commands()
    }
    assert len(counts) > 25
    assert {name: number for name, number in counts.items() if number > MOST_OPTIONS} == {}
