"""Ablations: one key varied, all else equal, in one arena."""

from __future__ import annotations

import multiprocessing

import pytest

from palaver.benchmarks.reports.curriculum import page
from palaver.core import CheckpointError, ConfigError
from palaver.trainers.curriculum import ablation
from palaver.trainers.curriculum.ablation import ablate, plan
from palaver.trainers.curriculum.state import BATTLES
from tests.trainers.curriculum.fakes import STEPS, FakeBackend, values


@pytest.mark.parametrize(
    ("vary", "told"),
    [
        ("mix.old", "write --vary key=a,b,c"),
        ("mix.old=0.5", "two values or more"),
        ("mix.old=0.5,", "two values or more"),
        ("mix.old=0.5,0.5", "the value 0.5 stands there twice"),
        ("mix.odl=0,1", "unknown key 'mix.odl'. Did you mean 'old'"),
        ("stages.secnd.epochs=1,2", "there is no 'secnd' in stages"),
        ("mix.synthetic=0,1", "name mix.human folders"),
        ("seed=[,1", "--vary: while parsing"),
    ],
)
def test_what_cannot_be_varied_is_told(vary, told):
    with pytest.raises(ConfigError, match=told.replace("[", r"\[")):
        plan(values(), vary)


def test_variants_differ_in_the_key_alone():
    key, variants = plan(values(), "stages.second.mix.old=0,0.5,1")
    assert key == "stages.second.mix.old"
    assert [spec.stages[1].mix.old for spec in variants.values()] == [0, 0.5, 1]
    plain = [spec.model_dump() for spec in variants.values()]
    for each in plain:
        each["stages"][1]["mix"]["old"] = None
    assert plain[0] == plain[1] == plain[2]
    assert all(stage.repeats == 0 and not stage.gate.score and not stage.gate.above and stage.guard is None
               for stage in variants["0"].stages)  # fmt: skip


def test_lists_are_values_too():
    _, variants = plan(values(), "ratings.held_out=[sample:held-out],[sample:held-out,generated:4:held-out]")
    assert [len(spec.ratings.held_out) for spec in variants.values()] == [1, 2]


def made(folder, **backend):
    key, variants = plan(values(), "stages.second.mix.old=0,0.5,1")
    return ablate(key, variants, folder / "out", FakeBackend(folder / "work", **backend))


def test_all_variants_meet_in_one_arena(tmp_path):
    found = made(tmp_path)
    assert [variant.value for variant in found.variants] == ["0", "0.5", "1"]
    assert {variant.steps for variant in found.variants} == {3 * STEPS}
    assert found.spread == 0
    names = {rating.player for rating in found.standings.tables[0].ratings}
    assert names == {"old=0", "old=0.5", "old=1", "random@1", "typed@1", "veteran@1"}
    assert found.standings.tables[0].cells["old=0", "old=1"].games == 20
    # what is played before the key matters is played once: 1 first stage. The fake networks are alike, so all later too
    assert len(list((tmp_path / "out" / BATTLES).iterdir())) == 3
    assert ablation.load(tmp_path / "out").variants == found.variants
    assert ablation.load(tmp_path / "out").standings.tables == found.standings.tables


def test_tables_and_picture(tmp_path):
    found = made(tmp_path)
    table, *matrices = page.ablation_tables(found)
    assert [row[0] for row in table.rows] == ["0", "0.5", "1"]
    assert len(matrices) == 2
    assert all(path.stat().st_size for path in page.write_ablation(found, tmp_path))
    with pytest.raises(CheckpointError, match="holds no ablation"):
        ablation.load(tmp_path)


def _killed(folder, after):
    made(folder, die_after=after)


def test_killed_it_ends_the_same(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    process = multiprocessing.get_context("fork").Process(target=_killed, args=(tmp_path / "a", 45))
    process.start()
    process.join(60)
    assert process.exitcode == -9
    again, whole = made(tmp_path / "a"), made(tmp_path / "b")
    assert again.variants == whole.variants
    assert again.standings.tables == whole.standings.tables
    work = (tmp_path / "a" / "work").read_text().splitlines()
    assert len(work) == len(set(work))
