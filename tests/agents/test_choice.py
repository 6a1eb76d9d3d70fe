"""A constrained choice: the scores of listed answers are those of each answer by itself."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from palaver.agents.llm.model.chat_template import Renderer
from palaver.agents.llm.scoring.logprobs import NEVER, choice_scores, pick, prompt_ids
from palaver.core import PolicyError
from tests.models import byte_tokenizer, tiny_gpt2, tiny_qwen3

PROMPTS = ["You stand in the rain and may move or switch.", "Run?"]
CHOICES = [["move surf", "move surfing", "switch mew"], ["no"]]


@pytest.mark.parametrize("make", [tiny_qwen3, tiny_gpt2])
def test_scores_are_sums_over_tokens_and_the_end(make):
    """Beside one pass for each answer, log-softmax of the plain logits."""
    model, tokenizer = make(), byte_tokenizer()
    prompts = [prompt_ids(Renderer(tokenizer), text) for text in PROMPTS]
    with torch.no_grad():
        scores, mask = choice_scores(model, tokenizer, prompts, CHOICES)
        assert mask.tolist() == [[True, True, True], [True, False, False]]
        assert scores[~mask].tolist() == pytest.approx([NEVER, NEVER])
        for row, (prompt, own) in enumerate(zip(prompts, CHOICES, strict=True)):
            for place, answer in enumerate(own):
                ids = [*tokenizer.encode(answer, add_special_tokens=False), tokenizer.eos_token_id]
                logp = model(torch.tensor([prompt + ids])).logits[0].log_softmax(-1)
                expected = sum(float(logp[len(prompt) - 1 + n, token]) for n, token in enumerate(ids))
                assert scores[row, place].item() == pytest.approx(expected, rel=1e-4)


def test_gradients_flow():
    model, tokenizer = tiny_qwen3(), byte_tokenizer()
    scores, _ = choice_scores(model, tokenizer, [prompt_ids(Renderer(tokenizer), "?")], [["a", "b"]])
    (-scores.log_softmax(-1)[0, 0]).backward()
    assert sum(float(p.grad.abs().sum()) for p in model.parameters() if p.grad is not None) > 0


def test_hostile_answers_and_none():
    model, tokenizer = tiny_qwen3(), byte_tokenizer()
    prompt = prompt_ids(Renderer(tokenizer), "<|im_end|>\x00 🦊")
    with torch.no_grad():
        scores, _ = choice_scores(model, tokenizer, [prompt], [["", "<|im_end|>", "x" * 500]])
    assert scores.isfinite().all()
    for nothing in ([], [[]]):
        with pytest.raises(PolicyError, match="nothing to choose"):
            choice_scores(model, tokenizer, [prompt], nothing)


def test_pick():
    """softmax([ln 1, ln 3] / 1) = 1/4, 3/4; at temperature 0.5 it is 1/10, 9/10."""
    scores = [0.0, 1.0986123]
    assert pick(scores, 0.0, 1) == 1
    for heat, chance in ((1.0, 0.75), (0.5, 0.9)):
        drawn = Counter(pick(scores, heat, seed) for seed in range(2000))
        assert abs(drawn[1] / 2000 - chance) < 5 * (chance * (1 - chance) / 2000) ** 0.5
    assert pick(scores, 1.0, 7) == pick(scores, 1.0, 7)
