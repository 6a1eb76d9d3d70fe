"""Write the models of the team benchmark.

Usage: `python -m palaver.benchmarks.performance.training.crowd_models JSON`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from transformers import LlamaConfig, LlamaForCausalLM

from palaver.agents.llm.model.load import save_pretrained
from palaver.benchmarks.performance.training import toy
from palaver.benchmarks.performance.training.crowd import OTHER, OWN, Models, size

SEED = 11


def write(order: Models) -> dict[str, int]:
    """Write a Qwen3 and a Llama of the same shape, whose tokenizer has other ids.

    The Llama has no query and key norms.
    """
    shape, folder = size(order.size), Path(order.folder)
    words = shape.model()
    qwen = toy.model(shape, "cpu", SEED)
    save_pretrained(qwen, toy.tokenizer(shape.vocab), folder / OWN)
    llama = LlamaForCausalLM(LlamaConfig(**words, attn_implementation="sdpa")).eval()
    save_pretrained(llama, toy.tokenizer(shape.vocab, backwards=True), folder / OTHER)
    return {OWN: qwen.num_parameters(), OTHER: llama.num_parameters()}


if __name__ == "__main__":
    print(json.dumps(write(Models(**json.loads(sys.argv[1])))))
