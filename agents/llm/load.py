"""Loading a causal language model and its tokenizer, with every failure told in one line."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import constants, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError, StrictDataclassError
from safetensors import SafetensorError
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as library_logging

from palaver.core import PolicyError

HUB_TIMEOUT_S = 5.0
_BUILT_IN = (OSError, ValueError, KeyError, ImportError, RuntimeError, TypeError, AttributeError)
_FAILURES = (*_BUILT_IN, SafetensorError, StrictDataclassError)


def pick_device(name: str) -> torch.device:
    """The torch device called `name`; `auto` is the GPU where there is one.

    Raises:
        PolicyError: torch does not know the name or the device is not here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise PolicyError(f"the device {name!r} cannot be used: {_one_line(error)}") from error
    return device


def load_pretrained(source: str, device: torch.device) -> tuple[nn.Module, Any]:
    """The model (fp32, evaluation mode, on `device`) and the tokenizer saved under a folder or a hub name.

    Raises:
        PolicyError: no such folder or hub model, no network, no model in it, weights missing, or no tokenizer.
    """
    local = _is_local(source)
    keywords: dict[str, Any] = {"trust_remote_code": False, "local_files_only": local}
    try:
        with quiet():  # what the library warns of (weights it had to invent) is an error below
            model, report = AutoModelForCausalLM.from_pretrained(
                source, dtype=torch.float32, output_loading_info=True, **keywords
            )
            tokenizer = AutoTokenizer.from_pretrained(source, **keywords)
    except _FAILURES as error:
        raise PolicyError(f"cannot load the model {source!r}: {_one_line(error)}") from error
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        raise PolicyError(f"the model {source!r} lacks {len(missing)} of its weights, among them {missing[0]!r}")
    if not _reads_letters(tokenizer):
        raise PolicyError(f"the model {source!r} comes without a tokenizer that can read ordinary text")
    model.to(device).eval()
    return model, tokenizer


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no warnings of transformers, which would break into a run's own display."""
    level, bars = library_logging.get_verbosity(), library_logging.is_progress_bar_enabled()
    library_logging.set_verbosity_error()
    library_logging.disable_progress_bar()
    try:
        yield
    finally:
        library_logging.set_verbosity(level)
        if bars:
            library_logging.enable_progress_bar()


def _reads_letters(tokenizer: Any) -> bool:
    """False for the empty tokenizer that the library makes up where a folder has none."""
    ids = tokenizer.encode("abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ", add_special_tokens=False)
    return any(token != tokenizer.unk_token_id for token in ids)


def _is_local(source: str) -> bool:
    """Whether everything is on this machine; raises where a model can be neither read nor fetched."""
    folder = Path(source).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise PolicyError(f"the folder {source!r} holds no model: it has no config.json")
        return True
    if folder.exists():
        raise PolicyError(f"{source!r} is a file; name the folder that holds the model")
    if source.startswith((".", "/", "~")) or source.count("/") > 1:
        raise PolicyError(f"there is no model folder {source!r}")
    try:
        if isinstance(try_to_load_from_cache(source, "config.json"), str):
            return True
    except HFValidationError as error:
        raise PolicyError(f"{source!r} is neither a folder nor a model's name on the hub") from error
    _need_hub(source)
    return False


def _need_hub(source: str) -> None:
    """One short look at the hub, because the library's own calls retry for half a minute without a network."""
    if constants.HF_HUB_OFFLINE:
        raise PolicyError(f"the model {source!r} is not on this machine, and HF_HUB_OFFLINE forbids fetching it")
    address = f"{constants.ENDPOINT}/api/models/{source}"
    try:
        urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=HUB_TIMEOUT_S).close()
    except urllib.error.HTTPError as error:
        if error.code == 404:
            raise PolicyError(f"there is no folder and no model on the hub called {source!r}") from error
        # any other answer (401: private or absent) is left to the library, which knows the user's login
    except OSError as error:
        raise PolicyError(f"the model {source!r} is not on this machine, and the hub cannot be reached") from error


def _one_line(error: BaseException, limit: int = 300) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"
