"""Tokenizers in the manner of well-known families, built in memory: their control tokens, templates and normalisers."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE, Unigram
from transformers import PreTrainedTokenizerFast

from tests.models import CHAT_TEMPLATE

_DEEPSEEK = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m['role'] == 'assistant' %}"
    "{{ '<｜Assistant｜>' + m['content'].split('</think>')[-1] + '<｜end▁of▁sentence｜>' }}"
    "{% else %}{{ '<｜User｜>' + m['content'] }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}"
)
_LLAMA = (
    "{% for m in messages %}{% if m['role'] == 'assistant' %} {{ m['content'] }} </s>"
    "{% else %}<s>[INST] {{ m['content'] }} [/INST]{% endif %}{% endfor %}"
)


def qwen() -> PreTrainedTokenizerFast:
    """Bytes, NFC, `<|im_start|>` and its like special, marks of thoughts and tools tokens that are not."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|box_start|>"]
    made = _bytes(normalizers.NFC(), special, ["<think>", "</think>", "<tool_call>", "</tool_call>"])
    made.chat_template = CHAT_TEMPLATE
    return made


def deepseek() -> PreTrainedTokenizerFast:
    """Bytes; the marks of the turns are tokens that are *not* special, with full-width bars."""
    made = _bytes(
        None, ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"], ["<｜User｜>", "<｜Assistant｜>", "</think>"]
    )
    made.bos_token = "<｜begin▁of▁sentence｜>"
    made.chat_template = _DEEPSEEK
    return made


def llama() -> PreTrainedTokenizerFast:
    """SentencePiece with NFKC: control tokens are pieces of its vocabulary, `[INST]` is one without being a token."""
    letters = [chr(code) for code in range(33, 127)] + ["▁", "é", "｜"]
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), ("[INST]", -1.0), ("[/INST]", -1.0)]
    core = Tokenizer(Unigram([*pieces, *((letter, -9.0) for letter in letters)], unk_id=0))
    core.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" ", "▁")])
    core.decoder = decoders.Metaspace(prepend_scheme="never")
    made = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>", bos_token="<s>", eos_token="</s>")
    made.chat_template = _LLAMA
    return made


def uncased() -> PreTrainedTokenizerFast:
    """Bytes, small letters without accents, and control tokens that are looked for in the text so normalised."""
    made = _bytes(
        normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]),
        [AddedToken(name, special=True, normalized=True) for name in ("<|eos|>", "<|im_start|>", "<|im_end|>")],
        [],
    )
    made.chat_template = CHAT_TEMPLATE
    return made


def _bytes(
    normaliser: normalizers.Normalizer | None, special: list[str] | list[AddedToken], others: list[str]
) -> PreTrainedTokenizerFast:
    vocabulary = {symbol: n for n, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    core = Tokenizer(BPE(vocab=vocabulary, merges=[]))
    if normaliser is not None:
        core.normalizer = normaliser
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(list(special))
    core.add_tokens([AddedToken(name, normalized=False) for name in others])
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token=str(special[0]))


FAMILIES = {"qwen": qwen, "deepseek": deepseek, "llama": llama, "uncased": uncased}
