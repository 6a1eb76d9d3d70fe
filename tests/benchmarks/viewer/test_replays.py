"""Replays of battles: hit points, statuses and boosts of recorded battles, played again by their seeds."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from palaver.benchmarks.viewer import battles, replays
from palaver.benchmarks.viewer.page import Choices, collect
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.replay import frames
from palaver.trainers.matches.recording import Observer
from palaver.trainers.rollout.branches import start
from palaver.trainers.trajectories.files import Writer
from palaver.trainers.trajectories.record import Trajectory

pytestmark = pytest.mark.usefixtures("pool")
HP = {"switch": 4, "drag": 4, "-damage": 3, "-heal": 3, "-sethp": 3}


def played(env, seed):
    """Both sides' trajectories of a battle of random actions without texts, and the simulator's log."""
    task, rng = env.tasks[seed % len(env.tasks)].id, random.Random(seed)
    start(env, task, seed)
    observer = Observer(env)
    observations, rewards, infos = env.observations, {}, {}
    while env.agents:
        observer.before(observations)
        actions = {side: rng.choice(list(legal)) for side, legal in env.legal_actions.items() if legal}
        if rng.random() < 0.02:
            actions = dict.fromkeys(actions, "an illegal answer")
        observations, rewards, _, _, infos = env.step(actions)
        observer.after(rewards, infos)
    score = {"p1": 1.0, "p2": 0.0}.get(env.battle.winner, 0.5)
    sides = [
        Trajectory(
            f"b{seed}", env.format, side, f"player-{side}", f"player-{other}", str(env.source), task, seed,
            score if side == "p1" else 1 - score, observer.decisions(side),
        )
        for side, other in (("p1", "p2"), ("p2", "p1"))
    ]  # fmt: skip
    return sides, env.log()


def hp_changes(lines):
    """(side and name, share) of every line of a log that gives hit points."""
    changes = []
    for line in lines:
        parts = line.split("|")
        at = 2 if len(parts) > 1 and parts[1] == "faint" else HP.get(parts[1]) if len(parts) > 2 else None
        if at:
            now, _, most = (["0"] if at == 2 else parts[at].split())[0].partition("/")
            changes.append((re.sub(r"^(p\d)\w?: ", r"\1 ", parts[2]), int(now) / int(most) if most else 0.0))
    return changes


def shown_changes(lines, shown):
    """The same of the frames, which stand one for each event with a text."""
    wanted, found = hp_changes(lines), []
    last = {}
    for frame in shown:
        for side in ("p1", "p2"):
            for name, share, *_ in frame[side]:
                key = f"{side} {name}"
                if last.get(key) != share:
                    found.append((key, share))
                    last[key] = share
    known, moved = {}, []
    for key, share in wanted:  # a line that changes nothing, such as a switch at unchanged hit points, is no change
        if known.get(key) != share:
            moved.append((key, share))
            known[key] = share
    return moved, found


def check(format, count):
    env = PokemonEnv(format, observation="vector")
    for seed in range(count):
        sides, log = played(env, seed)
        episode = battles.episode(sides)
        again = replays.again(replays.environment(None, "", episode), episode)
        assert again.lines == log
        assert again.winner == env.battle.winner
        shown = frames(again.lines)
        wanted, found = shown_changes(log, shown)
        assert found == wanted != []
        for side in ("p1", "p2"):
            view = env.view(side)["me"]
            actives = [mon for mon in shown[-1][side] if mon[3]]
            assert len(actives) == 1
            true = next(mon for mon in view["team"] if mon["slot"] == 1)
            assert actives[0][1] == pytest.approx(true["hp"] / true["max"])
            if true["hp"]:
                assert actives[0][2] == true["status"]
                assert dict(actives[0][4]) == view["boosts"]
        unpacked = [[], []]
        for _, _, changes in replays.packed(shown):
            for side, place, mon in changes:
                unpacked[side][place : place + 1] = [mon]
        assert unpacked == [shown[-1]["p1"], shown[-1]["p2"]]
    env.close()


@pytest.mark.parametrize("format", ["gen1ou", "gen9ou"])
def test_a_few_replays_equal_the_simulators_log(format):
    check(format, 4)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["gen1ou", "gen2ou", "gen4ou", "gen9ou", "gen9randombattle"])
def test_two_hundred_replays_equal_the_simulators_log(format):
    check(format, 40)


def test_a_folder_without_texts_has_replays(tmp_path):
    env = PokemonEnv("gen1ou", observation="vector")
    with Writer(tmp_path / "battles") as writer:
        for seed in range(2):
            writer.add(*played(env, seed)[0])
    data = collect(tmp_path / "battles", Choices())
    assert data["notes"] == []
    for episode in data["episodes"]:
        assert episode["team"] == ["player-p1", "player-p2"]
        shown = [data["texts"][text] for _, text, _ in episode["replay"]["frames"]]
        assert shown[-1] == f"{episode['replay']['winner']} won"
        stories = "\n".join(data["texts"][turn["story"]] for turn in episode["turns"] if "story" in turn)
        assert stories.count(" came in ") == sum(" came in " in text for text in shown) - 2  # without the leads
        assert not re.search(r"\d/\d", stories)


def test_a_record_that_does_not_fit_has_a_note():
    env = PokemonEnv("gen1ou", observation="vector")
    episode = battles.episode(played(env, 3)[0])
    other = replace(episode, seed=4)
    with pytest.raises(replays.ConfigError, match=r"had other actions|does not end as recorded"):
        replays.again(env, other)
    with pytest.raises(replays.ConfigError, match="are not here"):
        replays.environment(None, "", replace(episode, teams="/no/such/folder"))
