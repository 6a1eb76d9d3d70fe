"""Texts as numbers: hostile ones too."""

from __future__ import annotations

import hashlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from palaver.core import ConfigError, Message, PolicyError
from palaver.trainers.config.loading import parse
from palaver.trainers.config.mixer import MixerConfig
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.policy_update import PolicyUpdater
from palaver.trainers.value_decomposition.encoders import (
    FrozenFeatures,
    OneHotEncoder,
    Sentences,
    Words,
    encoder,
    hashed,
)
from tests.closeness import assert_values_close
from tests.trainers.learning import policy
from tests.trainers.toys import save_model

HEARD = (Message("user", "Choose."),)


def test_a_table_numbers_texts_as_they_come():
    table = OneHotEncoder(3)
    assert table.states(["b", "a", "b"]).argmax(dim=1).tolist() == [0, 1, 0]
    assert table.actions([(HEARD, "left"), (HEARD, "right"), ((), "left")]).argmax(dim=1).tolist() == [0, 1, 2]
    again = OneHotEncoder(3)
    again.load_state_dict(table.state_dict())
    assert again.states(["a"]).argmax(dim=1).tolist() == [1]


def test_a_full_table_says_what_to_do():
    table = OneHotEncoder(2)
    table.states(["a", "b"])
    with pytest.raises(ConfigError, match=r"algorithm\.mixer\.encoder=words"):
        table.states(["c"])


def test_words_are_unit_vectors_that_know_word_and_order():
    one, same, other, turned = (
        hashed(text, 64) for text in ("Red beats blue", "red, beats BLUE!", "green", "blue beats red")
    )
    assert one.norm() == pytest.approx(1.0, rel=1e-5)
    assert torch.equal(one, same)
    assert not torch.allclose(one, other)
    assert not torch.allclose(one, turned)
    assert hashed(" ?! ", 64).norm() == 0
    words = Words(16)
    assert words.actions([(HEARD, "left")]).shape == (1, words.action)
    assert words.states(["x", "y"]).shape == (2, words.state)


def test_words_are_the_same_in_every_process():
    """blake2b of `red`, 8 bytes, read as a number: its lowest bit is the sign, the others the place."""
    number = int(hashlib.blake2b(b"red", digest_size=8).hexdigest(), 16)
    found = hashed("red", 1000)
    assert found.nonzero().tolist() == [[(number >> 1) % 1000]]
    assert found.sum() == (1.0 if number % 2 else -1.0)


@given(st.text(max_size=60))
@settings(max_examples=30, deadline=None)
def test_any_text_has_features(text):
    assert bool(torch.isfinite(hashed(text, 32)).all())
    assert OneHotEncoder(1).states([text]).tolist() == [[1.0]]


@pytest.fixture(scope="module")
def hidden() -> FrozenFeatures:
    return FrozenFeatures(policy(), 64, MixerConfig())


def test_hidden_states_do_not_depend_on_the_batch(hidden):
    pairs = [(HEARD, "left"), (HEARD, "a much longer answer than the other one"), (HEARD, "")]
    whole = hidden.actions(pairs)
    assert whole.shape == (3, hidden.action)
    for row, pair in enumerate(pairs):
        assert_values_close(hidden.actions([pair])[0], whole[row])
    assert whole[:, -3].tolist() == pytest.approx([1.609438, 3.688879, 0.0], abs=1e-5)  # log 5, log 40, log 1
    assert_values_close(hidden.states(["a", "bb"])[1], hidden.states(["bb"])[0])


def test_how_likely_an_answer_was(hidden):
    """The mean and the least of what the library's own logits make of its tokens."""
    said, body = "a much longer answer than the other one", hidden.body
    before, tokens = list(body.render(HEARD)), body.tokenizer(said, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = body.model(torch.tensor([[*before, *tokens]])).logits[0, len(before) - 1 : -1]
    expected = logits.log_softmax(-1).gather(-1, torch.tensor(tokens)[:, None]).clamp(min=-20.0)
    found = hidden.actions([(HEARD, said), (HEARD, "")])[:, -2:]
    assert found[0].tolist() == pytest.approx([expected.mean().item(), expected.min().item()], abs=1e-4)
    assert found[1].tolist() == [0.0, 0.0]
    without = FrozenFeatures(body, 64, MixerConfig(likelihood=False))
    assert without.actions([(HEARD, said)]).shape == (1, without.action) == (1, hidden.action - 2)


def test_hidden_states_are_those_of_the_start():
    body = policy()
    reader = FrozenFeatures(body, 64, MixerConfig())
    assert reader.held == sum(p.numel() for p in body.parameters())
    before = reader.states(["a state"])
    with torch.no_grad():
        for p in body.model.parameters():
            p.add_(0.1)
    assert torch.equal(reader.states(["a state"]), before)
    later = FrozenFeatures(body, 64, MixerConfig())
    assert not torch.allclose(later.states(["a state"]), before)
    later.load_state_dict(reader.state_dict())
    assert torch.equal(later.states(["a state"]), before)


def test_a_text_beyond_the_context_is_read_from_its_end(hidden):
    long = "x" * (hidden.longest + 50)
    assert bool(torch.isfinite(hidden.states([long])).all())
    assert bool(torch.isfinite(hidden.actions([((Message("user", long),), long)])).all())


def test_a_model_by_name(tmp_path):
    reader = Sentences(save_model(tmp_path / "m"), "cpu", pass_tokens=64)
    pairs = [(HEARD, "left"), (HEARD, "an answer"), (HEARD, "")]
    whole = reader.actions(pairs)
    assert whole.shape == (3, reader.action)
    assert_values_close(whole[0], reader.actions(pairs[:1])[0])
    assert reader.states(["some text"]).norm() == pytest.approx(1.0, abs=1e-5)


def test_a_model_that_is_not_there(tmp_path):
    with pytest.raises(PolicyError, match="cannot load the model"):
        Sentences(str(tmp_path), "cpu", pass_tokens=64)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, FrozenFeatures),
        ({"actions": "legal"}, OneHotEncoder),
        ({"encoder": "words"}, Words),
        ({"encoder": "table"}, OneHotEncoder),
        ({"actions": "legal", "encoder": "words"}, Words),
        ({"encoder": "policy"}, FrozenFeatures),
    ],
)
def test_which_encoder_a_config_asks_for(settings, kind):
    config = parse({"algorithm": {"mixer": settings}})
    made = PolicyUpdater(policy(), ["a"], config, Distributed("cpu", "fp32")).make_features
    chosen = made() if config.algorithm.mixer.reads == "policy" else encoder(config, "cpu")
    assert isinstance(chosen, kind)


@pytest.mark.parametrize("name", ["hf:", "hf: ", "bert", ""])
def test_an_encoder_that_is_none(name):
    with pytest.raises(ConfigError, match=r"algorithm\.mixer\.encoder.*hf:NAME"):
        parse({"algorithm": {"mixer": {"encoder": name}}})
