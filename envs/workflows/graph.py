"""A workflow as data: its stages in order, and the earlier texts that their speakers see.

    Workflow(
        name="second-opinion",
        stages=(
            Stage(speakers=("doctor",)),
            Stage(speakers=("colleague",), kind="talk", shows=Shows(), ask="What speaks against it?"),
            Stage(speakers=("doctor",), shows=Shows(), ask="Answer again."),
        ),
        final="doctor",
    )

The stages are the nodes of a graph. An edge leads from every earlier stage whose speakers are shown to a later one; the
episode leaves the graph after the last stage, or earlier where a stage sets `until`. The same fields may stand in a
YAML or JSON file, or in a recipe.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from palaver.core import ConfigError
from palaver.text import first_fault, one_line

Kind = Literal["answer", "talk", "verdict", "choice"]
MOST_STAGES = 64


class Declared(BaseModel):
    """Data that never changes; copies of an environment share it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self


class Shows(Declared):
    """Selection of earlier texts that the speakers of a stage see.

    Attributes:
        whose: the others' texts, those of all (the own included), or those of some agents.
        what: the last text of each, or every text since the speaker last spoke, in order.
        mask: the answer in each text is hidden.
        most: how many texts at most: the first in order, or any that many where shuffled; None shows all.
        shuffle: in an order drawn for each speaker, and without names.
    """

    whose: Literal["others", "all"] | tuple[str, ...] = "others"
    what: Literal["last", "new"] = "last"
    mask: bool = False
    most: int | None = Field(None, ge=1)
    shuffle: bool = False


class WorkflowStage(Declared):
    """One turn: some agents speak at the same time.

    Attributes:
        speakers: the agents that speak.
        kind: `answer` answers the task and is scored; `talk` is not scored; `verdict` approves or rejects the current
            answer; `choice` names one of the answers shown by its number.
        shows: what they are shown; None shows nothing new.
        ask: the last words of their prompt.
        until: the episode ends after this stage if its answers agree (`consensus`) or its verdict approves.
        agree: the share of the speakers that makes a consensus.
    """

    speakers: tuple[str, ...] = Field(min_length=1)
    kind: Kind = "answer"
    shows: Shows | None = None
    ask: str = ""
    until: Literal["consensus", "approved"] | None = None
    agree: float = Field(1.0, gt=0, le=1)


class Workflow(Declared):
    """Stages, roles and final answer of a workflow.

    Attributes:
        name: its name.
        stages: the turns in order.
        final: the team's answer: an agent's last one, the majority (`vote`) of the agents' last answers, or those
            of the last stage that answers (`last`).
        roles: agent -> the beginning of its first prompt.
    """

    name: str = "own"
    stages: tuple[WorkflowStage, ...] = Field(min_length=1, max_length=MOST_STAGES)
    final: str = "last"
    roles: Mapping[str, str] = Field(default_factory=dict)

    @property
    def agents(self) -> tuple[str, ...]:
        """Everyone who speaks, in order of first speech."""
        return tuple(dict.fromkeys(agent for stage in self.stages for agent in stage.speakers))

    def shared_prompt_turns(self) -> frozenset[int]:
        """Stages with the same prompt in every episode of a task: no own text before, none shown."""
        turns, spoken = set[int](), set[str]()
        for index, stage in enumerate(self.stages):
            if stage.shows is None and not spoken.intersection(stage.speakers):
                turns.add(index)
            spoken.update(stage.speakers)
        return frozenset(turns)

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        agents, answered = self.agents, False
        for index, stage in enumerate(self.stages):
            location = f"stages[{index}]"
            if len(set(stage.speakers)) != len(stage.speakers):
                raise ValueError(f"{location} names a speaker twice")
            if not all(stage.speakers):
                raise ValueError(f"{location} has a speaker without a name")
            if stage.kind in ("verdict", "choice") and not answered:
                raise ValueError(f"{location} is a {stage.kind} with no answer before it")
            if stage.kind == "choice" and (stage.shows is None or stage.shows.what != "last"):
                raise ValueError(f"{location} is a choice and must show the last answer of each agent")
            if stage.until == "approved" and stage.kind != "verdict":
                raise ValueError(f"{location} can only end by approval if it is a verdict")
            if stage.until == "consensus" and stage.kind != "answer":
                raise ValueError(f"{location} can only end by consensus if it answers")
            if stage.shows and isinstance(stage.shows.whose, tuple):
                self._known(stage.shows.whose, f"{location}.shows.whose")
            answered |= stage.kind == "answer"
        if not answered:
            raise ValueError("no stage answers the task")
        if self.final not in ("vote", "last"):
            self._known((self.final,), "final")
            if not any(self.final in s.speakers and s.kind in ("answer", "choice") for s in self.stages):
                raise ValueError(f"final names {self.final!r}, who never answers")
        self._known(tuple(self.roles), "roles")
        if {"vote", "last", "others", "all"} & set(agents):
            raise ValueError("an agent cannot be called vote, last, others or all")
        return self

    def _known(self, named: tuple[str, ...], where: str) -> None:
        for agent in named:
            if agent not in self.agents:
                raise ValueError(f"{where} names {agent!r}, which never speaks; agents: {', '.join(self.agents)}")


def declared(source: Mapping[str, Any] | str | Path) -> Workflow:
    """A workflow from a mapping, or from a `.yaml`, `.yml` or `.json` file with the same fields.

    Raises:
        ConfigError: no such file, or fields that do not fit; the message names the first.
    """
    if isinstance(source, Mapping):
        return _checked(source, "workflow")
    path = Path(source)
    try:
        text = path.expanduser().read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError, RecursionError, RuntimeError) as error:
        raise ConfigError(f"workflow: cannot read {one_line(path)!r}: {one_line(error)}") from error
    if not isinstance(data, Mapping):
        raise ConfigError(f"workflow: {one_line(path)!r} holds no fields; write name, stages, final, roles")
    return _checked({"name": path.stem, **data}, f"workflow {one_line(path)!r}")


def is_file(source: object) -> bool:
    """Return whether `source` looks like the path of a workflow's file.

    >>> is_file("mine.yaml"), is_file("debate")
    (True, False)
    """
    return isinstance(source, Path) or (isinstance(source, str) and source.endswith((".yaml", ".yml", ".json")))


def _checked(data: Mapping[str, Any], what: str) -> Workflow:
    try:
        return Workflow.model_validate(dict(data))
    except ValidationError as error:
        raise ConfigError(f"{what}: {first_fault(error)}") from error
