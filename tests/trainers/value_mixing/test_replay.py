"""The replay: what it keeps, what it draws, how scenes of different widths become one batch."""

from __future__ import annotations

import torch

from palaver.trainers.value_decomposition.replay import (
    DecisionFeatures,
    Replay,
    Transition,
    scene_of,
    stacked,
    together,
)


def scene(number: int, *counts: int) -> DecisionFeatures:
    """A scene whose features are its number; agent i has `counts[i]` actions."""
    features = [torch.full((count, 3), float(number)) for count in counts]
    return scene_of(torch.full((2,), float(number)), features)


def transition(number: int, *counts: int) -> Transition:
    return Transition(scene(number, *counts), torch.tensor([0, 0]), float(number), 0.5, scene(number + 1, 1, 1))


def test_a_scene_marks_what_is_allowed():
    found = scene(4, 2, 0)
    assert found.candidates.shape == (2, 2, 3)
    assert found.allowed.tolist() == [[True, True], [False, False]]
    assert found.candidates[1].abs().sum() == 0


def test_scenes_of_different_widths_are_filled_up_and_the_rest_is_not_allowed():
    found = stacked([scene(1, 1, 1), scene(2, 3, 2)])
    assert found.candidates.shape == (2, 2, 3, 3)
    assert found.allowed.tolist() == [
        [[True, False, False], [True, False, False]],
        [[True, True, True], [True, True, False]],
    ]
    assert found.state.tolist() == [[1.0, 1.0], [2.0, 2.0]]


def test_a_batch_has_all_fields_along_its_first_axis():
    batch = together([transition(1, 2, 2), transition(5, 1, 2)])
    assert batch.reward.tolist() == [1.0, 5.0]
    assert batch.goes_on.tolist() == [0.5, 0.5]
    assert batch.chosen.shape == (2, 2)
    assert batch.then.state[:, 0].tolist() == [2.0, 6.0]


def test_the_oldest_go():
    replay = Replay(3)
    replay.add(transition(n, 1, 1) for n in range(5))
    assert [each.reward for each in replay.transitions] == [2.0, 3.0, 4.0]


def test_the_seed_fixes_what_is_drawn():
    replay = Replay(50)
    replay.add(transition(n, 1, 1) for n in range(50))
    drawn = [replay.sample(20, torch.Generator().manual_seed(seed)).reward.tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) > 5


def test_what_is_kept_survives_a_checkpoint_and_shared_scenes_stay_shared(tmp_path):
    shared = scene(7, 2, 1)
    replay = Replay(10)
    replay.add([Transition(shared, torch.tensor([n, 0]), float(n), 0.9, shared) for n in (0, 1)])
    torch.save(replay.state_dict(), tmp_path / "r.pt")
    again = Replay(10)
    again.load_state_dict(torch.load(tmp_path / "r.pt", weights_only=True))
    assert [each.reward for each in again.transitions] == [0.0, 1.0]
    assert [each.chosen.tolist() for each in again.transitions] == [[0, 0], [1, 0]]
    assert len({id(scene) for each in again.transitions for scene in (each.scene, each.then)}) == 1
    assert torch.equal(again.transitions[0].scene.candidates, shared.candidates)
