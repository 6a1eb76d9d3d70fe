"""Sampling from language models: batches, the KV cache, decoders and engines."""
