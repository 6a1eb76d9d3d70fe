"""Team sets: what ships, what is drawn, what is refused, what is held out."""

from __future__ import annotations

import itertools
import random

import pytest

from palaver.core import ConfigError, PalaverWarning, TaskError
from palaver.envs.pokemon import teams
from palaver.envs.pokemon.showdown import ShowdownError

TAUROS = "Tauros\n- Body Slam\n- Hyper Beam\n- Earthquake\n- Blizzard\n"
ILLEGAL = "Mewtwo\n- Psychic\n- Amnesia\n- Recover\n- Ice Beam\n"


@pytest.mark.parametrize("format", teams.SAMPLES)
def test_the_sample(pool, format):
    found = teams.load("sample", format, pool)
    assert len(found.teams) == teams.SAMPLE_SIZE
    assert found.refused == {}
    assert len({team.packed for team in found.teams}) == teams.SAMPLE_SIZE
    assert all(len(set(team.species)) == 6 for team in found.teams)
    assert len({name for team in found.teams for name in team.species}) >= 11


@pytest.mark.parametrize("format", ["gen1ou", "gen9ou"])
def test_the_sample_is_what_the_generator_draws(pool, format):
    shipped = teams.resources.files("palaver.envs.pokemon").joinpath("sample").joinpath(f"{format}.txt")
    assert teams.sample(format, pool) == shipped.read_text(encoding="utf-8")


def distance(found):
    """Mean Jaccard distance of species and moves over all pairs."""
    words = [set(team.packed.replace("]", "|").replace(",", "|").split("|")) - {""} for team in found.teams]
    pairs = list(itertools.combinations(words, 2))
    return sum(1 - len(a & b) / len(a | b) for a, b in pairs) / len(pairs)


def test_the_ladder(pool):
    sets = {n: teams.load(f"generated:2:v{n}", "gen4ou", pool) for n in range(8)}
    assert [len(sets[n].teams) for n in range(8)] == [1, 2, 2, 8, 8, 8, 8, 8]
    assert all(found.refused == {} for found in sets.values())
    assert sets[0].teams[0].packed == sets[1].teams[0].packed == sets[2].teams[0].packed
    bases = {frozenset(team.species) for team in sets[2].teams}
    assert {frozenset(team.species) for team in sets[3].teams} == bases
    for n, team in enumerate(sets[4].teams):
        assert 1 <= 6 - len(set(team.species) & set(sets[2].teams[n // 4].species)) <= 2
    assert distance(sets[3]) < distance(sets[4]) < distance(sets[5]) < distance(sets[6])


def test_seeds_of_generated_teams(pool):
    first, again, other = (teams.load(f"generated:2:s{seed}", "gen1ou", pool) for seed in (5, 5, 6))
    assert first.teams == again.teams
    assert {team.packed for team in first.teams}.isdisjoint(team.packed for team in other.teams)


def test_a_folder(pool, tmp_path):
    (tmp_path / "b.gen1ou_team").write_text(TAUROS)
    (tmp_path / "a.gen1ou_team").write_text(TAUROS.replace("Tauros", "Snorlax").replace("Blizzard", "Rest"))
    (tmp_path / "c.gen9ou_team").write_text("not read")
    found = teams.load(tmp_path, "gen1ou", pool)
    assert [team.id for team in found.teams] == ["a.gen1ou_team", "b.gen1ou_team"]
    assert found.teams[1].species == ("tauros",)
    assert "252,252,252,252,252,252" in found.teams[1].packed  # the old generations' export text leaves full effort out
    assert [team.id for team in teams.load(f"{tmp_path}[1:]", "gen1ou", pool).teams] == ["b.gen1ou_team"]


def test_several_teams_in_a_file(pool, tmp_path):
    file = tmp_path / "teams.txt"
    file.write_text(f"=== [gen1ou] one ===\n\n{TAUROS}\n=== [gen2ou] two ===\n\nbroken\n=== [gen1ou] one ===\n{TAUROS}")
    assert [team.id for team in teams.load(file, "gen1ou", pool).teams] == ["one", "one-2"]


def test_illegal_teams_are_refused_with_the_validators_reasons(pool, tmp_path):
    file = tmp_path / "a.txt"
    file.write_text(ILLEGAL)
    with pytest.raises(TaskError, match=r"no legal team in .*Mewtwo is tagged Uber, which is banned"):
        teams.load(file, "gen1ou", pool)
    with pytest.raises(TaskError, match="Mewtwo"):
        teams.load(tmp_path, "gen1ou", pool)
    (tmp_path / "b.txt").write_text(TAUROS)
    with pytest.warns(PalaverWarning, match=r"1 of 2 teams in .* are left out: a\.txt: Mewtwo"):
        found = teams.load(tmp_path, "gen1ou", pool)
    assert [team.id for team in found.teams] == ["b.txt"]
    assert list(found.refused) == ["a.txt"]


@pytest.mark.parametrize("text", ["", "\n\n", "\x00" * 50, "=== ===", "Tauros|||||||||||]" * 50, "{}", "- " * 5000])
def test_hostile_team_files(pool, tmp_path, text):
    file = tmp_path / "a.txt"
    file.write_text(text)
    with pytest.raises(TaskError, match=r"no legal team|no team"):
        teams.load(file, "gen1ou", pool)


@pytest.mark.parametrize(
    ("source", "format", "error", "told"),
    [
        ("nowhere", "gen1ou", TaskError, "no teams at 'nowhere'"),
        ("sampel", "gen1ou", TaskError, "Did you mean 'sample'"),
        ("sample", "gen7ou", ConfigError, "no sample teams of gen7ou"),
        ("generated:0", "gen1ou", ConfigError, "K from 1 to"),
        ("generated:2000", "gen1ou", ConfigError, "K from 1 to"),
        ("random", "gen1ou", ConfigError, "random battles"),
        ("generated:4", "gen1randombattle", ConfigError, "draws its own teams"),
        ("sample[20:]", "gen1ou", TaskError, "no team is left"),
        ("sample", "gen1oo", ShowdownError, "no format"),
    ],
)
def test_mistakes(pool, source, format, error, told):
    with pytest.raises(error, match=told):
        teams.load(source, format, pool)


def test_a_format_that_draws_its_own(pool):
    assert teams.load("sample", "gen9randombattle", pool) == teams.TeamSet("random", "gen9randombattle", ())


def test_the_split_of_a_set(pool):
    whole, train, held = (teams.load(f"sample:{part}", "gen3ou", pool).teams for part in ("all", "train", "held-out"))
    assert {*train, *held} == {*whole}
    assert {team.core for team in train}.isdisjoint(team.core for team in held)
    assert min(len(train), len(held)) > 0


def test_the_split_is_by_core():
    names, rng = [f"species{n}" for n in range(40)], random.Random(0)
    drawn = [teams.Team(str(n), "", tuple(rng.sample(names, 6))) for n in range(1000)]
    assert 0.15 < sum(team.held_out for team in drawn) / len(drawn) < 0.25
    for team in drawn:
        assert set(team.core.split("+")) < set(team.species)
        assert teams.Team("other", "x", team.species[::-1]).core == team.core
    variations = [teams.Team("", "", (*team.species[:5], "species99")) for team in drawn]
    same = sum(a.core == b.core for a, b in zip(drawn, variations, strict=True))
    assert same > len(drawn) / 2  # four of six replacements leave both species of the core
