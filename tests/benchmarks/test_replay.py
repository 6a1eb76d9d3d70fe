"""Episodes played again, and their pictures on a report's page."""

from __future__ import annotations

import base64
import io
import json
import re
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

from palaver import registry
from palaver.agents.make_policy import make_policy
from palaver.benchmarks.reports import frames as films
from palaver.benchmarks.reports.frames import png, replay
from palaver.benchmarks.reports.run_report.page import write
from palaver.core import ConfigError, Sampling, TaskError
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task
from palaver.episodes import Episode
from palaver.trainers.config.run import RunConfig
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.utils.config import dump


class Dice(TextEnv):
    """Pays what the dice say; the picture shows the turn, the last roll, and how much was said in it."""

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "dice_v0", "render_modes": ["ansi", "rgb_array"]}

    def __init__(self, tasks="sample", turns=3, render_mode=None):
        found = [Task(f"t{number}", {}) for number in range(3 if tasks == "sample" else 2)]
        super().__init__(["a", "b"], found, render_mode=render_mode, source=tasks)
        self.turns, self.seen = turns, [0, 0, 0]

    def initial_observations(self, task):
        self.seen = [0, 0, 0]
        return dict.fromkeys(self.agents, f"roll {task.id}")

    def transition(self, actions):
        roll = int(self.rng.integers(200))
        self.seen = [self.turn + 1, roll, len("".join(actions.values()))]
        over = self.turn + 1 == self.turns
        return StepResult({agent: {"roll": roll / 100} for agent in self.agents}, {}, terminated=over)

    def render(self):
        if self.render_mode == "rgb_array":
            return np.tile(np.array(self.seen, dtype=np.uint8), (6, 8, 1))
        return super().render()


@pytest.fixture
def dice(monkeypatch):
    monkeypatch.setitem(registry._SPECS, "dice-v0", registry.Spec("dice-v0", Dice, agents=("a", "b"), turns=3))
    monkeypatch.setattr(registry.registration, "make", lambda _kind, _id, **keywords: Dice(**keywords))


def played(env, seed=0, tasks=("t0", "t1"), samples=1):
    team = dict.fromkeys(env.possible_agents, make_policy("scripted:say", scripted={"say": f"{__name__}:say"}))
    how = dict.fromkeys(env.possible_agents, Sampling())
    return rollout(env, team, list(tasks), SamplingPlan(samples, turns="independent"), sampling=how, seed=seed)


def say(_conversation, seed):
    return "x" * (seed % 90)


def saved(episode: Episode) -> Episode:
    return Episode.from_dict(json.loads(json.dumps(episode.to_dict())))


def test_every_turn_is_drawn_with_the_same_dice_and_texts():
    env = Dice()
    for episode in played(env, samples=2):
        frames = replay(env, saved(episode))
        assert [turn for turn, _ in frames] == [0, 1, 2]
        for (number, picture), turn in zip(frames, episode.turns, strict=True):
            said = sum(len(each.text) for each in turn.completions.values())
            assert picture.shape == (6, 8, 3)
            assert picture[0, 0].tolist() == [number + 1, round(100 * turn.rewards["a"]), said]
    assert env.render_mode is None
    assert env.agents == []


def test_a_long_episode_is_shown_at_turns_evenly_apart():
    env = Dice(turns=29)
    (episode,) = played(env, tasks=["t2"])
    assert [turn for turn, _ in replay(env, episode)] == [0, 4, 8, 12, 16, 20, 24, 28]


def test_what_was_not_played_so_is_not_drawn():
    env = Dice()
    (episode,) = played(env, tasks=["t0"])
    first, second, third = episode.turns
    for rewards in ({"a": 9.0, "b": second.rewards["b"]}, {"a": float("nan"), "b": second.rewards["b"]}):
        forged = replace(episode, turns=(first, replace(second, rewards=rewards), third))
        with pytest.raises(ConfigError, match="no longer gives the recorded reward for task 't0', turn 2"):
            replay(env, forged)
    with pytest.raises(ConfigError, match="not one of dice_v0"):
        replay(env, replace(episode, env="echo_v0"))
    with pytest.raises(ConfigError, match="not one of dice_v0"):
        replay(env, replace(episode, seed="7"))
    with pytest.raises(TaskError):
        replay(env, replace(episode, task="t9"))


def opened(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def test_a_small_file_keeps_the_frequent_colours():
    rng = np.random.default_rng(0)
    flat = np.repeat(np.repeat(rng.integers(0, 256, (10, 20, 3)), 20, axis=0), 20, axis=1).astype(np.uint8)
    edges = np.concatenate([flat, rng.integers(0, 256, (1, 400, 3)).astype(np.uint8)])
    assert np.array_equal(opened(png(flat)), flat)
    assert np.array_equal(opened(png(edges))[:-1], flat)
    assert opened(png(np.zeros((900, 3600, 3), dtype=np.uint8))).shape == (225, 900, 3)


@pytest.fixture
def run(tmp_path, dice):
    """The folder of a run on dice, as the trainers write it."""

    def make(turns=3, tasks="sample", change=lambda step, episode: episode):
        keywords = {"turns": turns, "tasks": tasks}
        (tmp_path / "episodes").mkdir(exist_ok=True)
        config = RunConfig.model_validate({"train": {"steps": 5}, "env": {"id": "dice-v0", **keywords}})
        (tmp_path / "config.yaml").write_text(dump(config), encoding="utf-8")
        lines = [{"kind": "eval", "step": step, "mean": 1.0, "low": 0.9, "high": 1.1, "n": 2} for step in (0, 5)]
        (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        for step in (0, 5):
            episodes = [change(step, episode) for episode in played(Dice(**keywords), seed=step)]
            text = "".join(json.dumps(episode.to_dict()) + "\n" for episode in episodes)
            (tmp_path / "episodes" / f"eval-{step:06d}.jsonl").write_text(text, encoding="utf-8")
        return tmp_path

    return make


def page(folder) -> tuple[str, list[np.ndarray]]:
    text = write(folder).read_text(encoding="utf-8")
    addresses = re.findall(r'<img [^>]*src="([^"]*)"', text)
    assert len(addresses) == text.count("<img")
    assert all(address.startswith("data:image/png;base64,") for address in addresses)
    assert "<script" not in text
    return text, [opened(base64.b64decode(address.partition(",")[2])) for address in addresses]


def test_the_page_steps_through_the_turns(run):
    folder = run()
    text, pictures = page(folder)
    expected = [
        picture for task in (0, 1) for step in (0, 5) for _, picture in replay(Dice(), played(Dice(), seed=step)[task])
    ]
    assert len(pictures) == len(expected) == 12
    assert all(np.array_equal(one, other) for one, other in zip(pictures, expected, strict=True))
    assert text.count('class="film"') == 4
    names = re.findall(r'<input type="radio" name="([^"]+)"', text)
    assert {name: names.count(name) for name in names} == {
        f"film-{task}-{when}": 4 for task in (1, 2) for when in ("before", "after")
    }
    assert sorted(re.findall(r' id="(film[^"]+)"', text)) == sorted(re.findall(r'<label for="([^"]+)"', text))
    assert 'alt="after turn 3"' in text
    first = played(Dice(), seed=0)[0]
    captions = re.findall(r"<figcaption>([^<]+)</figcaption>", text)
    assert captions[:3] == [f"turn {n}, reward {turn.team_reward:.2f}" for n, turn in enumerate(first.turns, start=1)]


def test_one_turn_needs_no_steps(run):
    text, pictures = page(run(turns=1))
    assert len(pictures) == 4
    assert "<input" not in text


def test_the_style_can_step_to_every_turn_that_is_shown():
    style = (films.__file__ or "").replace("frames.py", "report.css")
    with open(style, encoding="utf-8") as file:
        chosen = [int(n) for n in re.findall(r"nth-of-type\((\d+)\):checked ~ .screen .moving", file.read())]
    assert chosen == list(range(2, films.MOST_FRAMES + 2))


def test_a_page_holds_only_so_many_pictures(run, monkeypatch):
    monkeypatch.setattr(films, "MOST_PICTURES", 7)
    assert len(page(run())[1]) == 6


def test_a_record_that_does_not_fit_has_no_picture_and_says_why(run):
    def change(step, episode):
        turn = replace(episode.turns[0], rewards={"a": 5.0, "b": 5.0})
        return replace(episode, turns=(turn, *episode.turns[1:])) if step and episode.task == "t1" else episode

    text, pictures = page(run(change=change))
    assert len(pictures) == 9
    assert "no pictures of t1: the environment dice_v0 no longer gives the recorded reward" in text


def test_tasks_that_are_gone_leave_a_page_without_pictures(run, monkeypatch):
    folder = run()

    def gone(*_, **__):
        raise TaskError("there is no file 'houses.json'")

    monkeypatch.setattr(registry.registration, "make", gone)
    text, pictures = page(folder)
    assert pictures == []
    assert "no pictures: there is no file &#39;houses.json&#39;" in text


def test_an_environment_without_pictures_is_not_even_made(run, monkeypatch):
    folder = run()
    monkeypatch.setattr(Dice, "metadata", {**Dice.metadata, "render_modes": ["ansi"]})
    text, pictures = page(folder)
    assert pictures == []
    assert "no pictures" not in text
