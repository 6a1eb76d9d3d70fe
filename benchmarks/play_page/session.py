"""State of a game between its thread and the pages that show it.

The game's thread writes the state, waits for answers, and notices that all pages are closed. Threads of the server read
the state as text and bring answers; they touch neither the environment nor the policies.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from palaver.agents.base.policy import Policy
from palaver.agents.simple import HumanPolicy, QuitError
from palaver.benchmarks.play_page import scenes
from palaver.benchmarks.viewer.album import NAME, figure, taken_for
from palaver.core import Request
from palaver.episodes import Turn
from palaver.text import clean, one_line
from palaver.trainers.rollout.branches import Branch
from palaver.utils.tool_calls import transcript

GRACE = 5.0  # seconds without a page, as while it is loaded again, after which the game ends
FAREWELL = 2.0  # seconds for pages to fetch the end
POLL = 0.2  # seconds between looks for Ctrl-C and closed pages
MOST_TURNS = 200  # of the history on the page, the last ones
MOST_LINES = 8  # remarks on a question, the last ones


class PlaySession:
    """One person's game: the source of the answers of all human agents.

    Args:
        team: agent -> policy.
        most_possible: upper bound of the team's return; None if there is none, or agents compete.

    Attributes:
        replay: page of the last episode, "" before its end.
        max_length: most characters of an answer.
    """

    def __init__(self, team: Mapping[str, Policy], most_possible: float | None) -> None:
        self._team = team
        self._most_possible = most_possible
        self._human = [agent for agent, policy in team.items() if isinstance(policy, HumanPolicy)]
        self.replay, self.max_length = "", 0
        self._changed = threading.Condition()
        self._state, self._version, self._closed = "", 0, False  # version 0 is before the first state
        self._answer: str | None = None
        self._question = 0  # number of the open question; answers to others are late
        self._open = False
        self._streams, self._seen, self._left_at = 0, False, 0.0
        self._branch: Branch | None = None
        self._agent = self._human[0]
        self._request: Request | None = None
        self._text, self._remarks = "", list[str]()

    # --- the game's thread: what HumanPolicy and the rollout call ---------------------------------------

    def watch(self, branch: Branch) -> None:
        """Show the state before a turn, or at the end, of the episode."""
        self._branch, self._request = branch, None
        self.max_length = branch.env.max_length
        self._publish("waiting")

    def show(self, request: Request, text: str) -> None:
        """Show a question to the agent of `request`."""
        self._agent, self._request, self._text, self._remarks = request.agent, request, text, []
        self._publish("asking")

    def say(self, text: str) -> None:
        """Show a remark on the question."""
        self._remarks = [*self._remarks, clean(text, 4_000)][-MOST_LINES:]
        self._publish("asking")

    def read(self) -> str:
        """Wait for an answer.

        Raises:
            QuitError: all pages are closed.
        """
        with self._changed:
            self._question += 1
            self._answer, self._open = None, True
        self._publish("asking" if self._request else "ended")
        try:
            with self._changed:
                while (answer := self._taken()) is None:
                    self._changed.wait(POLL)
                    if self._seen and not self._streams and time.monotonic() - self._left_at > GRACE:
                        raise QuitError("the page was closed, and with it the game")
                return answer
        finally:
            self._open = False

    def end(self, replay: str) -> bool:
        """Show the end of an episode with its replay; return True if another is wanted.

        Raises:
            QuitError: all pages are closed.
        """
        self.replay, self._remarks = replay, []
        return self.read() == "again"

    def close(self, reason: str) -> None:
        """Show that the game is over, and wait until the pages have taken note."""
        self._remarks = [clean(reason, 400)]
        self._closed = True
        self._publish("closed")
        with self._changed:
            self._changed.wait_for(lambda: not self._streams, FAREWELL)

    # --- the server's threads ----------------------------------------------------------------------------

    def answer(self, question: int, text: str) -> bool:
        """Take an answer; return False if that question is no longer open."""
        with self._changed:
            if not self._open or question != self._question or self._answer is not None:
                return False
            self._answer = text
            self._changed.notify_all()
        return True

    def states(self) -> Iterable[str]:
        """Yield the state of the game whenever it changes; "" every second without a change."""
        with self._changed:
            self._streams, self._seen, version = self._streams + 1, True, 0
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda seen=version: self._version != seen, 1.0)  # type: ignore[misc]
                    state = self._state if self._version != version else ""
                    version, closed = self._version, self._closed
                yield state
                if closed:
                    return
        finally:
            with self._changed:
                self._streams -= 1
                self._left_at = time.monotonic()
                self._changed.notify_all()

    # --- inside ------------------------------------------------------------------------------------------

    def _taken(self) -> str | None:
        return self._answer

    def _publish(self, phase: str) -> None:
        state = json.dumps({"phase": phase, **self._game(phase)}, allow_nan=False)
        with self._changed:
            self._state, self._version = state, self._version + 1
            self._changed.notify_all()

    def _game(self, phase: str) -> dict[str, Any]:
        branch, agent = self._branch, self._agent
        shown: dict[str, Any] = {"remarks": self._remarks, "question": self._question, "open": self._open}
        if branch is None:
            return shown
        over = branch.stop is not None
        newest = str(branch.observations.get(agent, ""))
        return shown | {
            "env": one_line(branch.env.metadata["name"], NAME),
            "task": one_line(branch.task, 120),
            "agent": one_line(agent, NAME),
            "role": one_line(branch.env.role(agent), NAME),
            "team": [[one_line(name, NAME), one_line(policy.name, NAME)] for name, policy in self._team.items()],
            "place": list(self._team).index(agent),
            "most": branch.env.max_length,
            "scene": scenes.scene(branch.env, agent, newest, over),
            "history": self._history(branch),
            "earlier": max(0, len(branch.turns) - MOST_TURNS),
            "total": figure(sum(turn.rewards.get(agent, 0.0) for turn in branch.turns)),
            "asked": self._asked() if phase == "asking" else None,
            "end": self._end(branch) if over else None,
        }

    def _asked(self) -> dict[str, Any]:
        assert self._request is not None
        actions = [[action, one_line(action, 120)] for action in self._request.actions]
        return {"text": self._text, "story": self._story(self._text), "actions": actions}

    def _history(self, branch: Branch) -> list[dict[str, Any]]:
        return [self._entry(turn, self._agent) for turn in branch.turns[-MOST_TURNS:]]

    def _entry(self, turn: Turn, agent: str) -> dict[str, Any]:
        """Return a turn as one agent saw it: its observation, its own answer, its reward."""
        completion = turn.completions.get(agent)
        observation = turn.observations.get(agent, "") if completion else ""  # unread ones come with the next question
        return {
            "turn": turn.index + 1,
            "text": clean(observation, self.max_length),
            "story": self._story(observation),
            "answer": None if completion is None else clean(transcript(completion), self.max_length),
            "taken": taken_for(turn, agent) if completion else "",
            "illegal": turn.illegal.get(agent, 0),
            "reward": figure(turn.rewards.get(agent, 0.0)),
            "parts": [[one_line(n, NAME), figure(value)] for n, value in turn.components.get(agent, {}).items()],
            "reason": one_line(turn.reason, 2_000),
        }

    def _story(self, observation: str) -> str | None:
        text = scenes.story(self._branch.env, observation) if self._branch else None
        return None if text is None else clean(text)

    def _end(self, branch: Branch) -> dict[str, Any]:
        """The end of an episode, after which an agent may see the answers of all."""
        newest = str(branch.observations.get(self._agent, ""))
        story = self._story(newest)
        last = branch.turns[-1] if branch.turns else None
        answers = last.completions.items() if last and story is None else ()
        outcome = last.metrics.get("outcome") if last else None
        team = sum(turn.team_reward for turn in branch.turns)
        return {
            "stop": branch.stop,
            "turns": len(branch.turns),
            "totals": [
                [one_line(agent, NAME), figure(sum(turn.rewards.get(agent, 0.0) for turn in branch.turns))]
                for agent in self._team
            ],
            "team": None if self._most_possible is None else [figure(team), figure(self._most_possible)],
            "outcome": None if outcome is None else figure(outcome),
            "text": clean(newest, self.max_length),
            "story": story,
            "others": [
                [one_line(agent, NAME), clean(transcript(completion), self.max_length)]
                for agent, completion in answers
                if agent != self._agent
            ],
        }
