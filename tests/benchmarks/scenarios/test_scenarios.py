"""Scenarios: frozen by name, with the partners that they say."""

from __future__ import annotations

import hashlib
from importlib import resources

import pytest

from palaver.agents.llm.model.options import ModelOptions
from palaver.benchmarks.evaluation import evaluate
from palaver.benchmarks.evaluation.evaluate import measure
from palaver.benchmarks.scenarios import partners
from palaver.benchmarks.scenarios.spec import is_scenario, load, setting
from palaver.core import ConfigError, Message
from palaver.envs.maths import answers
from palaver.envs.maths.reference import reference
from palaver.envs.writing.reference import arxiv
from palaver.registry import COMMON, spec
from palaver.trainers.rollout.episodes import text_env
from palaver.utils.config import recipes

FROZEN = {
    "arxiv-random-v2": "b6f3de9830bdead8",
    "arxiv-reference-v2": "d03d0f741d4e7e15",
    "arxiv-strangers-v2": "84e0d6b54d213b31",
    "build-mini-reference-v2": "01380191b9be4ac2",
    "build-mini-strangers-v2": "5b59140b9dfc5c63",
    "build-mini-twins-v2": "de99f17dd2202bef",
    "coding-mini-reference-v2": "971cf2ce091df55c",
    "coding-mini-strangers-v2": "4931fcb9fa802f92",
    "connect4-uniform-v2": "c264658283ee6849",
    "deal-or-no-deal-reference-v2": "c33f13667e5c49a7",
    "kuhn-uniform-v2": "dbff820831f69c52",
    "leduc-uniform-v2": "f06c110eb9abb3b5",
    "maths-random-v2": "75ae4b88d4ec6674",
    "maths-stubborn-v2": "64cc69dab79cc8f4",
    "matrix-switch-v1": "865f175d7fb0a069",
    "negotiation-reference-v2": "48c9be5430cef786",
    "pokemon-reference-v2": "e43d5a247075a92f",
    "pokemon-uniform-v2": "9c8b467f63611341",
    "tictactoe-uniform-v2": "9e585ab9e82ada2a",
    "trust-and-split-reference-v2": "083d148c2ace2fcd",
}  # fmt: skip
STRANGERS = "arxiv-magrpo-4068be635be9"  # with the hash of what the recipe says


def test_what_a_version_measures_never_changes():
    """A scenario that differs from what its name stood for needs another version, not another line here."""
    folder = resources.files("palaver.benchmarks.scenarios")
    found = {
        name: hashlib.sha256(folder.joinpath(f"{name}.yaml").read_bytes()).hexdigest()[:16]
        for name in recipes("scenario")
    }
    assert found == FROZEN


@pytest.mark.parametrize("name", sorted(recipes("scenario")))
def test_shipped_scenarios_fit_their_environment(name):
    found = load(name)
    seats = spec(found.env).agents
    assert {seat for seating in found.focal for seat in seating} <= set(seats)
    assert all(len(seating) < len(seats) for seating in found.focal), "somebody must be a stranger"
    if found.partner.policy.startswith("recipe:"):
        assert evaluate.home(found.partner.policy.removeprefix("recipe:")).name == STRANGERS
    assert set(found.keywords) <= COMMON | set(spec(found.env).keywords())
    assert is_scenario(name)
    assert not is_scenario(found.env)


def test_the_strangers_were_trained_apart_from_the_team():
    assert load("arxiv-strangers-v2").partner.policy == "recipe:arxiv-magrpo+seed=1"
    assert evaluate.home("arxiv-magrpo+seed=1") != evaluate.home("arxiv-magrpo") == evaluate.home("arxiv-magrpo+seed=0")


def asked(env, task=0):
    observations, _ = env.reset(seed=0, options={"task": task})
    return (Message("user", observations["solver1"]),)


def test_the_stubborn_solver_is_wrong_by_one_whatever_it_hears():
    env = text_env("maths-mini-v0", {})
    for task in range(20):
        opening = asked(env, task)
        right = answers.read(reference(opening, 0)).value
        said = partners.stubborn(opening, 0)
        assert answers.read(said).value == right + 1
        later = (*opening, Message("assistant", said), Message("user", f"Others say #### {right}"))
        assert partners.stubborn(later, 1) == said
    assert answers.read(partners.stubborn((), 0)).value == 1


def test_a_debate_with_the_stubborn_one_by_hand():
    # the right solver's and the wrong one's votes tie; each is scored by its own answer: 1 for the right one, 0 for the
    # other, and both are paid the mean over two turns: (1 + 0) / 2 x 2 = 1, of 2
    result, episodes = measure(setting(load("maths-stubborn-v2"), "scripted:reference", ModelOptions()))
    assert (result.focal.mean, result.mean, result.max_reward) == (1.0, 1.0, 2.0)
    assert len(episodes) == 64
    assert result.scenario == "maths-stubborn-v2"
    assert result.focal.silent == 0.0
    wrong, _ = measure(setting(load("maths-stubborn-v2"), "scripted:lazy", ModelOptions()))
    assert wrong.focal.mean == 0.0


def test_conventions_meet_among_programmers():
    # `reference` always takes the helper for a test: among its like it earns all
    result, _ = measure(setting(load("coding-mini-reference-v2"), "scripted:reference", ModelOptions()))
    assert (result.mean, result.max_reward) == (2.0, 2.0)
    assert result.focal.silent == pytest.approx(0.2), "one half of a program that is there"
    assert result.focal.mean == pytest.approx(1.8)
    strangers, _ = measure(setting(load("coding-mini-strangers-v2"), "scripted:reference", ModelOptions()))
    assert 0.0 < strangers.focal.mean < 2.0


def test_the_fickle_author_keeps_to_the_rules_in_half_of_the_episodes():
    env = text_env("arxiv-v0", {})
    observations, _ = env.reset(seed=0, options={"task": 0})
    opening = (Message("user", observations["method"]),)
    kept = [partners.fickle(opening, seed) == arxiv(opening, seed) for seed in range(400)]
    assert 160 <= sum(kept) <= 240, "200, give or take four standard deviations of 10"
    assert partners.fickle(opening, 3) == partners.fickle(opening, 3)


WHOLE = "about: x\nenv: echo-v0\nfocal: [[a1]]\npartner: {policy: random}\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "mine-v1.yaml: while parsing"),
        ("- 1", "is a mapping"),
        (WHOLE + "wrong: 1", "wrong"),
        (WHOLE.replace("[[a1]]", "[]"), "focal"),
        (WHOLE.replace("random", "'run:runs/x'"), "fingerprints of its weights"),
    ],
)
def test_what_does_not_fit_is_one_line(text, says, tmp_path):
    path = tmp_path / "mine-v1.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says) as found:
        load(str(path))
    assert "\n" not in str(found.value)


def test_a_scenario_of_ones_own(tmp_path):
    path = tmp_path / "mine-v1.yaml"
    path.write_text(WHOLE)
    result, _ = measure(setting(load(str(path)), "scripted:reference", ModelOptions()))
    assert result.scenario == "mine-v1"
    other = path.rename(tmp_path / "Mine.yaml")
    with pytest.raises(ConfigError, match="name: string should match pattern"):
        load(str(other))
    with pytest.raises(
        ConfigError,
        match=r"there is no scenario 'arxiv-stranger-v2'; .*Did you mean 'arxiv-strangers-v2'",
    ):
        load("arxiv-stranger-v2")
    with pytest.raises(ConfigError, match="there is no scenario file"):
        load(str(tmp_path / "none-v1.yaml"))


def test_a_recipe_is_trained_once(monkeypatch, tmp_path):
    monkeypatch.setenv("PALAVER_CACHE", str(tmp_path))
    begun = []

    def train(config, folder, launch):
        begun.append((config.seed, launch["overrides"]))
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text("seed: 1\n")
        (folder / "status.json").write_text('{"status": "done"}')

    monkeypatch.setattr("palaver.trainers.train.train", train)
    notes = []
    made = evaluate.resolved("recipe:arxiv-magrpo+seed=1", notes.append)
    assert made == evaluate.resolved("recipe:arxiv-magrpo+seed=1", notes.append)
    assert made.startswith(f"run:{tmp_path}/trained/arxiv-magrpo-")
    assert begun == [(1, ["seed=1"])]
    assert len(notes) == 1
    assert evaluate.resolved("tiny", notes.append) == "tiny"
    with pytest.raises(ConfigError, match="there is no recipe 'arxiv-magrqo'"):
        evaluate.resolved("recipe:arxiv-magrqo", notes.append)
