"""The server of a game: who may ask, what is taken as an answer, and how a game ends."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time

import pytest

from palaver.agents.simple import HumanPolicy, QuitError, ScriptedPolicy
from palaver.benchmarks.play_page import session as sessions
from palaver.benchmarks.play_page.serving import PlayServer, play_in_page, play_page
from palaver.benchmarks.play_page.session import PlaySession
from palaver.core import ConfigError, Sampling
from palaver.registry import make
from tests.architecture.running import run, started

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e"


class Client:
    """A page without a browser: it reads the states as they come, and answers."""

    def __init__(self, address: str) -> None:
        self.host, self.home = address.removeprefix("http://").split("/", 1)
        self.stream = http.client.HTTPConnection(self.host, timeout=60)
        self.stream.request("GET", f"/{self.home}events")
        self.lines, self.answered, self.last = self.stream.getresponse(), -1, {}

    def state(self, phase: str) -> dict:
        """The next state of this phase."""
        while line := self.lines.readline():
            if line.startswith(b"data: "):
                self.last = json.loads(line[6:])
                if self.last["phase"] == phase:
                    return self.last
        raise AssertionError(f"the stream ended before {phase}")

    def open(self, phase: str) -> dict:
        """The state of this phase whose question has no answer yet; states that were passed over are not sent."""
        while self.last.get("phase") != phase or self.last["question"] <= self.answered or not self.last["open"]:
            self.state(phase)
        return self.last

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.host, timeout=30)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def answer(self, question: int, text: object) -> tuple[int, str]:
        self.answered = question
        return self.ask("POST", f"/{self.home}answer", json.dumps({"question": question, "text": text}))

    def leave(self) -> None:
        self.stream.close()
        self.lines.close()


def game(env: str, partner: str = "x", person=None, **keywords):
    """A game with a person as the first agent; `person(client)` plays in a thread of its own."""
    environment = make(env, **keywords)
    team = {a: ScriptedPolicy(lambda conversation, seed: partner, "partner") for a in environment.possible_agents}
    first = environment.possible_agents[0]
    team[first] = HumanPolicy()
    finished, faults, threads = [], [], []

    def play(address: str) -> None:
        client = Client(address)
        try:
            person(client)
        except (AssertionError, OSError, LookupError) as error:
            faults.append(error)
        finally:
            client.leave()

    def opened(address: str) -> None:
        threads.append(threading.Thread(target=play, args=(address,), daemon=True))
        threads[0].start()

    games = [(environment.tasks[n % len(environment.tasks)].id, n) for n in range(3)]
    sampling = dict.fromkeys(environment.possible_agents, Sampling())
    try:
        play_in_page(environment, team, games, sampling, 10.0, opened, finished.append)
    finally:
        threads[0].join(timeout=30)
        if faults:
            raise faults[0]
    return finished


def test_answers_are_asked_again_and_another_game_follows():
    seen = []

    def person(client):
        assert client.ask("GET", f"/{client.home}replay")[0] == 404
        for text, reply in (("zzz", "names no legal action"), ("help", "1. cooperate, 2. defect")):
            assert client.answer(client.open("asking")["question"], text) == (200, '{"taken": true}')
            assert any(reply in remark for remark in client.open("asking")["remarks"])
        late = client.open("asking")["question"]
        client.answer(late, "defect")
        seen.append(client.open("ended"))
        assert client.answer(late, "defect") == (200, '{"taken": false}')
        code, replay = client.ask("GET", f"/{client.home}replay")
        assert (code, "matrix_v1" in replay) == (200, True)
        client.answer(seen[0]["question"], "again")
        seen.append(client.open("asking"))
        client.answer(seen[1]["question"], "1")
        client.answer(client.open("ended")["question"], "finish")
        assert client.state("closed")["remarks"] == ["the game is over; this page can be closed"]

    episodes = game("matrix-v1", "cooperate", person, game="prisoners-dilemma")
    assert [episode.turns[0].completions["a1"].text for episode in episodes] == ["defect", "cooperate"]
    assert episodes[0].task != episodes[1].task
    assert (seen[0]["history"][0]["answer"], seen[0]["total"]) == ("defect", 5.0)
    assert seen[0]["history"][0]["parts"][0] == ["payoff", 5.0]
    assert (seen[1]["total"], seen[1]["history"]) == (0.0, [])


def test_a_person_sees_the_answers_of_others_at_the_end_only():
    states = []

    def person(client):
        states.append(client.open("asking"))
        client.answer(states[0]["question"], "my text")
        states.append(client.open("ended"))
        client.answer(states[1]["question"], "finish")
        client.state("closed")

    game("arxiv-v0", HOSTILE, person)
    assert "onerror" not in json.dumps(states[0])
    assert states[1]["end"]["others"] == [["method", "</script><img src=x onerror=alert(1)>␛[31m\ufffd"]]
    assert states[1]["end"]["team"][1] == 10


def test_a_builder_sees_its_own_blocks_until_the_end():
    def person(client):
        client.answer(client.open("asking")["question"], "/setblock 0 0 0 oak_planks")
        state = client.open("asking")
        assert len(state["history"]) == 1
        assert [cell for row in state["scene"]["layers"][0][2] for cell in row if cell] == [1]
        client.answer(state["question"], "/setblock 0 0 0 oak_planks")
        state = client.open("ended")
        assert state["scene"]["everything"]
        assert sum(cell > 0 for row in state["scene"]["layers"][0][2] for cell in row) == 2
        client.answer(state["question"], "finish")
        client.state("closed")

    game("strbuild-v0", "/setblock 1 1 0 birch_planks\n/setblock 1 0 0 obsidian", person, num_turns=2)


def test_others_are_refused():
    environment = make("echo-v0")
    session = PlaySession({a: HumanPolicy() for a in environment.possible_agents}, None)
    session.max_length = 100
    with PlayServer(session) as server:
        client = Client(server.address)
        home = f"/{server.token}/"
        assert server.server_address[0] == "127.0.0.1"
        for method in ("GET", "POST", "PUT", "OPTIONS"):
            for path in ("/", "/answer", f"/{server.token}", f"/{server.token}x/", f"/{server.token[:-1]}/answer"):
                assert client.ask(method, path, "{}")[0] == 403, (method, path)
            for host in ("evil.test", "localhost", "127.0.0.1", f"evil.test:{server.server_address[1]}"):
                assert client.ask(method, home, "{}", Host=host)[0] == 403, (method, host)
        assert client.ask("GET", f"{home}config.yaml")[0] == client.ask("POST", f"{home}events", "{}")[0] == 404
        good = json.dumps({"question": 0, "text": "x"})
        assert client.ask("POST", f"{home}answer", good) == (200, '{"taken": false}')
        for body in ("", "[]", "{", '{"question": true, "text": "x"}', '{"question": 0, "text": 1}', "[" * 700):
            assert client.ask("POST", f"{home}answer", body)[0] == 400
        long = json.dumps({"question": 0, "text": "x" * 101})
        assert client.ask("POST", f"{home}answer", long)[0] == 400
        assert client.ask("POST", f"{home}answer", "x" * 801)[0] == 413
        assert client.ask("POST", f"{home}answer", None, **{"Content-Length": "9" * 30})[0] == 413
        assert client.ask("POST", f"{home}answer", None, **{"Transfer-Encoding": "chunked"})[0] == 411
        client.leave()
        session.close("done")


def test_a_page_that_comes_before_the_game_waits_for_its_state():
    session = PlaySession({"a": HumanPolicy()}, None)
    with PlayServer(session) as server:
        client = Client(server.address)
        assert client.lines.readline() == b": still here\n"
        session.say("the first state")
        assert client.state("asking")["remarks"] == ["the first state"]
        client.leave()


def test_the_policy_of_the_page_is_strict():
    session = PlaySession({"a": HumanPolicy()}, None)
    with PlayServer(session) as server:
        connection = http.client.HTTPConnection(server.host, timeout=30)
        connection.request("GET", f"/{server.token}/")
        answer = connection.getresponse()
        policy = answer.headers["Content-Security-Policy"]
        assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert policy.endswith("connect-src 'self'; frame-ancestors 'none'")
    assert "http://" not in play_page().html
    assert "https://" not in play_page().html


def test_a_page_that_is_closed_ends_the_game(monkeypatch):
    monkeypatch.setattr(sessions, "GRACE", 0.3)

    def person(client):
        client.state("asking")
        client.leave()

    begun = time.monotonic()
    with pytest.raises(QuitError, match="the page was closed"):
        game("echo-v0", person=person)
    assert time.monotonic() - begun < 60


def test_a_page_that_is_loaded_again_goes_on():
    def person(client):
        asked = client.open("asking")
        client.leave()
        again = Client(f"http://{client.host}/{client.home}")
        state = again.open("asking")
        assert (state["question"], state["asked"]) == (asked["question"], asked["asked"])
        again.answer(state["question"], "/quit")
        assert again.state("closed")["remarks"] == ["you left the game"]

    with pytest.raises(QuitError, match="you left the game"):
        game("echo-v0", person=person)


def test_ctrl_c_closes_the_page(monkeypatch):
    def person(client):
        assert client.state("closed")["remarks"] == ["the game was ended in the terminal"]

    def stop(self):
        while not self._streams:
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(PlaySession, "read", stop)
    with pytest.raises(QuitError, match="the game was ended"):
        game("echo-v0", person=person)


def test_a_team_without_a_person_is_refused():
    environment = make("echo-v0")
    team = {a: ScriptedPolicy(lambda c, s: "x") for a in environment.possible_agents}
    with pytest.raises(ConfigError, match="give an agent to one"):
        play_in_page(environment, team, [], {}, None, print, print)


def test_it_needs_the_core_alone():
    code = """
import sys
for extra in ("torch", "transformers", "jinja2", "markupsafe", "matplotlib", "PIL", "datasets", "psutil", "starlette"):
    sys.modules[extra] = None  # importing it raises
from palaver.benchmarks.play_page.serving import play_page
from palaver.benchmarks.viewer import page
from palaver.trainers.rollout.team import parse_team
from palaver.trainers.rollout.episodes import SamplingPlan, rollout, text_env
import palaver
env = text_env("build-mini-v0", {})
from palaver.agents.llm.model.options import ModelOptions
team = parse_team("scripted:reference", palaver.spec("build-mini-v0"), env.possible_agents, ModelOptions(), "sample")
sampling = dict.fromkeys(env.possible_agents, palaver.core.Sampling())
(episode,) = rollout(env, team, [env.tasks[0].id], SamplingPlan(), sampling=sampling, seed=0)
data = page.played(episode, env)
print(len(page.html(data)) > 10000, data["notes"][0][:11], len(play_page().html) > 10000)
"""
    assert run("-c", code) == "True no pictures True\n"


def test_the_command_ends_with_its_page():
    arguments = [sys.executable, "-u", "-m", "palaver", "play", "echo-v0", "--browser"]
    env = {**os.environ, "BROWSER": "true", "COLUMNS": "200"}
    with started(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as child:
        assert child.stdout is not None
        client = Client(child.stdout.readline().split()[0])
        client.state("asking")
        client.leave()
        out, err = child.communicate(timeout=120)
    assert (child.returncode, out, err) == (0, "", "the page was closed, and with it the game\n")
