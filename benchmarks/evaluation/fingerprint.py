"""Fingerprint of a policy's weights: equal if and only if the weights are equal."""

from __future__ import annotations

import hashlib

from palaver.agents.base.policy import Policy


def fingerprint(policy: Policy) -> str:
    """First 16 hexadecimal digits of the SHA-256 of the trainable weights (shapes, fp32 values).

    For a LoRA policy those of the adapter; "" for a policy without weights, as a scripted or a remote one.
    """
    parameters = getattr(policy, "parameters", None)
    if parameters is None:
        return ""
    import torch

    digest = hashlib.sha256()
    for parameter in parameters():
        digest.update(repr(tuple(parameter.shape)).encode())
        digest.update(parameter.detach().to("cpu", torch.float32).contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
