"""Workloads of the benchmark: named model shapes and answer lengths.

Two agents, G = 4, one turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from palaver.core import ConfigError, did_you_mean

GROUP = 4
AGENTS = ("short", "long")
PAD, END = 0, 1  # token ids


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Shape of a Qwen3 with random weights, and its answer length.

    Attributes:
        name: as on the command line.
        hidden, layers, heads, kv_heads, head_dim, inner, vocab: its shape; `inner` is the feed-forward width.
        new_tokens: sampled per answer, unless the end token comes first.
        dtype: bf16 computes in bfloat16 under fp32 master weights.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocab: int
    new_tokens: int
    dtype: Literal["fp32", "bf16"] = "fp32"

    def model(self) -> dict[str, Any]:
        """Keywords for `transformers.Qwen3Config`."""
        return {
            "vocab_size": self.vocab,
            "hidden_size": self.hidden,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "max_position_embeddings": 2048,
            "tie_word_embeddings": True,
            "pad_token_id": PAD,
            "eos_token_id": END,
            "bos_token_id": None,
        }


def _small(name: str, hidden: int, layers: int, vocab: int, new_tokens: int) -> ModelShape:
    return ModelShape(name, hidden, layers, 4, 2, max(8, hidden // 4), 2 * hidden, vocab, new_tokens)


SETTINGS = {
    setting.name: setting
    for setting in (
        _small("A", hidden=64, layers=2, vocab=258, new_tokens=32),
        _small("B", hidden=128, layers=2, vocab=16_000, new_tokens=64),
        _small("C", hidden=256, layers=4, vocab=8_192, new_tokens=64),
        _small("D", hidden=64, layers=2, vocab=151_936, new_tokens=64),
        ModelShape("Qwen3-0.6B", 1024, 28, 16, 8, 128, 3072, 151_936, 256, "bf16"),
    )
}


def setting(name: str) -> ModelShape:
    """Return the setting of that name.

    Raises:
        ConfigError: there is none.
    """
    if name not in SETTINGS:
        raise ConfigError(f"there is no setting {name!r}.{did_you_mean(name, SETTINGS)}")
    return SETTINGS[name]
