"""Reward models: the number of transformers itself, whatever shares the batch; folders, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForSequenceClassification

from palaver.agents.base.rewards import make_reward
from palaver.agents.reward_models.model import READING, RewardModel, fresh, load, save, wrap
from palaver.core import ConfigError, PolicyError
from palaver.envs.base.transcripts import HOSTILE
from palaver.scoring import Reward, ScoringRequest
from tests.models import byte_tokenizer, tiny_qwen3

CPU = {"device": "cpu"}


def classifier(outputs: int = 1, seed: int = 0, **changes: Any) -> Qwen3ForSequenceClassification:
    """A random one, with a head that makes scores of about 1."""
    torch.manual_seed(seed)
    settings = {
        "vocab_size": 260, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512, "initializer_range": 0.2,
        "pad_token_id": 0, "eos_token_id": 1, "num_labels": outputs,
    }  # fmt: skip
    return Qwen3ForSequenceClassification(Qwen3Config(**(settings | changes))).eval()


def model(template: bool = True, **changes: Any) -> RewardModel:
    return wrap(classifier(**changes), byte_tokenizer(template), "auto", None, "rm:made")


def case(*said: str, told: str = "Say something.") -> ScoringRequest:
    agents = "abc"[: len(said)]
    return ScoringRequest("t", dict.fromkeys(agents, told), dict(zip(agents, said, strict=True)))


def test_it_is_a_reward():
    assert isinstance(model(), Reward)


@pytest.mark.parametrize("template", [True, False], ids=["template", "plain"])
def test_the_score_is_the_one_output_of_the_text_alone(template):
    """By hand: the tokenizer's own rendering, one text at a time, without padding or mask."""
    made = model(template)
    cases = [case("short"), case("a much longer answer than the other", "and another"), case("short", "x" * 90)]
    texts = [
        ("Say something.", "short"),
        ("[a reads]\nSay something.\n\n[b reads]\nSay something.",
         "[a says]\na much longer answer than the other\n\n[b says]\nand another"),
        ("[a reads]\nSay something.\n\n[b reads]\nSay something.", f"[a says]\nshort\n\n[b says]\n{'x' * 90}"),
    ]  # fmt: skip
    expected = []
    for told, said in texts:
        messages = [{"role": "user", "content": told}, {"role": "assistant", "content": said}]
        if template:
            text = made.tokenizer.apply_chat_template(messages, tokenize=False)
            ids = made.tokenizer.encode(text, add_special_tokens=False)
        else:
            ids = [*made.tokenizer.encode(f"{told}\n{said}\n"), made.tokenizer.eos_token_id]
        with torch.no_grad():
            expected.append(float(made.model(input_ids=torch.tensor([ids])).logits[0, 0]))
    verdicts = made.score(cases)
    assert [verdict.score for verdict in verdicts] == pytest.approx(expected, abs=1e-5)
    assert len(set(expected)) == 3
    assert all(verdict.cost.calls == 1 and verdict.cost.prompt_tokens > 0 for verdict in verdicts)


def test_scores_do_not_depend_on_what_shares_the_batch(monkeypatch):
    made = model()
    cases = [case("y" * n, "z") for n in (3, 200, 40, 3, 120)]
    whole = [verdict.score for verdict in made.score(cases)]
    monkeypatch.setattr("palaver.agents.reward_models.model.PASS_TOKENS", {"cpu": 1})
    assert [made.score([each])[0].score for each in cases] == pytest.approx(whole, abs=1e-5)
    assert whole[0] == whole[3]


def test_no_second_begin_of_sequence():
    made = model()
    made.tokenizer.add_bos_token = True
    ids = made.read(case("hello"))
    assert ids[0] == 2, "the template's own first token"
    assert ids.count(2) == 2, "one for each message"


def test_any_text_is_scored_or_says_why():
    texts = [each for each in HOSTILE if isinstance(each, str)]
    verdicts = model().score([case(text[:20_000], text[:300], told=text[:300]) for text in texts])
    assert all((verdict.score is None) == bool(verdict.failure) for verdict in verdicts)
    assert 0 < sum(verdict.score is None for verdict in verdicts) < len(texts)


def test_control_tokens_in_words_are_words():
    """`<|im_end|>` and the padding token written by an agent are letters, so that the text ends where it ends."""
    made = model()
    ids = made.read(case("good<|im_end|>\n<|pad|><|im_start|>user"))
    assert ids.count(3) == 2
    assert 0 not in ids


def test_too_long_and_not_finite_are_failures_and_harm_no_other():
    made = model()
    long, fine = made.score([case("x" * 600), case("fine")])
    assert long.score is None
    assert "reads at most 512" in long.failure
    assert fine.score is not None
    with torch.no_grad():
        made.model.score.weight.fill_(float("nan"))
    (broken,) = made.score([case("fine")])
    assert (broken.score, broken.cost.calls) == (None, 1)
    assert "nan" in broken.failure


def test_a_saved_model_gives_the_same_scores(tmp_path):
    made = wrap(classifier(), byte_tokenizer(True), "plain", None, "rm:made")
    made.max_tokens = 100
    save(made, tmp_path)
    again = make_reward(f"rm:{tmp_path}?device=cpu")
    cases = [case("one"), case("one", "two"), case("x" * 200)]
    assert [v.score for v in again.score(cases)] == [v.score for v in made.score(cases)]
    assert again.score(cases)[2].score is None, "it reads no longer texts than it was trained on"
    assert load(str(tmp_path), CPU).chat == "plain", "as it was trained, though there is a template"


def test_a_head_on_a_language_model_is_drawn_from_the_seed(tmp_path):
    tiny_qwen3().save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    heads = [fresh(str(tmp_path), "cpu", "auto", 64, seed).model.score.weight for seed in (0, 0, 1)]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])
    with pytest.raises(PolicyError, match="palaver experiment marlhf reward-model"):
        load(str(tmp_path), CPU)


def test_what_is_no_reward_model_is_refused(tmp_path):
    with pytest.raises(PolicyError, match="no model folder"):
        load(str(tmp_path / "none"), CPU)
    folder = _saved(classifier(outputs=3), tmp_path / "three")
    with pytest.raises(PolicyError, match="3 outputs"):
        load(str(folder), CPU)
    with pytest.raises(ConfigError, match="no option 'devise'"):
        load(str(folder), {"devise": "cpu"})
    with pytest.raises(ConfigError, match="dtype"):
        load(str(folder), {"dtype": "fp8"})
    good = _saved(classifier(), tmp_path / "good")
    (good / READING).write_text(json.dumps({"chat": "poem", "max_tokens": 3}))
    with pytest.raises(PolicyError, match="how the reward model reads"):
        load(str(good), CPU)


def test_a_model_without_padding_pads_with_its_end(tmp_path):
    tokenizer = byte_tokenizer()
    tokenizer.pad_token = None
    made = wrap(classifier(pad_token_id=None), tokenizer, "auto", None, "rm:made")
    assert made.padding == made.model.config.pad_token_id == 1
    alone = [made.score([each])[0].score for each in (case("x"), case("x" * 50))]
    assert [v.score for v in made.score([case("x"), case("x" * 50)])] == pytest.approx(alone, abs=1e-5)


def _saved(made: Any, folder: Path) -> Path:
    made.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder
