"""A byte-level BPE tokenizer made from a generator's texts.

Their words are one token each; other text is pieces and bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE, WordLevel
from transformers import PreTrainedTokenizerFast

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
# ChatML, as Qwen has it
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train_tokenizer(texts: Iterable[str], pieces: int, vocabulary: int) -> PreTrainedTokenizerFast:
    """A tokenizer with a ChatML template, of at most `vocabulary` tokens.

    The tokens are three control tokens, the 256 bytes and `pieces` more from merges, as BPE has them, and then whole
    words, the frequent ones first. A word that is a token is never split; any other text falls to pieces and bytes,
    so that every text has tokens and decodes to itself.
    """
    corpus = [*texts, "system\n", "user\n", "assistant\n"]  # the words of the template, which no text holds
    splitter: Any = pre_tokenizers.ByteLevel(add_prefix_space=False)
    base, merges = _pieces(corpus, splitter, pieces)
    for word in _words(corpus, splitter, vocabulary):
        if len(base) < vocabulary:
            base.setdefault(word, len(base))
    core = Tokenizer(BPE(vocab=base, merges=merges, ignore_merges=True))
    core.pre_tokenizer = splitter
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[START],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _pieces(texts: Sequence[str], splitter: Any, count: int) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Control tokens, bytes and merges."""
    core = Tokenizer(BPE())
    core.pre_tokenizer = splitter
    special = [PAD, START, END]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer: Any = trainers.BpeTrainer(
        vocab_size=len(special) + len(alphabet) + count,
        special_tokens=special,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    model = json.loads(core.to_str())["model"]
    return dict(model["vocab"]), [(first, second) for first, second in model["merges"]]


def _words(texts: Sequence[str], splitter: Any, count: int) -> list[str]:
    """Words as the splitter cuts them, with their leading space, the most frequent first."""
    core = Tokenizer(WordLevel())
    core.pre_tokenizer = splitter
    trainer: Any = trainers.WordLevelTrainer(vocab_size=count, show_progress=False)
    core.train_from_iterator(texts, trainer)
    vocab = core.get_vocab()
    return sorted(vocab, key=lambda word: vocab[word])
