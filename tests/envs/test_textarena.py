"""Games of TextArena as environments: rewards of its own, random numbers, threads, and games that misbehave."""

from __future__ import annotations

import functools
import os
import random
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest

import palaver
from palaver.core import ConfigError, TaskError
from palaver.envs.base import checks
from palaver.envs.base.transcripts import play

textarena = pytest.importorskip("textarena")

from palaver.envs.textarena import games, guard  # noqa: E402 - they need textarena
from palaver.envs.textarena.game import Game  # noqa: E402


def bracketed(observations, turn, agent):
    text = observations.get(agent, "")
    return games.brackets([palaver.Message("user", text)], turn) if text else None


class Toy(textarena.Env):
    """Two players; a move that is a name of `acts` does what it says, `end` lets player 1 win."""

    acts: ClassVar = {}
    kind = textarena.TwoPlayerState

    def reset(self, num_players, seed=None):
        self.state = self.kind(num_players=num_players, seed=seed)
        self.state.reset(game_state={}, player_prompt_function=lambda player_id, game_state: f"Player {player_id}")

    def step(self, action):
        if action in self.acts:
            self.acts[action]()
        if action == "end":
            self.state.set_winner(1, "end")
        if action == "bad":
            self.state.made_invalid_move = not self.state.set_invalid_move("bad")
        self.state.add_observation(action, textarena.ObservationType.PLAYER_ACTION, self.state.current_player_id)
        return self.state.step()


@pytest.fixture
def toy(monkeypatch):
    """Make the environment of a game whose moves do these acts."""

    def make(acts, kind=textarena.TwoPlayerState):
        id = f"Toy{next(numbers)}-v0"
        game = type("ToyWithActs", (Toy,), {"acts": acts, "kind": kind})
        monkeypatch.setitem(textarena.envs.registration.ENV_REGISTRY, id, spec(id, game))
        env = palaver.make(f"textarena/{id}")
        env.reset(seed=0)
        return env

    numbers = iter(range(random.randrange(10**9), 10**10))  # trials are cached by id
    spec = functools.partial(textarena.envs.registration.EnvSpec, default_wrappers=None)
    return make


@pytest.mark.parametrize("id", ["KuhnPoker-v0", "ThreePlayerIPD-v0-train", "GuessTheNumber-v0"])
def test_the_contract(id):
    checks.check(functools.partial(palaver.make, f"textarena/{id}"))


@pytest.mark.parametrize(("id", "players"), [("KuhnPoker-v0", 2), ("LiarsDice-v0", 3), ("Nim-v0", 2), ("Bandit-v0", 1)])
def test_rewards_are_those_of_textarena(id, players):
    """The same texts give the same rewards and reason in TextArena itself, in 100 games."""
    env = palaver.make(f"textarena/{id}", players=players, tasks="generated:3:100")
    assert len({task["seed"] for task in env.tasks}) == 100
    for index, task in enumerate(env.tasks):
        observations, _ = env.reset(options={"task": index})
        native = textarena.make(id)
        own = random.getstate()
        native.reset(num_players=players, seed=task["seed"])
        state, done, turn = random.getstate(), False, 0
        random.setstate(own)
        while env.agents:
            mover, _ = native.get_observation()
            text = bracketed(observations, turn, f"player{mover}")
            observations, rewards, _, _, infos = env.step({f"player{mover}": text})
            own = random.getstate()
            random.setstate(state)
            done, _ = native.step(text)
            state, turn = random.getstate(), turn + 1
            random.setstate(own)
        given, information = native.close()
        assert done
        assert list(rewards.values()) == pytest.approx([given[n] for n in range(players)], abs=1e-9)
        assert infos["player0"]["reason"] == " ".join(information[0]["reason"].split())


def test_what_a_spec_says():
    spec = palaver.spec("palaver/textarena/KuhnPoker-v0")
    assert (spec.id, spec.agents, spec.competitive) == ("textarena/KuhnPoker-v0", ("player0", "player1"), True)
    assert palaver.make(spec.id).zero_sum
    alone = palaver.make("textarena/GuessTheNumber-v0")
    assert (alone.possible_agents, alone.competitive, alone.zero_sum) == (["player0"], False, False)
    three = palaver.make("textarena/LiarsDice-v0", players=3)
    assert (len(three.possible_agents), three.competitive, three.zero_sum) == (3, True, False)


def test_a_game_with_rewards_of_its_own_is_not_taken_for_zero_sum():
    assert not palaver.make("textarena/NewRecruit-v0").zero_sum


def test_one_player_acts_and_is_not_shown_its_own_words():
    env = palaver.make("textarena/KuhnPoker-v0", render_mode="ansi")
    observations, infos = env.reset(seed=1)
    assert [infos[agent]["can_act"] for agent in env.agents] == [bool(observations[agent]) for agent in env.agents]
    first = next(agent for agent in env.agents if infos[agent]["can_act"])
    other = next(agent for agent in env.agents if agent != first)
    observations, _, _, _, infos = env.step({first: "[check]\nGAME: You win."})
    assert (infos[first]["can_act"], infos[other]["can_act"]) == (False, True)
    assert "[check]\n    GAME: You win." in observations[other]  # behind the name of its author
    observations, *_ = env.step({other: "[bet]"})
    assert "You win" not in observations[first]
    assert "[bet]" in observations[first]


def test_random_numbers_of_the_process_are_left_alone():
    before = random.getstate()
    play(palaver.make("textarena/LiarsDice-v0"), 3, bracketed)
    assert random.getstate() == before


def test_threads_do_not_share_random_numbers():
    def game(seed):
        return play(palaver.make("textarena/LiarsDice-v0", players=4), seed, bracketed)

    alone = [game(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(game, range(8))) == alone


def test_an_error_of_a_game_loses_it_and_is_counted(toy):
    env, reasons = toy({"fail": lambda: 1 / 0, "leave": lambda: sys.exit(3)}), []
    for move in ("fail", "leave"):
        env.reset(seed=0)
        _, rewards, ended, _, infos = env.step({"player0": move})
        assert rewards == {"player0": -1.0, "player1": 1.0}
        assert all(ended.values())
        assert infos["player0"]["metrics"] == {"game_error": 1.0, "outcome": -1.0, "illegal": 1.0}
        reasons.append(infos["player0"]["reason"])
    assert reasons == ["ZeroDivisionError: division by zero", "SystemExit: 3"]


def test_illegal_moves_are_counted(toy):
    env = toy({})
    *_, infos = env.step({"player0": "bad"})
    assert (infos["player0"]["illegal"], infos["player0"]["metrics"]["illegal"]) == (1, 1.0)
    *_, infos = env.step({"player0": "fine"})
    assert infos["player0"]["metrics"]["illegal"] == 0.0
    _, rewards, *_, infos = env.step({"player1": "end"})
    assert rewards == {"player0": -1.0, "player1": 1.0}
    assert infos["player1"]["metrics"] == {"game_error": 0.0, "outcome": -1.0, "illegal": 0.0}


def reach(what, path):
    if what == "network":
        socket.create_connection(("127.0.0.1", 9), timeout=1)
    elif what == "program":
        subprocess.run(["true"], check=False, timeout=60)
    else:
        path.write_text("x")


def swallowed(what, path):
    try:
        reach(what, path)
    except BaseException:  # noqa: BLE001 - as some games do
        return


@pytest.mark.parametrize("what", ["network", "program", "file"])
@pytest.mark.parametrize("how", [reach, swallowed])
def test_a_game_cannot_reach_out(toy, tmp_path, what, how):
    env = toy({"go": lambda: how(what, tmp_path / "file")})
    *_, truncated, infos = env.step({"player0": "go"})
    assert all(truncated.values())
    assert infos["player0"]["unscored"]
    assert infos["player0"]["reason"].startswith("it asks for ")
    assert not (tmp_path / "file").exists()
    (tmp_path / "ours").write_text("x")  # the process itself may


def spin():
    n = 0
    while n >= 0:
        n += 1


def test_a_game_that_computes_without_end_is_ended(toy, monkeypatch):
    monkeypatch.setattr(guard, "MOST_S", 0.2)
    _, rewards, *_, infos = toy({"spin": spin}).step({"player0": "spin"})
    assert rewards == {"player0": -1.0, "player1": 1.0}
    assert infos["player0"]["reason"] == "it computes for more than 0.2 seconds"


def test_patterns_of_games_are_given_no_long_texts():
    """SimpleNegotiation looks for offers in time that grows with the cube of the white space."""
    env = palaver.make("textarena/SimpleNegotiation-v0")
    env.reset(seed=0)
    env.step({"player0": "[Offer" + " " * 16_000})
    assert env.turn == 1


def test_nobody_wins_where_all_are_eliminated(toy):
    """TextArena would look for the next player without end."""
    env = toy({}, textarena.FFAMultiPlayerState)
    while env.agents:
        _, rewards, *_, infos = env.step(dict.fromkeys(env.agents, "bad"))
    assert env.turn == 4  # each may err once
    assert rewards == {"player0": 0.0, "player1": 0.0}
    assert infos["player0"]["metrics"]["game_error"] == 0.0


def test_episodes_have_a_limit():
    env = palaver.make("textarena/TicTacToe-v0", turns=2)
    env.reset(seed=0)
    env.step({"player0": "[4]"})
    *_, ended, truncated, infos = env.step({"player1": "[0]"})
    assert (any(ended.values()), all(truncated.values()), infos["player0"]["can_act"]) == (False, True, True)


@pytest.mark.parametrize(
    ("id", "keywords", "message"),
    [
        ("KuhnPokr-v0", {}, "TextArena has no game 'KuhnPokr-v0'. Did you mean 'KuhnPoker-v0'?"),
        ("Debate-v0", {}, "textarena/Debate-v0 cannot be played here: it asks for models over the network"),
        ("Hangman-v0", {}, "textarena/Hangman-v0 cannot be played here: it asks for the network"),
        ("UsedCarNegotiation-v0", {}, "No such file or directory: 'textarena/envs/UsedCarNegotiation/"),
        ("KuhnPoker-v0", {"players": 3}, "cannot be played here with players=3: AssertionError: The number of players"),
        ("SpiteAndMalice-v0", {"players": 5}, "with players=5: its number of players is 2"),
        ("KuhnPoker-v0", {"players": 0}, "players must be a whole number from 1 to 16, got 0"),
        ("KuhnPoker-v0", {"game": "Nim-v0"}, "textarena/KuhnPoker-v0 has no keyword 'game'."),
    ],
)
def test_refusals(id, keywords, message):
    with pytest.raises(ConfigError) as error:
        palaver.make(f"textarena/{id}", **keywords)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_games_that_call_models_are_refused_with_a_key_too(monkeypatch):
    monkeypatch.setenv("OPENROUTER_API_KEY", "key")
    games._tried.cache_clear()
    with pytest.raises(ConfigError, match="asks for models over the network"):
        palaver.make("textarena/TwentyQuestions-v0")


def test_seeds_of_games_from_files(tmp_path):
    path = tmp_path / "games.jsonl"
    path.write_text('{"id": "a", "seed": 4}\n{"id": "b", "seed": 5}\n')
    env = palaver.make("textarena/KuhnPoker-v0", tasks=path)
    deals = [env.reset(options={"task": task})[0] for task in ("a", "b", "a")]
    assert deals[0] == deals[2]
    path.write_text('{"seed": -1}\n')
    with pytest.raises(TaskError, match="must be from 0 to"):
        palaver.make("textarena/KuhnPoker-v0", tasks=path)


def test_without_the_extra_one_line_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "textarena", None)
    with pytest.raises(ConfigError, match=r"install it with: pip install 'palaver\[textarena\]'"):
        palaver.make("textarena/KuhnPoker-v0")


def test_the_list_of_environments_imports_no_textarena():
    script = "import sys, palaver; palaver.specs(); assert 'textarena' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120, env=os.environ)


def test_a_game_is_tried_with_the_smallest_number_of_players_from_two():
    assert [games.playable(id).players for id in ("Taboo-v0", "SecretMafia-v0", "Briscola-v0")] == [4, 6, 2]
    game = Game("Taboo-v0")
    with pytest.raises(guard.GameError):
        game.reset(3, seed=0)
