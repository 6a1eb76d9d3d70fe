"""Players of poke-env fed from the embedded simulator."""

from __future__ import annotations

import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

from palaver.core import PolicyError
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.players import poke_env as foreign

OWN_PYTHON = Path(sys.prefix) / "poke-env" / "bin" / "python"  # of the environment that `make test` makes for poke-env


def _play(format, seed):
    """StepResult, illegal answers and the choices of one battle between poke-env's heuristic and its random player."""
    env = PokemonEnv(format)
    observations, infos = env.reset(seed=seed)
    players = {"p1": foreign.simple_heuristics(env, "p1", seed), "p2": foreign.random_player(env, "p2", seed)}
    illegal = 0
    while env.agents:
        acting = [side for side in env.agents if infos[side]["can_act"]]
        said = {side: players[side](observations[side], infos[side]) for side in acting}
        observations, _, _, _, infos = env.step(said)
        illegal += int(infos["p1"]["metrics"]["illegal"])
    return infos["p1"]["metrics"]["outcome"], illegal, env.choices


@pytest.mark.usefixtures("pool")
@pytest.mark.skipif(not util.find_spec("poke_env"), reason="poke-env is not installed")
@pytest.mark.parametrize("format", ["gen1ou", "gen9ou"])
def test_its_heuristic_beats_its_random_player_by_legal_answers_and_again(format):
    played = [_play(format, seed) for seed in (1, 2, 3)]
    assert sum(outcome for outcome, _, _ in played) >= 1
    assert sum(illegal for _, illegal, _ in played) == 0
    assert _play(format, 1) == played[0]


@pytest.mark.usefixtures("pool")
def test_without_poke_env_one_line_says_what_to_do(monkeypatch):
    env = PokemonEnv("gen1ou")
    monkeypatch.setattr(util, "find_spec", lambda _: None)
    with pytest.raises(PolicyError, match=r"pip install 'palaver\[poke-env\]'"):
        foreign.random_player(env, "p1", 0)


@pytest.mark.skipif(bool(util.find_spec("poke_env")) or not OWN_PYTHON.exists(), reason="poke-env has no environment")
def test_poke_env_in_an_environment_of_its_own():
    root = Path(__file__).resolve().parents[3]
    files = [__file__, str(root / "tests" / "benchmarks" / "test_pokemon_seat.py")]
    done = subprocess.run(
        [str(OWN_PYTHON), "-m", "pytest", "-q", "-n", "0", "-rs", *files],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "poke-env is not installed" not in done.stdout
