"""The page, its server, and the games that are played in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

from palaver.agents.base.policy import Policy
from palaver.agents.simple import HumanPolicy, QuitError
from palaver.benchmarks.play_page.session import PlaySession
from palaver.benchmarks.reports.inline import InlinePage, bundle, inline_page
from palaver.benchmarks.viewer import page as viewer
from palaver.core import ConfigError, PalaverError, Sampling
from palaver.envs.base.env import TextEnv
from palaver.episodes import Episode
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.utils.loopback import LoopbackServer, PageHandler

HERE = Path(__file__).resolve().parent
SCRIPTS = (
    viewer.HERE / "dom.js",
    viewer.HERE / "mon.js",
    *(HERE / f"{name}.js" for name in ("board", "battle", "play")),
)
STYLES = (viewer.HERE / "viewer.css", HERE / "play.css")
BYTES = 6  # of one character in JSON, at most: \\u1234


class PlayServer(LoopbackServer):
    """Server of the page of one session."""

    def __init__(self, session: PlaySession) -> None:
        super().__init__(PlayHandler)
        self.session = session


class PlayHandler(PageHandler):
    """Handler of the page, the state of the game, answers, and the replay."""

    server: PlayServer

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Answer with the page, the replay, or states of the game as they come."""
        if self.route == "":
            document = play_page()
            return self.send("text/html", document.html, f"{document.policy}; frame-ancestors 'none'")
        if self.route == "replay" and self.server.session.replay:
            return self.send("text/html", self.server.session.replay)
        if self.route == "events":
            return self._stream()
        return self.send_error(404)

    def do_POST(self) -> None:  # noqa: N802
        """Take an answer: a JSON object with `question`, its number, and `text`."""
        session = self.server.session
        length = self.headers.get("Content-Length", "")
        if self.route != "answer" or not (length.isascii() and length.isdecimal()):
            return self.send_error(404 if self.route != "answer" else 411)
        if len(length) > 9 or int(length) > BYTES * session.max_length + 200:
            return self.send_error(413)
        try:
            given = json.loads(self.rfile.read(int(length)))
            question, text = given["question"], given["text"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return self.send_error(400)
        if type(question) is not int or not isinstance(text, str) or len(text) > session.max_length:
            return self.send_error(400)
        return self.send("application/json", json.dumps({"taken": session.answer(question, text)}))

    def _stream(self) -> None:
        self.begin("text/event-stream", "frame-ancestors 'none'", 200, {})
        try:
            for state in self.server.session.states():
                self.wfile.write(f"data: {state}\n\n".encode() if state else b": still here\n\n")
        except OSError:  # the page was closed or left
            return


@cache
def play_page() -> InlinePage:
    """The page, which fetches all that it shows."""
    style = "".join(path.read_text(encoding="utf-8") for path in STYLES)
    return inline_page("Palaver", bundle(*SCRIPTS), style, {}, "connect-src 'self'")


def play_in_page(
    env: TextEnv,
    team: Mapping[str, Policy],
    games: Iterable[tuple[str, int]],
    sampling: Mapping[str, Sampling],
    most_possible: float | None,
    opened: Callable[[str], object],
    finished: Callable[[Episode], object],
) -> None:
    """Play episodes in a page until the person has enough.

    Args:
        env: is forked, never stepped itself.
        team: agent -> policy; those of a person are asked in the page.
        games: task and seed of each episode, in order.
        sampling: agent -> sampling parameters.
        most_possible: upper bound of the team's return; None if unbounded, and for opponents.
        opened: called with the address once the page is served.
        finished: called with each episode at its end.

    Raises:
        ConfigError: no agent is a person's.
        QuitError: the person left, closed the page, or pressed Ctrl-C.
    """
    persons = [policy for policy in team.values() if isinstance(policy, HumanPolicy)]
    if not persons:
        raise ConfigError(
            "--browser is for people, and none plays in this team; give an agent to one: --team a=human,b=..."
        )
    session = PlaySession(team, most_possible)
    for policy in persons:
        policy.source = session
    with PlayServer(session) as server:
        opened(server.address)
        try:
            for task, seed in games:
                (episode,) = rollout(
                    env, team, [task], SamplingPlan(), sampling=sampling, seed=seed, watch=session.watch
                )
                finished(episode)
                if not session.end(viewer.html(viewer.played(episode, env))):
                    break
            session.close("the game is over; this page can be closed")
        except KeyboardInterrupt:
            session.close("the game was ended in the terminal")
            raise QuitError("the game was ended") from None
        except PalaverError as error:
            session.close(str(error))
            raise
