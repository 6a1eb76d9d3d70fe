"""Pool of opponents: its members, where their weights lie, and the results against them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from palaver.agents.base.policy import Policy
from palaver.core import CheckpointError
from palaver.utils.run_folder import publish_folder

FOLDER = "league"  # in the run's folder, with a folder of weights for each member
TEAM = "team.json"  # of a member: agent -> folder of its policy
MAIN = "main"  # line of the learning team
DECAY = 0.95  # of a score, a task


@dataclass(frozen=True, slots=True)
class PoolMember:
    """Opponent in a pool.

    Attributes:
        name: `main@20` for the team after update 20, `exploiter-1@100`, or a fixed opponent as `--team` names it.
        line: `main`, `exploiter-1`, or the name of a fixed opponent: members of one line follow each other.
        step: updates after which it joined; 0 for a fixed opponent.
        fixed: True if it is no part of this run.
    """

    name: str
    line: str
    step: int = 0
    fixed: bool = False


@dataclass(slots=True)
class Points:
    """Results of the learning team against one member.

    Attributes:
        tasks: tasks played.
        mean: moving mean of its points, 1 for a win and 1/2 for a tie; recent tasks weigh more, as the team learns.
    """

    tasks: int = 0
    mean: float = 0.0

    def add(self, points: float) -> None:
        """Add one task: a plain mean at first, then with a decay."""
        self.tasks += 1
        self.mean += (points - self.mean) * max(1 / self.tasks, 1 - DECAY)


Load = Callable[[Path, str], Policy]  # folder of a saved policy, agent -> the policy


class Pool:
    """Opponents of a league.

    Past selves and exploiters are saved in the run's folder, and loaded when they are drawn.

    Args:
        folder: folder of the run.
        size: saved members kept.
        fixed: name -> team of a fixed opponent.
        load: loads a saved policy.

    Attributes:
        members: fixed ones first, then by age.
        scores: name -> results of the learning team.
    """

    def __init__(self, folder: Path, size: int, fixed: Mapping[str, Mapping[str, Policy]], load: Load) -> None:
        self.folder, self.size, self.fixed, self.load = folder / FOLDER, size, dict(fixed), load
        self.members = [PoolMember(name, name, fixed=True) for name in fixed]
        self.scores: dict[str, Points] = {}
        self._retired: dict[str, int] = {}  # name -> update since which it is no member
        self._loaded: dict[str, Mapping[str, Policy]] = {}

    @property
    def points(self) -> dict[str, float]:
        """Name -> mean points of the learning team against it, of members that were met."""
        return {name: score.mean for name, score in self.scores.items()}

    def add(
        self,
        line: str,
        step: int,
        team: Mapping[str, Any],
        texts: Mapping[str, str] | None = None,
        *,
        main: bool = True,
    ) -> PoolMember:
        """Save policies and make them a member; the oldest saved member leaves a full pool.

        Args:
            line: `main` or the name of an exploiter.
            step: updates done.
            team: agent -> its policy, which can be saved; agents may share one.
            texts: file name -> content of other files of the member.
            main: True on the process that writes.
        """
        member = PoolMember(f"{line}@{step}", line, step)

        def fill(folder: Path) -> None:
            first = {id(policy): agent for agent, policy in reversed(list(team.items()))}
            homes = {agent: first[id(policy)] for agent, policy in team.items()}
            for home in sorted(set(homes.values())):
                team[home].save(folder / home)
            (folder / TEAM).write_text(json.dumps(homes), encoding="utf-8")
            for name, text in (texts or {}).items():
                (folder / name).write_text(text, encoding="utf-8")

        if main:
            publish_folder(self.folder_of(member.name), fill)
        self.members.append(member)
        saved = [member for member in self.members if not member.fixed]
        for old in saved[: -self.size]:
            self.members.remove(old)
            self._retired[old.name] = step
            self.scores.pop(old.name, None)
        return member

    def teams(self, names: Sequence[str]) -> dict[str, Mapping[str, Policy]]:
        """Name -> team of the members of a step; of saved ones no others stay in memory.

        Raises:
            CheckpointError: the folder of a member is missing.
        """
        saved = [name for name in dict.fromkeys(names) if name not in self.fixed]
        self._loaded = {name: team for name, team in self._loaded.items() if name in saved}
        for name in saved:
            if name not in self._loaded:
                self._loaded[name] = self._load(name)
        return {name: self.fixed[name] if name in self.fixed else self._loaded[name] for name in names}

    def _load(self, name: str) -> dict[str, Policy]:
        folder = self.folder_of(name)
        if not (folder / TEAM).is_file():
            raise CheckpointError(
                f"the league lacks {str(folder)!r}, the weights of its member {name}: copy it back from where the run "
                "was, or start the run again"
            )
        homes = json.loads((folder / TEAM).read_text(encoding="utf-8"))
        loaded = {home: self.load(folder / home, home) for home in dict.fromkeys(homes.values())}
        for home, policy in loaded.items():
            policy.name = f"{name}/{home}"
        return {agent: loaded[home] for agent, home in homes.items()}

    def folder_of(self, name: str) -> Path:
        """Folder of a saved member."""
        return self.folder / name

    def clean(self, oldest: int) -> None:
        """Remove weights that no kept checkpoint names.

        Args:
            oldest: step of the oldest checkpoint that is kept.
        """
        for name, step in list(self._retired.items()):
            if step <= oldest:
                shutil.rmtree(self.folder_of(name), ignore_errors=True)
                del self._retired[name]

    def state_dict(self) -> dict[str, Any]:
        """State that the next step depends on; weights are in folders."""
        return {
            "members": [asdict(member) for member in self.members],
            "scores": {name: asdict(score) for name, score in self.scores.items()},
            "retired": dict(self._retired),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; later folders of a run that was stopped are removed."""
        self.members = [PoolMember(**member) for member in state["members"]]
        self.scores = {name: Points(**score) for name, score in state["scores"].items()}
        self._retired = dict(state["retired"])
        known = {member.name for member in self.members} | set(self._retired)
        for folder in self.folder.glob("*@*"):
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)
