"""The environment around the exact games: who observes and acts, illegal answers, tasks, references."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest

import palaver
from palaver.core import ConfigError, Message, TaskError
from palaver.envs.games import kuhn, leduc, reference
from palaver.envs.games.lines import connect_four, tic_tac_toe
from palaver.envs.games.solve import GameTree, nash_conv, profile_of
from palaver.registry import resolve

IDS = ("kuhn-v0", "leduc-v0", "tictactoe-v0", "connect4-v0")
GAMES = dict(zip(IDS, (kuhn.GAME, leduc.GAME, tic_tac_toe(), connect_four()), strict=True))


def rows(id):
    env = palaver.make(id)
    return [(task.id, task["deal"]) for task in env.tasks]


def episode(env, rules, seed, task):
    observations, _ = env.reset(seed=seed, options={"task": task})
    totals = [0.0, 0.0]
    while env.agents:
        said = {
            agent: rule((Message("user", observations[agent]),), seed)
            for agent, rule in zip(env.agents, rules, strict=True)
        }
        observations, rewards, *_, infos = env.step(said)
        totals = [total + reward for total, reward in zip(totals, rewards.values(), strict=True)]
        assert infos["p1"]["metrics"]["illegal"] == 0
    return totals, infos["p1"]["metrics"]["outcome"]


def test_the_shipped_tasks_are_the_deals():
    assert rows("kuhn-v0") == [(f"{a}-{b}", f"{a} {b}") for a, b in itertools.permutations("JQK", 2)]
    deals = Counter(deal for _, deal in rows("leduc-v0"))
    assert deals.total() == 120
    assert {deal: count / 120 for deal, count in deals.items()} == pytest.approx(leduc.GAME.deals())
    for id, count in (("tictactoe-v0", 1 + 9 + 72), ("connect4-v0", 1 + 7 + 49)):
        assert len({deal for _, deal in rows(id)}) == len(rows(id)) == count


def test_only_the_player_to_act_observes_and_may_act():
    env = palaver.make("kuhn-v0")
    observations, infos = env.reset(options={"task": "J-K"})
    assert observations == {
        "p1": "Kuhn poker. You are p1. Each player has put in 1 chip; a bet is 1 more. The cards are J, Q and K; the "
        "higher wins.\nYour card: J. Actions so far: none.\nActions: check, bet.",
        "p2": "",
    }
    assert [infos[agent]["can_act"] for agent in env.agents] == [True, False]
    assert [infos[agent]["legal_actions"] for agent in env.agents] == [["check", "bet"], []]
    observations, rewards, *_, infos = env.step({"p1": "I check."})
    assert observations["p1"] == ""
    assert "Your card: K. Actions so far: p1 check." in observations["p2"]
    assert infos["p2"]["legal_actions"] == ["check", "bet"]
    assert rewards == {"p1": 0, "p2": 0}
    env.step({"p2": "BET!"})
    observations, rewards, terminated, *_, infos = env.step({"p1": "call"})
    assert rewards == {"p1": -2, "p2": 2}
    assert all(terminated.values())
    assert observations["p1"].endswith("Actions so far: p1 check, p2 bet, p1 call.\nYou lose 2.")
    assert observations["p2"].endswith("You win 2.")
    assert infos["p1"]["metrics"] == {"outcome": -1.0, "illegal": 0.0}


@pytest.mark.parametrize(
    ("acts", "payoff"),
    [
        (["check", "check"], 1), (["check", "bet", "fold"], -1), (["check", "bet", "call"], 2),
        (["bet", "fold"], 1), (["bet", "call"], 2),
    ],
)  # fmt: skip
def test_payoffs_of_kuhn(acts, payoff):
    """With K against J; what is not decided by the cards is the same with J against K."""
    for deal, sign in (("K J", 1), ("J K", 1 if "fold" in acts else -1)):
        state = kuhn.GAME.start(deal)
        for act in acts:
            assert act in kuhn.GAME.actions(state)
            state = kuhn.GAME.after(state, act)
        assert kuhn.GAME.mover(state) is None
        assert kuhn.GAME.payoff(state) == sign * payoff


@pytest.mark.parametrize(
    ("deal", "first", "second", "payoff"),
    [
        ("K J Q", ["check", "check"], ["check", "check"], 1),
        ("K J J", ["check", "check"], ["check", "check"], -1),  # a pair beats the king
        ("K K Q", ["bet", "call"], ["bet", "call"], 0),
        ("Q J K", ["bet", "call"], ["bet", "call"], 1 + 2 + 4),
        ("J Q J", ["bet", "raise", "call"], ["check", "bet", "raise", "call"], 1 + 4 + 8),
        ("K J Q", ["bet", "raise", "fold"], None, -3),  # folded after a bet of 2
        ("K J Q", ["check", "bet", "raise", "fold"], None, 3),
        ("K J Q", ["check", "check"], ["bet", "fold"], 1),
        ("K J Q", ["bet", "call"], ["check", "bet", "fold"], -3),
        ("K J Q", ["bet", "call"], ["bet", "raise", "fold"], -7),
    ],
)
def test_payoffs_of_leduc(deal, first, second, payoff):
    state = leduc.GAME.start(deal)
    for act in (*first, *(second or ())):
        assert act in leduc.GAME.actions(state)
        state = leduc.GAME.after(state, act)
    assert leduc.GAME.mover(state) is None
    assert leduc.GAME.payoff(state) == payoff


def test_a_third_raise_is_not_legal():
    state = leduc.GAME.start("J Q K")
    for act in ("check", "bet", "raise"):
        state = leduc.GAME.after(state, act)
    assert leduc.GAME.actions(state) == ("fold", "call")


def test_the_public_card_is_seen_in_the_second_round_only():
    env = palaver.make("leduc-v0")
    observations, _ = env.reset(options={"task": "Js-Qs-Ks"})
    assert "Public" not in observations["p1"]
    env.step({"p1": "check"})
    observations, *_ = env.step({"p2": "check"})
    assert "Your card: J. Public card: K. First round: p1 check, p2 check. Second round: none." in observations["p1"]


@pytest.mark.parametrize("text", ["", None, "fold", "I would rather not", "checker"])
def test_for_an_illegal_answer_an_action_is_drawn_and_charged(text):
    env = palaver.make("kuhn-v0")
    drawn = Counter()
    for seed in range(60):
        env.reset(seed=seed, options={"task": 0})
        _, rewards, *_, infos = env.step({"p1": text})
        assert rewards == {"p1": -4.0, "p2": 0.0}
        assert infos["p1"]["reward_components"] == {"payoff": 0.0, "illegal": -4.0}
        assert (infos["p1"]["illegal"], infos["p2"]["illegal"]) == (1, 0)
        drawn[env.position.acts] += 1
    assert set(drawn) == {("check",), ("bet",)}
    assert min(drawn.values()) >= 15


@pytest.mark.parametrize("id", IDS)
def test_no_episode_with_an_illegal_answer_is_better_than_one_without(id):
    env = palaver.make(id)
    assert env.penalty == 2 * GAMES[id].highest
    assert env.zero_sum
    assert env.competitive
    env = palaver.make(id, penalty=0.5)
    env.reset(seed=0)
    assert env.step({})[1]["p1"] == -0.5


def test_more_illegal_answers_lose():
    env = palaver.make("kuhn-v0")
    for seed in range(10):
        env.reset(seed=seed, options={"task": "K-J"})
        metrics = env.step({"p1": "nonsense"})[4]["p1"]["metrics"]
        while env.agents:
            metrics = env.step(dict.fromkeys(env.agents, "check, or else fold"))[4]["p1"]["metrics"]
        assert metrics["outcome"] == -1


@pytest.mark.parametrize("keyword", [{"penalty": -1}, {"penalty": "x"}, {"penalty": True}, {"penalty": float("nan")}])
def test_faulty_penalties(keyword):
    with pytest.raises(ConfigError, match="penalty must be a number"):
        palaver.make("kuhn-v0", **keyword)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"length": 13}, "length must be"),
        ({"rows": 3, "columns": 3}, "no line of 4 fits"),
        ({"rows": True}, "rows must"),
    ],
)
def test_faulty_boards(keywords, message):
    with pytest.raises(ConfigError, match=message):
        palaver.make("connect4-v0", **keywords)


def test_tasks_from_a_file(tmp_path):
    path = tmp_path / "deals.jsonl"
    path.write_text("".join(json.dumps({"deal": deal}) + "\n" for deal in ("K Q", "Q Q", "4 4")))
    with pytest.warns(palaver.core.PalaverWarning, match="2 of 3 rows left out"):
        env = palaver.make("kuhn-v0", tasks=str(path))
    assert [task["deal"] for task in env.tasks] == ["K Q"]
    path.write_text('{"deal": "J J J"}\n')
    with pytest.raises(TaskError, match="not three cards"):
        palaver.make("leduc-v0", tasks=str(path))


def test_a_smaller_board_leaves_out_openings_that_do_not_exist():
    with pytest.warns(palaver.core.PalaverWarning, match="left out"):
        env = palaver.make("connect4-v0", rows=4, columns=4)
    assert len(env.tasks) == 1 + 4 + 16
    assert env.reset(options={"task": 0})[1]["p1"]["legal_actions"] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("name", ["reference", "uniform"])
def test_scripted_policies_play_legal_games(id, name):
    env, rule = palaver.make(id), resolve(palaver.spec(id).scripted[name])
    for seed in range(4):
        totals, outcome = episode(env, (rule, rule), seed, seed % len(env.tasks))
        assert totals[0] == -totals[1]
        assert outcome == (totals[0] > 0) - (totals[0] < 0)
    for text in ("", "hello", "Actions: .", "Connect four. You\nx\ny\nz", "Tic-tac-toe.\n1 2\nActions: 1."):
        assert isinstance(rule((Message("user", text),), 0), str)
    assert rule((), 0) == ""


def test_the_reference_of_tic_tac_toe_does_not_lose():
    env = palaver.make("tictactoe-v0")
    for seed in range(20):
        totals, _ = episode(env, (reference.tictactoe_reference, reference.uniform), seed, "start")
        assert totals[0] >= 0
        totals, _ = episode(env, (reference.uniform, reference.tictactoe_reference), seed, "start")
        assert totals[0] <= 0


@pytest.mark.parametrize(("id", "game", "bound"), [("kuhn-v0", kuhn.GAME, 0.25), ("leduc-v0", leduc.GAME, 3.0)])
def test_the_reference_is_close_to_equilibrium_by_its_own_answers(id, game, bound):
    """Its profile, counted from 200 answers to every observation; uniform has .92 and 4.75."""
    tree, rule = GameTree.of(game), resolve(palaver.spec(id).scripted["reference"])

    def counted(observations, actions):
        answers = [Counter(rule((Message("user", text),), seed) for seed in range(200)) for text in observations]
        return [[count[action] for action in legal] for count, legal in zip(answers, actions, strict=True)]

    assert nash_conv(tree, profile_of(tree, counted)) < bound


@pytest.mark.parametrize("id", IDS)
def test_players_of_the_arena(id):
    env = palaver.make(id)
    players = {name: resolve(path) for name, path in palaver.spec(id).players.items()}
    observations, infos = env.reset(seed=1)
    play = {"p1": players["reference"](env, "p1", 1), "p2": players["legal"](env, "p2", 2)}
    while env.agents:
        said = {a: play[a](observations[a], infos[a]) for a in env.agents if infos[a]["can_act"]}
        assert all(said[agent] in infos[agent]["legal_actions"] for agent in said)
        observations, *_, infos = env.step(said)
    assert infos["p1"]["metrics"]["illegal"] == 0
