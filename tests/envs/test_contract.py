"""Every registered environment keeps the contract, in its default form and in its variants."""

from __future__ import annotations

import functools
import itertools
import time

import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

import palaver
from palaver.envs.base import checks
from palaver.envs.base.transcripts import HOSTILE

VARIANTS = {
    "arxiv-v0": [
        {"agents": 1, "grammar": "sample"},
        {"gated": False, "match": "word", "ending": ".", "length": [1, 9]},
    ],
    "tldr-v0": [{"agents": 1, "max_length": 64}],
    "echo-v0": [{"agents": 3, "num_turns": 5, "shared": False, "render_mode": "ansi"}, {"agents": 1}],
    "pioneer-v0": [{"env": "echo-v0", "keywords": {"num_turns": 1}, "max_length": 200}],
    "matrix-v1": [
        {"game": "two-step", "repeats": 2, "feedback": True, "role_prompts": False},
        {"game": "xor", "agents": 4, "show_payoffs": True},
        {"game": "prisoners-dilemma", "repeats": 3, "illegal": -1, "max_length": 40},
    ],
    "kuhn-v0": [{"penalty": 0, "max_length": 60}],
    "tiny-hanabi-v0": [{"game": "F", "show_payoffs": True, "max_length": 60}],
    "connect4-v0": [{"rows": 4, "columns": 3, "length": 3, "tasks": "sample[:1]"}],
    "hidden-profile-v0": [{"form": "tiny", "rounds": 1}, {"profile": "full"}, {"agents": 5, "cost": 0.1, "rounds": 0}],
    "trust-and-split-v0": [{"rounds": 2, "max_length": 200}],
    "deal-or-no-deal-v0": [{"messages": 0}],
    "negotiation-v0": [{"messages": 2}],
    "hanabi-v0": [{"form": "mini", "strict": True}, {"agents": 5, "turns": 12}],
    "gsm8k-v0": [
        {
            "workflow": "summary",
            "agents": 4,
            "reward_scheme": {"who": "aggregator", "no_answer": 1, "format": 1, "length": 1},
        },
        {
            "workflow": "verify",
            "rounds": 2,
            "reward_scheme": {"when": "influence", "shaping": "incentive"},
            "max_length": 300,
        },
        {"agents": 3, "rounds": 3, "options": {"shuffle": True, "mask": True, "stop": True, "most": 1}},
    ],
    "maths-mini-v0": [{"workflow": "solver_judge", "difficulty": "hard", "reward_scheme": {"labels": "majority"}}],
    "workflow-v0": [
        {"env": "matrix-v1", "workflow": "discussion", "options": {"names": ["a1", "a2"]}, "keywords": {"game": "xor"}},
        {
            "env": "tldr-v0",
            "workflow": "solver_judge",
            "options": {"shuffle": True},
            "reward_scheme": {"when": "accumulated"},
        },
    ],
    "coophumaneval-v0": [
        {"agents": 1, "num_turns": 3, "feedback": "level_passed", "visible_tests": -2},
        {"feedback": "passed", "shift": -4, "scale": 0.5, "stop_above": -3.5, "entry_format": True, "max_length": 300},
        {"feedback": "expert", "expert": "tests.envs.test_contract:advise"},
    ],
    "humaneval-v0": [{"feedback": "plain", "visible_tests": None, "render_mode": "ansi"}],
    "mbpp-v0": [{"feedback": "none", "num_turns": 1}],
    "coding-mini-v0": [{"agents": 1, "max_length": 100}, {"examples": 2, "own_tests": True}],
    "strbuild-v0": [{"agents": 1, "feedback": "perfect", "persistent": True}, {"agents": 3, "difficulty": "hard"}],
    "housebuild-v0": [
        {"agents": 3, "feedback": "perfect", "persistent": True, "reward": "iou"},
        {"agents": 1, "feedback": "rect_modification", "limited": False, "spiders": 0, "difficulty": "easy"},
        {"feedback": "resource_schedule", "num_turns": 2, "difficulty": "hard", "max_length": 2000},
        {"feedback": "position_modification", "limit": 3, "max_commands": 4},
    ],
    "build-mini-v0": [{"agents": 3, "max_commands": 8, "max_length": 300}],
    "pokemon-v1": [
        {"format": "gen9randombattle", "observation": "vector", "reward": "shaped", "turn_limit": 9},
        {"format": "gen4ou", "reward": "aggressive", "penalty": 0.1, "max_length": 300},
    ],
}
EARLY = {
    "kuhn-v0",
    "leduc-v0",
    "tictactoe-v0",
    "tiny-hanabi-v0",
    "connect4-v0",
    "hanabi-v0",
}  # an action is drawn for silence, and may end the game
CASES = [(id, kwargs) for id in palaver.specs() for kwargs in ({}, {"render_mode": "ansi"}, *VARIANTS.get(id, []))]


def advise(_request):
    return '{"aux": "def aux(): return 1"}'


def contract_cases():
    """Every check of every case: those that repeat another, or start processes for a variant, in `test-all` alone."""
    for (id, kwargs), check in itertools.product(CASES, checks.CHECKS):
        drawn = kwargs == {"render_mode": "ansi"} and check not in (checks.check_render, checks.check_picture)
        marks = [pytest.mark.slow] if drawn or (kwargs and check is checks.check_processes) else []
        yield pytest.param(id, kwargs, check, id=f"{id}-{kwargs}-{check.__name__}", marks=marks)


@pytest.mark.parametrize(("id", "kwargs", "check"), list(contract_cases()))
def test_contract(id, kwargs, check):
    check(functools.partial(palaver.make, id, **kwargs))


@pytest.mark.parametrize(("id", "kwargs"), CASES, ids=str)
def test_no_action_takes_long(id, kwargs):
    env = palaver.make(id, **kwargs)
    for action in HOSTILE:
        env.reset(seed=3)
        start = time.process_time()
        env.step(dict.fromkeys(env.agents, action))
        assert time.process_time() - start < 1.0, repr(action)[:40] if isinstance(action, str) else type(action)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("id", palaver.specs())
def test_pettingzoo(id):
    parallel_api_test(palaver.make(id), num_cycles=20)
    parallel_seed_test(functools.partial(palaver.make, id), num_cycles=20)


@pytest.mark.parametrize("id", palaver.specs())
def test_the_spec_tells_the_truth(id):
    spec = palaver.spec(id)
    env = palaver.make(id)
    assert tuple(env.possible_agents) == spec.agents
    assert env.source == "sample"
    assert env.metadata["name"] == id.replace("-", "_")
    env.reset(seed=0)
    turns = 0
    while env.agents:
        env.step({})
        turns += 1
    forfeit = getattr(env, "forfeit", None) if id == "pokemon-v1" else None  # silence loses a battle
    assert turns <= spec.turns if id in EARLY else turns == (forfeit or spec.turns)
