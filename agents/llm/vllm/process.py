"""A vLLM engine in this process, started so that the rest of the process stays as it was.

At its start vLLM seeds the global generators, replaces `torch.set_num_threads` and `sys.excepthook`, and sets
environment variables that child processes would inherit. All of that is undone, except for the variables that vLLM
reads later.
"""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from palaver.core import PolicyError
from palaver.text import one_line

_OWN = "VLLM_"
# one process; no messages, for errors are raised too; no statistics sent anywhere
_SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CONFIGURE_LOGGING": "1",
    "VLLM_LOGGING_LEVEL": "CRITICAL",
    "VLLM_NO_USAGE_STATS": "1",
}
# what vLLM raises for a model, a size or a device that it does not support
_FAILURES = (ValueError, RuntimeError, NotImplementedError, AssertionError, ImportError, OSError, KeyError, TypeError)


def start(device: torch.device, name: str, **settings: Any) -> Any:
    """Start a vLLM engine.

    Args:
        device: device of the policy; vLLM must be built for it.
        name: of the policy, for messages.
        settings: keywords of `vllm.EngineArgs`.

    Raises:
        PolicyError: vLLM is not installed, is built for another device, or does not support the model.
    """
    with _unchanged_process():
        try:
            from vllm import EngineArgs, LLMEngine
            from vllm.platforms import current_platform
        except ImportError as error:
            raise PolicyError(
                f"engine='vllm' of {name!r} needs vllm, which cannot be imported ({one_line(error)}): docs/vllm.md "
                "says how to install it"
            ) from error
        if current_platform.device_type != device.type or device.index:
            raise PolicyError(
                f"engine='vllm' of {name!r} uses the first device of the kind it is built for, "
                f"{current_platform.device_type!r}, and the policy is on {str(device)!r}; set device, or another engine"
            )
        try:
            return LLMEngine.from_engine_args(EngineArgs(disable_log_stats=True, seed=0, **settings))
        except _FAILURES as error:
            raise PolicyError(f"engine='vllm' cannot serve {name!r}: {one_line(error, 300)}") from error


@contextmanager
def _unchanged_process() -> Iterator[None]:
    os.environ.update({name: value for name, value in _SETTINGS.items() if name not in os.environ})
    environment, set_threads, threads = dict(os.environ), torch.set_num_threads, torch.get_num_threads()
    states, hook = (random.getstate(), np.random.get_state()), sys.excepthook
    try:
        with torch.random.fork_rng(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.excepthook = hook
        torch.set_num_threads = set_threads
        torch.set_num_threads(threads)
        random.setstate(states[0])
        np.random.set_state(states[1])
        for name in {name for name in os.environ if not name.startswith(_OWN)} - set(environment):
            del os.environ[name]
        os.environ.update({name: value for name, value in environment.items() if not name.startswith(_OWN)})
