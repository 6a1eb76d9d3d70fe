"""The state machine, with a backend that takes no time: who is promoted, what is learnt, and kills at any moment."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from palaver.core import ConfigError
from palaver.trainers.curriculum.config import load, parse
from palaver.trainers.curriculum.run import CurriculumProgress, run
from palaver.trainers.curriculum.state import BATTLES, RATING
from palaver.trainers.matches.results import GAMES, read_games
from palaver.trainers.run.files import METRICS
from palaver.trainers.run.logging import read_metrics
from tests.trainers.curriculum.fakes import STEPS, FakeBackend, timeless, values


def whole(folder, spec=None, **backend):
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = FakeBackend(folder.with_suffix(".work"), **backend)
    return run(spec or parse(values()), folder, made), made


def test_stages_follow_each_other(tmp_path):
    state, backend = whole(tmp_path / "run")
    assert list(state.promoted) == ["first", "second", "third"]
    assert not state.stopped
    last = state.verdicts[-1]
    assert {place.player for place in last.places} == {"first", "second", "third", "random@1", "typed@1", "veteran@1"}
    assert {place.teamset for place in last.places} == {"sample:train", "sample:held-out"}
    assert [verdict.parent for verdict in state.promoted.values()] == ["", "first", "second"]
    assert [verdict.taught_by for verdict in state.promoted.values()] == [
        ("typed@1", "random@1"), ("veteran@1",), ("second", "first"),
    ]  # fmt: skip
    first, second, _ = backend.lessons
    assert first.start is None
    assert first.sources[0].winners
    assert second.start == (tmp_path / "run" / "stages" / "first" / "1" / "net")
    assert [source.weight for source in second.sources] == [0.75, 0.25]
    assert second.sources[0].players == {"veteran@1", "veteran@1+2"}
    assert second.sources[1].winners, "old battles are learnt from as their stage did"
    assert second.stage_sources[0].folder == second.sources[0].folder


def test_metrics_have_one_axis(tmp_path):
    state, _ = whole(tmp_path / "run")
    lines = read_metrics(tmp_path / "run" / METRICS)
    train = [line for line in lines if line["kind"] == "train"]
    assert [line["step"] for line in train] == list(range(1, STEPS * len(state.verdicts) + 1))
    assert [line["step"] for line in lines if line["kind"] == "rating"] == [
        STEPS * n for n in range(1, len(state.verdicts) + 1)
    ]
    assert [line["stage"] for line in train[::STEPS]] == [verdict.stage for verdict in state.verdicts]


def test_a_student_that_fails_tries_again_with_more_battles(tmp_path):
    spec = values()
    spec["stages"][1]["gate"] = {"score": {"veteran@1": 1.0}, "sure": False}
    state, backend = whole(tmp_path / "run", parse(spec))
    assert [verdict.student for verdict in state.attempts("second")] == ["second", "second.2", "second.3"]
    assert not any(verdict.passed for verdict in state.attempts("second"))
    best = state.promoted["second"].student
    ratings = {p.player: p.elo for p in state.attempts("second")[-1].places if p.teamset == "sample:train"}
    assert ratings[best] == max(ratings[v.student] for v in state.attempts("second"))
    again = backend.lessons[2]
    assert again.start == tmp_path / "run" / "stages" / "second" / "1" / "net"
    assert len(again.stage_sources) == 2
    assert len({source.folder for source in again.stage_sources}) == 2, "the second attempt plays other battles"
    assert sum(source.weight for source in again.sources) == pytest.approx(1)


def test_a_gate_can_end_it(tmp_path):
    spec = values()
    spec["stages"][0] |= {"gate": {"score": {"veteran@1": 1.0}, "sure": False}, "repeats": 0}
    state, _ = whole(tmp_path / "run", parse(spec))
    assert state.stopped == "first"
    assert not state.promoted
    assert len(state.verdicts) == 1


def test_what_is_finished_is_not_done_again(tmp_path):
    state, _ = whole(tmp_path / "run")
    before = (tmp_path / "run.work").read_text()
    again, backend = whole(tmp_path / "run")
    assert (tmp_path / "run.work").read_text() == before
    assert backend.done == 0
    assert again.verdicts == state.verdicts


def test_stages_may_be_added_and_those_to_come_changed(tmp_path):
    spec = values()
    rest = spec["stages"][1:]
    spec["stages"] = spec["stages"][:1]
    whole(tmp_path / "run", parse(spec))
    state, backend = whole(tmp_path / "run", parse(spec | {"stages": spec["stages"] + rest, "jobs": 3}))
    assert list(state.promoted) == ["first", "second", "third"]
    assert len(backend.lessons) == len(state.verdicts) - 1
    assert load(str(tmp_path / "run")).jobs == 3


@pytest.mark.parametrize(("key", "value"), [("seed", 8), ("stages", None)])
def test_another_curriculum_is_refused(tmp_path, key, value):
    whole(tmp_path / "run")
    other = values()
    if key == "stages":
        other["stages"][0]["epochs"] = 9
    else:
        other[key] = value
    with pytest.raises(ConfigError, match=f"began with another {key}"):
        whole(tmp_path / "run", parse(other))


def test_the_watcher_is_told(tmp_path):
    told, ticks = [], []
    progress = CurriculumProgress(
        phase=told.append,
        tick=lambda text, total: ticks.append(total),
        verdict=lambda verdict, state: told.append((verdict.student, len(state.verdicts))),
    )
    run(parse(values()), tmp_path / "run", FakeBackend(tmp_path / "work"), progress)
    assert told[:4] == ["first: battles", "first: learning", "first: ratings", ("first", 1)]
    assert ticks[: 8 + STEPS + 120] == [8] * 8 + [STEPS] * STEPS + [2 * 3 * 20] * 120


def _killed(folder: str, after: int) -> None:
    whole(Path(folder), die_after=after)


# A first attempt has 8 battles, 4 steps and 120 rated games; the second starts at 133.
@pytest.mark.parametrize("after", [1, 8, 9, 12, 13, 132, 133, 146, 149, 250, 390])
def test_killed_anywhere_it_ends_the_same(tmp_path, after):
    """SIGKILL after so many pieces of work, again and again until it gets through; nothing is done twice."""
    reference, _ = whole(tmp_path / "whole" / "run")
    folder = tmp_path / "killed" / "run"
    folder.parent.mkdir()
    context = multiprocessing.get_context("fork")
    for dies in (True, after < 300):  # a late second kill would come after the end
        process = context.Process(target=_killed, args=(str(folder), after))
        process.start()
        process.join(60)
        assert process.exitcode == (-9 if dies else 0)
    state, _ = whole(folder)
    assert timeless(state.verdicts) == timeless(reference.verdicts)
    assert {name: v.student for name, v in state.promoted.items()} == {
        name: v.student for name, v in reference.promoted.items()
    }
    for name in (METRICS, "curriculum.yaml", f"{RATING}/{GAMES}"):
        assert (folder / name).read_text() == (tmp_path / "whole" / "run" / name).read_text()
    work = folder.with_suffix(".work").read_text().splitlines()
    assert len(work) == len(set(work)), "a game or a step was done twice"
    stores = [sorted(path.name for path in (each / BATTLES).iterdir()) for each in (folder, reference.folder)]
    assert stores[0] == stores[1]
    for name in stores[0]:
        assert read_games(folder / BATTLES / name / GAMES) == read_games(reference.store / name / GAMES)


def test_what_is_learnt_from_stands_when_learning_begins(tmp_path):
    """A battle that has failed is not played later, or a training that was killed would go on with other battles."""
    process = multiprocessing.get_context("fork").Process(target=_fails, args=(str(tmp_path / "run"),))
    process.start()
    process.join(60)
    assert process.exitcode == -9
    state, backend = whole(tmp_path / "run")
    assert state.verdicts[0].played == 6
    assert backend.lessons[0].stage_sources[0].weight == 1
    assert len(read_games(state.store / state.verdicts[0].battles / GAMES)) == 6


def _fails(folder):
    whole(Path(folder), lost=(1,), die_after=7)


def test_a_cut_metrics_file_is_written_anew(tmp_path):
    whole(tmp_path / "run")
    path = tmp_path / "run" / METRICS
    text = path.read_text()
    path.write_text(text[:-20])
    whole(tmp_path / "run")
    assert path.read_text() == text


def test_verdicts_that_are_something_else_are_told(tmp_path):
    state, _ = whole(tmp_path / "run")
    path = state.folder / "stages" / "first" / "1" / "verdict.json"
    values_ = json.loads(path.read_text())
    del values_["passed"], values_["places"]
    path.write_text(json.dumps(values_))
    with pytest.raises(Exception, match="is no verdict of a curriculum"):
        whole(tmp_path / "run")
