"""Which weights a policy has: a fingerprint that two policies share if, and only if, they hold the same numbers."""

from __future__ import annotations

import hashlib

from palaver.agents.base.policy import Policy


def fingerprint(policy: Policy) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of what a model's training changes: shapes and fp32 numbers.

    Of an adapter these are its own; "" of a policy without weights, as a scripted or a remote one.
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
