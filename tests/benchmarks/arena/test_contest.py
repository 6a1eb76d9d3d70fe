"""Games of the arena: paired, reproducible, resumable, and counted right. Rock, paper, scissors and a dilemma."""

from __future__ import annotations

import csv
import dataclasses
import json

import numpy as np
import pytest
from scipy import stats

import palaver
from palaver.benchmarks.arena.tables import markdown, write
from palaver.benchmarks.arena.tournament import estimate, tournament
from palaver.benchmarks.evaluate_against_all import against_all, evaluate_against_all
from palaver.core import CheckpointError, ConfigError, PolicyError
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task
from palaver.registry import NAMESPACE, Spec, register
from palaver.trainers.matches import players
from palaver.trainers.matches import workers as pool
from palaver.trainers.matches.config import GameSpec, TournamentConfig, read_players
from palaver.trainers.matches.play import play
from palaver.trainers.matches.results import GAMES, SETTINGS, GameResult, PlayerStats, describe, prepare, read_games
from palaver.trainers.matches.standings import standings
from palaver.utils.stats.intervals import welch

RPS = {
    "agents": 2,
    "actions": ["rock", "paper", "scissors"],
    "payoffs": [[[0, 0], [-1, 1], [1, -1]], [[1, -1], [0, 0], [-1, 1]], [[-1, 1], [1, -1], [0, 0]]],
    "name": "rps",
}
DILEMMA = {"game": "prisoners-dilemma"}


def setting(players="legal,first,last", **changes):
    given = {"keywords": {"game": RPS}, "battles": 8, "parallel": 5, **changes}
    return TournamentConfig("matrix-v1", read_players(players, palaver.spec("matrix-v1")), **given)


def run(given, **how):
    return pool.run(given, given.games(), None, **how)


def outcome(played):
    return played.game, played.task, played.score, played.turns, tuple(share.illegal for share in played.did)


def test_every_match_is_played_twice_with_sides_swapped():
    games = setting(teamsets=("sample[:2]", "sample[2:4]")).games()
    assert len(games) == len(set(games)) == 2 * 3 * 8
    for game in games:
        assert game._replace(swapped=not game.swapped) in games
    assert GameSpec("", "a", "b", 0, False).seating == ("a", "b")
    assert GameSpec("", "a", "b", 0, True).seating == ("b", "a")


def test_all_pairings_play_the_same_tasks():
    tasks = {}
    for played in run(setting()):
        tasks.setdefault(played.game.match, set()).add(played.task)
    assert all(len(each) == 1 for each in tasks.values())
    assert len(set.union(*tasks.values())) > 1


def test_who_wins_is_worked_out_from_the_table():
    first, last = "first,last", "last,first"  # rock and scissors
    assert {played.score for played in run(setting(first))} == {1.0}
    assert {played.score for played in run(setting(last))} == {0.0}
    assert {played.score for played in run(setting("first,same=first"))} == {0.5}
    assert {played.score for played in run(setting("first,last", keywords=DILEMMA))} == {0.0}  # defecting wins


def test_illegal_actions_are_counted_by_player():
    for played in run(setting("first,lazy")):
        assert played.did[0].illegal == 0
        assert played.did[1].illegal == played.did[1].decisions == 1


def test_what_is_played_beside_a_game_changes_nothing():
    alone = set(map(outcome, run(setting("legal,uniform", parallel=1))))
    beside = set(map(outcome, run(setting("legal,uniform,first", parallel=7, workers=2))))
    assert alone <= beside
    assert set(map(outcome, run(setting("legal,uniform", seed=1)))) != alone


@pytest.mark.slow
def test_processes_play_the_same_games():
    given = setting("legal,uniform")
    assert set(map(outcome, run(given, jobs=2))) == set(map(outcome, run(given)))


def test_policies_are_asked_once_a_turn_for_all_games(monkeypatch):
    given = setting("uniform,lazy", keywords={"game": RPS, "repeats": 3}, battles=10, parallel=10)
    env = given.environment("")
    cast = players.load_players(given, env)
    asked = []
    for name in ("uniform", "lazy"):
        policy = cast[name].policies["a1"]
        act = policy.act
        monkeypatch.setattr(policy, "act", lambda requests, act=act: asked.append(len(requests)) or act(requests))
    assert len(list(play(given, env, cast, given.games()))) == 10
    assert asked == [10] * 6  # two policies in three turns: a forfeited round is followed by the next


def test_games_are_stepped_together(monkeypatch):
    from palaver.envs.matrix.env import MatrixEnv

    sizes, step = [], MatrixEnv.step_together
    monkeypatch.setattr(MatrixEnv, "step_together", lambda envs, *how: sizes.append(len(envs)) or step(envs, *how))
    assert len(run(setting("first,last", battles=10, parallel=4))) == 10
    assert sizes == [4, 4, 2]  # a finished game makes room for the next


def test_conversations_go_on():
    heard = []

    def listen(requests):
        heard.extend([message.role for message in request.conversation] for request in requests)
        return act(requests)

    given = setting("uniform,first", keywords={"game": RPS, "repeats": 2}, battles=2)
    cast = players.load_players(given, given.environment(""))
    act, cast["uniform"].policies["a1"].act = cast["uniform"].policies["a1"].act, listen
    list(play(given, given.environment(""), cast, given.games()))
    assert heard.count(["user"]) == heard.count(["user", "assistant", "user"]) == 2


def test_a_file_that_was_cut_goes_on(tmp_path):
    given = setting("legal,uniform")
    whole, _ = tournament(given, tmp_path / "whole")
    tournament(given, tmp_path / "cut")
    path = tmp_path / "cut" / GAMES
    lines = path.read_bytes().splitlines(keepends=True)
    kept = b"".join(lines[:5]) + lines[5][:20]
    path.write_bytes(kept)
    before = kept[: kept.rfind(b"\n") + 1]
    told, played = [], []
    found, _ = tournament(given, tmp_path / "cut", resume=True, start=lambda *n: told.append(n), report=played.append)
    assert path.read_bytes().startswith(before)
    assert told == [(before.count(b"\n"), 8)]
    assert len(played) == 8 - before.count(b"\n")
    assert found.tables[0].cells == whole.tables[0].cells
    assert found.tables[0].ratings == whole.tables[0].ratings


def test_an_arena_can_grow(tmp_path):
    tournament(setting("legal,first", battles=4), tmp_path)
    done = []
    found, _ = tournament(setting("legal,first,last", battles=6), tmp_path, resume=True, report=done.append)
    assert len(done) == 3 * 6 - 4
    assert found.tables[0].games == 18
    smaller, _ = tournament(setting("legal,last", battles=2), tmp_path, resume=True, report=done.append)
    assert smaller.tables[0].games == 2
    assert len(done) == 14


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": 1}, "games of other settings: seed was 0, not 1"),
        ({"keywords": DILEMMA}, "other settings: keywords"),
        ({"players": "legal,first=last"}, "games of another 'first': first, not last"),
    ],
)
def test_games_of_other_settings_are_refused(tmp_path, changes, said):
    tournament(setting("legal,first", battles=2), tmp_path)
    with pytest.raises(ConfigError, match=said) as refused:
        prepare(describe(setting(**{"players": "legal,first", "battles": 2, **changes})), tmp_path, resume=True)
    assert "\n" not in str(refused.value)
    with pytest.raises(ConfigError, match="already holds an arena; go on with --resume"):
        prepare(describe(setting("legal,first")), tmp_path, resume=False)


def test_files_of_something_else_are_refused(tmp_path):
    tournament(setting("legal,first", battles=2), tmp_path)
    (tmp_path / GAMES).write_text('{"kind": "train"}\n', encoding="utf-8")
    with pytest.raises(CheckpointError, match="line 1, is no game of an arena"):
        read_games(tmp_path / GAMES)
    tournament(setting("legal,first", battles=2), tmp_path / "b")
    (tmp_path / "b" / SETTINGS).write_text("[]", encoding="utf-8")
    with pytest.raises(CheckpointError, match="holds no settings of an arena"):
        prepare(describe(setting("legal,first")), tmp_path / "b", resume=True)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: setting("legal"), "two players or more"),
        (lambda: setting("legal,legal"), "'legal' is named twice"),
        (lambda: setting("legal,,first"), "empty place"),
        (lambda: setting(battles=5), "even number"),
        (lambda: setting(battles=0), "even number"),
        (lambda: setting(teamsets=("sample", "sample")), "team set is named twice"),
        (lambda: setting(agent="x"), "no player 'x'"),
        (lambda: run(setting("legal,refrence")), "no player 'refrence' in matrix-v1. Did you mean 'reference'"),
        (lambda: run(setting("legal,human")), "a person cannot play"),
        (lambda: run(setting(keywords={"game": "xor"})), "gives its agents equal rewards with game=xor"),
        (lambda: run(setting(keywords={"game": RPS, "shared": True})), "gives its agents equal rewards"),
        (lambda: run(setting(keywords={"game": RPS, "tasks": "sample"}, teamsets=("x",))), "named twice"),
        (lambda: TournamentConfig("arxiv-v0", {"a": "random", "b": "random"}).environment(""), "not competitive"),
        (lambda: against_all("matrix-v1", "legal,first"), "one agent"),
        (lambda: against_all("matrix-v1", "legal=random"), "called 'legal' too"),
        (lambda: standings([], ["a", "b"], "a"), "no game has been finished"),
    ],
)
def test_mistakes_are_one_clear_line(make, said):
    with pytest.raises((ConfigError, PolicyError), match=said) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_one_agent_against_all(tmp_path):
    found = evaluate_against_all("matrix-v1", "me=scripted:uniform", tmp_path, keywords={"game": RPS}, battles=2)
    cells = found.tables[0].cells
    assert {one for one, two in cells if two == "me"} == set(found.tables[0].conduct) - {"me"}
    assert all("me" in pair for pair in cells)
    assert found.anchor != "me"


def test_an_estimate_counts_what_is_missing(tmp_path):
    given = setting("legal,first,last,uniform", battles=10)
    guess = estimate(given)
    assert (guess.games, guess.probed) == (60, 6)
    assert 0 < guess.seconds < 60
    done = run(setting("legal,first,last,uniform", battles=4))
    slow = [dataclasses.replace(each, seconds=2.0) for each in done]
    assert estimate(given, slow).seconds == pytest.approx(36 * 2)
    assert estimate(given, slow, jobs=3).seconds == pytest.approx(36 * 2 / 3)


def played(first, second, match, swapped, score, teamset=""):
    did = (PlayerStats(10, 1, 20.0), PlayerStats(5, None, 5.0))
    return GameResult(GameSpec(teamset, first, second, match, swapped), "t", score, 7, "terminated", did, 0.1)


def test_tables_count_games_by_hand():
    games = [played("a", "b", m, s, score) for (m, s), score in {
        (0, False): 1, (0, True): 0.5, (1, False): 1, (1, True): 0, (2, False): 1, (2, True): 1}.items()]  # fmt: skip
    table = standings(games, ["a", "b"], "b", at=1500).tables[0]
    assert (table.cells["a", "b"].wins, table.cells["a", "b"].ties, table.cells["a", "b"].losses) == (4, 1, 1)
    assert (table.cells["b", "a"].wins, table.cells["b", "a"].ties, table.cells["b", "a"].losses) == (1, 1, 4)
    assert table.cells["a", "b"].score == 0.75
    assert table.cells["a", "b"].low == pytest.approx(1 - table.cells["b", "a"].high)
    assert [rating.player for rating in table.ratings] == ["a", "b"]
    assert table.ratings[1].elo == 1500
    assert (table.conduct["a"].illegal, table.conduct["a"].ms) == (0.1, 2.0)
    assert (table.conduct["b"].illegal, table.conduct["b"].ms) == (None, 1.0)
    assert (table.games, table.turns) == (6, 7.0)


def test_the_gap_between_team_sets():
    games = [played("a", "b", m, s, 1.0 if (m + s) % 4 else 0.0, "seen") for m in range(8) for s in (False, True)]
    games += [played("a", "b", m, s, 0.5, "new") for m in range(8) for s in (False, True)]
    found = standings(games, ["a", "b"], "a")
    gap = next(each for each in found.gaps if each.player == "a")
    assert (gap.teamset, gap.seen, gap.other, gap.gap) == ("new", 0.75, 0.5, 0.25)
    assert gap.low < 0.25 < gap.high
    assert sum(each.gap for each in found.gaps) == pytest.approx(0)


def test_welch_is_the_textbook_interval():
    here, there = np.array([1.0, 0.5, 0.75, 0.25, 1.0]), np.array([0.5, 0.0, 0.25])
    ends = stats.ttest_ind(here, there, equal_var=False).confidence_interval(0.95)
    assert welch(here, there) == pytest.approx((ends.low, ends.high))
    assert welch(here, here[:1]) is None
    assert welch(np.ones(3), np.ones(3)) == (0.0, 0.0)


def test_what_is_written(tmp_path):
    given = setting("legal,uniform,first", teamsets=("sample[:3]", "sample[3:6]"), battles=20)
    found, paths = tournament(given, tmp_path, command="palaver arena x")
    assert all(path.is_file() for path in paths)
    text = (tmp_path / "arena.md").read_text(encoding="utf-8")
    assert text == markdown(found)
    for part in ("## sample[:3]", "## sample[3:6]", "Generalisation", "palaver arena x", "**uniform**", "anchor"):
        assert part in text
    with (tmp_path / "arena.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["teamset"] for row in rows] == ["sample[:3]"] * 3 + ["sample[3:6]"] * 3
    assert sum(int(row["games"]) for row in rows) == 2 * 2 * 60
    values = json.loads((tmp_path / "arena.json").read_text(encoding="utf-8"))
    assert values["tables"][0]["cells"][0]["player"] == "legal"
    assert {"provenance", "settings", "command"} <= set(values)
    assert (tmp_path / "arena.png").read_bytes().startswith(b"\x89PNG")


def test_names_cannot_break_a_table(tmp_path):
    odd = "a|b*_"
    games = [played(odd, "$x^2$", m, s, float(s)) for m in range(3) for s in (False, True)]
    found = standings(games, [odd, "$x^2$"], odd)
    assert "a\\|b\\*\\_" in markdown(found)
    assert all(path.is_file() for path in write(found, tmp_path))


class Duel(TextEnv):
    """Paid by a shaped reward that does not say who won; the metric does. Every third task cannot be judged."""

    metadata = {**TextEnv.metadata, "name": "duel_v0", "conversation": "fresh"}  # noqa: RUF012 - as PettingZoo writes it

    def __init__(self):
        super().__init__(["p1", "p2"], [Task(f"t{n}", {}) for n in range(3)])

    def initial_observations(self, task):
        return dict.fromkeys(self.agents, task.id)

    def transition(self, actions):
        paid = {agent: {"shaped": float(agent == "p1")} for agent in self.agents}
        won = (actions["p1"] > actions["p2"]) - (actions["p1"] < actions["p2"])
        return StepResult(
            paid, terminated=True, metrics={"outcome": won}, unscored=self.task.id == "t2", reason="crash"
        )


def strong(env, agent, seed):
    return lambda observation, info: "z"


def weak(env, agent, seed):
    return lambda observation, info: "a"


@pytest.fixture
def duel():
    here = __name__
    yield register(
        Spec("duel-v0", Duel, competitive=True, players={"strong": f"{here}:strong", "weak": f"{here}:weak"})
    )
    from pettingzoo.env_registry import registration

    palaver.registry._SPECS.pop("duel-v0")
    registration.parallel_registry.pop(f"{NAMESPACE}/duel-v0")


def test_the_outcome_that_an_environment_tells_counts_and_failed_games_do_not(duel, tmp_path, monkeypatch):
    monkeypatch.setattr("palaver.trainers.matches.players.load_attribute",
                        lambda path, *_: {"strong": strong, "weak": weak}[path.partition(":")[2]])  # fmt: skip
    given = TournamentConfig("duel-v0", {"strong": "strong", "weak": "weak"}, battles=20)
    told = []
    found, _ = tournament(given, tmp_path, report=told.append)
    failed = [each for each in told if each.failed]
    assert 0 < found.failed == len(failed) < 20
    assert {each.task for each in failed} == {"t2"}
    assert {each.failed for each in failed} == {"crash"}
    cell = found.tables[0].cells["strong", "weak"]
    assert (cell.wins, cell.ties, cell.losses) == (20 - len(failed), 0, 0)
    assert (tmp_path / GAMES).read_text(encoding="utf-8").count("\n") == 20
    assert found.tables[0].conduct["strong"].illegal == 0.0
    assert "failed and do not count" in markdown(found)
    again, _ = tournament(given, tmp_path, resume=True, report=told.append)
    assert len(told) == 20 + len(failed)
    assert again.failed == len(failed)
