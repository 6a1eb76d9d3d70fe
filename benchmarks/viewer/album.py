"""Episodes as plain data of the viewer's page.

Every text is stored once, cleaned and cut, and referred to by index.

Names and texts come from models and from untrusted files, so none is used as a key: mappings are lists of pairs, and
agents are indices in the episode.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from math import isfinite
from typing import Any

from palaver.benchmarks.viewer import battles
from palaver.benchmarks.viewer.sources import ViewerSource
from palaver.episodes import Episode, Turn
from palaver.text import clean, one_line
from palaver.utils.tool_calls import transcript

MOST_CHARACTERS = 24_000_000  # of a page's texts and numbers; a browser opens that in about a second
NAME, REASON, LEGAL = 60, 2_000, 80  # characters of a name and of a reason; legal actions of an agent


class Album:
    """Collects episodes for a page until it is full.

    Args:
        max_episodes: episodes.
        characters: of one text; a longer one is cut, with a mark that gives the number of missing characters.

    Attributes:
        episodes: as in the page.
        texts: every text once; episodes hold their indices.
        left_out: episodes that came when it was full.
        broken: those that could not be read.
        replays_left_out: replays of battles that came when it was full.
    """

    def __init__(self, max_episodes: int, characters: int) -> None:
        self.max_episodes, self.characters = max_episodes, characters
        self.episodes: list[dict[str, Any]] = []
        self.records: list[Episode] = []
        self.texts: list[str] = []
        self.left_out = self.broken = self.replays_left_out = 0
        self._size = 0
        self._places: dict[str, int] = {}
        self._groups: dict[tuple[object, ...], int] = {}
        self._nodes: list[tuple[object, ...]] = []

    @property
    def full(self) -> bool:
        """True if no more fit."""
        return len(self.episodes) >= self.max_episodes or self._size >= MOST_CHARACTERS

    def read(self, source: ViewerSource) -> list[Episode] | None:
        """Add the episodes of a source until the album is full; return them, or None if not all fit.

        Raises:
            CheckpointError: it cannot be opened.
        """
        count, left_out = len(self.records), self.left_out
        for index, unread in enumerate(source.unread()):
            if self.full:
                self.left_out += 1
            elif (episode := unread()) is None:
                self.broken += 1
            else:
                self.add(source, index, episode)
        return self.records[count:] if self.left_out == left_out else None

    def finish(self) -> None:
        """Sort the episodes by training step, and count for every turn the episodes that share it.

        Leaves of a tree share their first turns: they carry the same node.
        """
        shared = Counter(node for node in self._nodes if node[-1])
        order = sorted(range(len(self.episodes)), key=lambda n: _order(self.episodes[n]))
        nodes = iter(self._nodes)
        for episode in self.episodes:
            for turn in episode["turns"]:
                turn["shared"] = shared.get(next(nodes), 1)
        self.episodes = [self.episodes[n] for n in order]
        self.records = [self.records[n] for n in order]

    def text(self, text: object) -> int:
        """Return the index of a text, cleaned."""
        cleaned = clean(text, self.characters)
        if cleaned not in self._places:
            self._places[cleaned] = len(self.texts)
            self.texts.append(cleaned)
            self._size += len(cleaned) + 4
        return self._places[cleaned]

    def add_replay(self, entry: dict[str, Any], frames: list[list[Any]], winner: str) -> None:
        """Add a replay to a battle, if it fits: [turn, text, changes of both teams] of each frame."""
        if self._size >= MOST_CHARACTERS:
            self.replays_left_out += 1
            return
        shown = [[turn, self.text(text), changes] for turn, text, changes in frames]
        entry["replay"] = {"frames": shown, "winner": winner}
        self._size += len(str(shown))

    def add(self, source: ViewerSource, line_index: int, episode: Episode) -> None:
        """Add an episode, whether or not it fits."""
        agents = agents_of(episode)
        key = (source.path, episode.task, episode.turns[0].group if episode.turns else "")
        turns = [self._turn(episode, index, agents) for index in range(len(episode.turns))]
        entry = {
            "id": f"{source.stem}{line_index}",
            "kind": source.kind,
            "step": source.step,
            "line": line_index,
            "env": one_line(episode.env, NAME),
            "task": one_line(episode.task, 120),
            "seed": one_line(episode.seed, 24),
            "stop": one_line(episode.stop, 24),
            "group": self._groups.setdefault(key, len(self._groups)),
            "agents": [one_line(agent, NAME) for agent in agents],
            "team": [one_line(episode.team.get(agent, ""), NAME) for agent in agents],
            "total": figure(episode.team_return()),
            "returns": [figure(sum(turn.rewards.get(agent, 0.0) for turn in episode.turns)) for agent in agents],
            "turns": turns,
        }
        self._nodes += [(source.path, turn.node) for turn in episode.turns]
        self._size += 300 + sum(len(str(turn)) for turn in turns)
        self.episodes.append(entry)
        self.records.append(episode)

    def _turn(self, episode: Episode, turn_index: int, agents: list[str]) -> dict[str, Any]:
        turn = episode.turns[turn_index]
        known = {agent: index for index, agent in enumerate(agents)}
        entry: dict[str, Any] = {
            "shown": [[known[agent], self.text(text)] for agent, text in turn.observations.items()],
            "said": [
                [
                    known[agent],
                    self.text(transcript(completion)),
                    len(completion.text.split()),
                    completion.finish == "length",
                    taken_for(turn, agent),
                ]
                for agent, completion in turn.completions.items()
            ],
            "reward": figure(turn.team_reward),
            "rewards": [figure(turn.rewards.get(agent, 0.0)) for agent in agents],
            "parts": _parts(turn, known),
            "metrics": _pairs(turn.metrics),
            "reason": one_line(turn.reason, REASON),
        }
        if turn.legal:
            entry["legal"] = [
                [known[agent], _legal(actions)] for agent, actions in turn.legal.items() if agent in known
            ]
        tests = turn.metrics.get("tests_total", 0.0)
        if isfinite(tests) and tests > 0:
            entry["tests"] = [figure(turn.metrics.get("tests_passed", 0.0)), figure(tests)]
        if episode.env == battles.ENV:
            entry |= self._battle(episode, turn_index, known)
        return entry

    def _battle(self, episode: Episode, index: int, known: Mapping[str, int]) -> dict[str, Any]:
        """Active Pokémon, and the turn's events as the sides observe them before their next choice."""
        turn, later = episode.turns[index], episode.turns[index + 1 : index + 2]
        seen = {agent: battles.field(str(text)) for agent, text in turn.observations.items()}
        fields = [
            [known[agent], one_line(active.own_name, NAME), figure(active.own_points)]
            for agent, active in seen.items()
            if active
        ]
        reader = _reader(episode)
        story = "\n".join(
            battles.story({a: str(text) for a, text in later_turn.observations.items() if a == reader}, list(known))
            for later_turn in later
        )
        return {"field": fields} | ({"story": self.text(story)} if story else {})


def figure(value: float) -> float | str:
    """Return a number with six digits, or its name if it is not finite, which JSON cannot hold."""
    return float(f"{value:.6g}") if isfinite(value) else str(value)


def agents_of(episode: Episode) -> list[str]:
    """All agents of an episode, in the order of the first turn's rewards."""
    named = ((*turn.rewards, *turn.observations, *turn.completions) for turn in episode.turns)
    return list(dict.fromkeys(itertools.chain.from_iterable(named)))


def _reader(episode: Episode) -> str:
    """The side whose observations give the events; of both, events would appear twice."""
    readers = (
        agent
        for agent in sorted(agents_of(episode))
        if any(battles.story({agent: str(turn.observations.get(agent, ""))}, [agent]) for turn in episode.turns)
    )
    return next(readers, "")


def _parts(turn: Turn, known: Mapping[str, int]) -> list[list[Any]]:
    """Reward components by agent; one entry, under -1, if all agents have the same."""
    components = [[known[agent], _pairs(parts)] for agent, parts in turn.components.items() if agent in known and parts]
    if (
        len(components) > 1
        and len(components) == len(known)
        and all(parts == components[0][1] for _, parts in components)
    ):
        return [[-1, components[0][1]]]
    return components


def _pairs(numbers: Mapping[str, float]) -> list[list[Any]]:
    return [[one_line(name, NAME), figure(value)] for name, value in numbers.items()]


def taken_for(turn: Turn, agent: str) -> str:
    """The executed action of an agent if it differs from its text, else ""."""
    executed = turn.executed.get(agent, "")
    return "" if executed == turn.completions[agent].text.strip() else one_line(executed, 200)


def _legal(actions: object) -> list[str]:
    names = list(actions) if isinstance(actions, list | tuple) else []
    ellipsis = [f"… and {len(names) - LEGAL} more"] if len(names) > LEGAL else []
    return [one_line(name, 200) for name in names[:LEGAL]] + ellipsis


def _order(episode: Mapping[str, Any]) -> tuple[bool, int, bool, int]:
    step = episode["step"]
    return step is None, step or 0, episode["kind"] == "train", episode["line"]
