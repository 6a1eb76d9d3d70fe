"""A curriculum is read whole or refused by a line that names the key and says what to write."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from omegaconf import OmegaConf

from palaver.core import ConfigError
from palaver.trainers.curriculum.config import Mix, load, parse
from palaver.utils.config import dump, merge, recipes
from tests.trainers.curriculum.fakes import values


def test_it_is_read_back_as_it_was():
    found = parse(values())
    assert parse(yaml.safe_load(dump(found))) == found
    assert found.stages[1].teams["generated:4:train"].floor == 0.25
    assert found.ratings.sets == ("sample:train", "sample:held-out")


def test_the_mix_is_new_old_human():
    assert Mix().parts() == (1.0, 0.0, 0.0)
    assert Mix(synthetic=0.25, old=0.2, human=("x",)).parts() == pytest.approx((0.2, 0.05, 0.75))


def test_a_first_stage_has_nothing_old():
    found = parse(values(mix={"old": 0.5}))
    assert [found.mix_of(stage).old for stage in found.stages] == [0, 0.25, 0.5]


WRONG = [
    ("sede", 1, "unknown key 'sede'. Did you mean 'seed'?"),
    ("ratings.oponents", [], "unknown key 'ratings.oponents'. Did you mean 'opponents'?"),
    ("stages.first.batles", 1, "unknown key 'stages.first.batles'. Did you mean 'battles'?"),
    ("stages.second.mix.sythetic", 1, "unknown key 'stages.second.mix.sythetic'. Did you mean 'synthetic'?"),
    ("stages.first.battles", 7, "stages.first.battles: input should be a multiple of 2, got 7"),
    ("stages.first.battles", "many", "stages.first.battles: input should be a valid integer"),
    ("stages.first.name", "student", "stages.0.name|stages.student.name: a stage's name is small letters"),
    ("stages.first.pairs", {"typed@1 and random@1": 1}, "a pair is written `A v B`"),
    ("stages.first.pairs", {}, "stages.first.pairs: name one or more"),
    ("stages.first.pairs", {"student v random@1": 1}, "there is no student yet in the first stage"),
    ("stages.first.pairs", {"coach v random@1": 1}, "the coach plays and stages.first.coach names none"),
    ("stages.first.pairs", {"typed@1 v third": 1}, "the student of 'third' is not there yet"),
    ("stages.first.learn", "coach", "learn: coach needs a coach"),
    ("stages.first.learn", "loosers", "stages.first.learn: input should be 'coach', 'winners' or 'all'"),
    ("stages.second.pairs", {"student v typed@1": 1}, "learn: coach needs the coach in a pair"),
    ("stages.first.advice", 0.5, "advice needs a coach"),
    ("stages.third.advice", 0.5, "advice needs the student in a pair"),
    ("stages.second.temperature", -1, "stages.second.temperature: input should be greater than or equal to 0"),
    ("stages.second.name", "first", "stages.first: two stages have this name"),
    ("stages.first.name", "random@1", "a stage's name is small letters"),
    ("stages.first.teams", {"a": {"floor": 0.7}, "b": {"floor": 0.7}}, "floors of the teams add up to more than 1"),
    ("stages.first.teams", {"a": 0}, "all weights of the teams are 0"),
    ("stages.first.teams", {"sample:held-out": 1}, "held out by ratings.held_out, so no stage may play it"),
    ("stages.first.mix", {"old": 0.5}, "stages.first: mix.old 0.5 needs an earlier stage"),
    ("mix.synthetic", 0.5, "mix.synthetic 0.5 leaves a share to people; name mix.human folders"),
    ("mix.synthetic", 1.5, "mix.synthetic: input should be less than or equal to 1"),
    ("stages.first.gate.score", {"simple@1": 0.5}, "'simple@1' is not rated by then; add it to ratings.opponents"),
    ("stages.first.gate.above", {"previous": 0}, "'previous' is not rated by then"),
    ("stages.first.gate.teams", ["sample:trian"], "stages.first.gate.teams: 'sample:trian' is no team set"),
    ("stages.first.guard", {"teams": "sample:held-out"}, "there is no student before the first stage"),
    ("stages.third.guard", {"drop": 0.1}, "stages.third.guard.teams is missing; write it"),
    ("stages.second.start", "frist", "stages.second.start: 'frist' is no earlier stage. Did you mean 'first'?"),
    ("stages.second.coach", "third", "the student of 'third' is not there yet"),
    ("ratings.anchor", "simple@1", "ratings.anchor 'simple@1' is not among ratings.opponents"),
    ("ratings.opponents", ["random@1", "second"], "an opponent of the ratings has this name"),
    ("stages", [], "stages: tuple should have at least 1 item"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "told"), WRONG, ids=[f"{key}-{n}" for n, (key, _, _) in enumerate(WRONG)])
def test_what_does_not_fit_is_refused_by_its_key(key, value, told):
    wrong = merge("mine", [OmegaConf.create(values())], [f"{key}={json.dumps(value)}"])
    with pytest.raises(ConfigError) as error:
        parse(wrong)
    pattern = "|".join(map(re.escape, told.split("|")))
    assert re.search(pattern, str(error.value)), error.value
    assert "\n" not in str(error.value)


def test_single_keys_are_set_by_the_way_to_them(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(values()))
    found = load(str(file), ["stages.second.epochs=9", "stages.0.battles=2", "stages.third.teams.[sample:train]=4",
                             "ratings.battles=10", "mix.old=0"])  # fmt: skip
    assert (found.stages[1].epochs, found.stages[0].battles, found.ratings.battles) == (9, 2, 10)
    assert found.stages[2].teams["sample:train"].weight == 4


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ("stages.secnd.epochs=9", "stages.secnd.epochs: there is no 'secnd' in stages. Did you mean 'second'?"),
        ("stages.9.epochs=9", "there is no '9' in stages"),
        ("stages.first=9", "stages.0: input should be a valid dictionary"),
        ("seed.x=1", "'seed' holds no keys"),
        ("seed", "write key=value"),
        ("seed=[", "mine.yaml: while parsing"),
    ],
)
def test_a_way_that_leads_nowhere_is_told(tmp_path, item, told):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(values()))
    with pytest.raises(ConfigError, match=re.escape(told)):
        load(str(file), [item])


def test_what_is_no_curriculum_is_told(tmp_path):
    with pytest.raises(ConfigError, match="name a shipped one or a"):
        load("gen1ou-nono")
    with pytest.raises(ConfigError, match="there is no curriculum file"):
        load(str(tmp_path / "none.yaml"))
    (tmp_path / "list.yaml").write_text("- 1\n")
    with pytest.raises(ConfigError, match="a curriculum is a mapping"):
        load(str(tmp_path / "list.yaml"))
    (tmp_path / "bad.yaml").write_text("a: [\n")
    with pytest.raises(ConfigError, match=r"bad\.yaml"):
        load(str(tmp_path / "bad.yaml"))


@pytest.mark.parametrize("name", sorted(recipes("curriculum")))
def test_recipes_are_sound(name):
    found = load(name)
    assert recipes("curriculum")[name].startswith(found.format)
    assert all(stage.battles >= 2 for stage in found.stages)
