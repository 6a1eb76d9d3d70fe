"""Loading a causal language model and its tokenizer; each failure is reported in one line."""

from __future__ import annotations

import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import constants, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError, StrictDataclassError
from safetensors import SafetensorError
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import logging as library_logging

from palaver.core import PolicyError
from palaver.text import one_line

ADAPTER = "adapter_config.json"
HUB_TIMEOUT_S = 5.0
_BUILT_IN = (OSError, ValueError, KeyError, ImportError, RuntimeError, TypeError, AttributeError)
_FAILURES = (*_BUILT_IN, SafetensorError, StrictDataclassError)


def pick_device(name: str) -> torch.device:
    """The torch device called `name`, with its index; `auto` is the GPU where there is one.

    Raises:
        PolicyError: torch does not know the name or the device is not here.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(1, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise PolicyError(f"the device {name!r} cannot be used: {_reason(error)}") from error


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of model that is read from a folder or the hub.

    Attributes:
        auto: the class of transformers that reads it.
        fresh: weights that may be missing, and are then drawn at random.
        settings: further keywords of its config.
    """

    auto: Any = AutoModelForCausalLM
    fresh: Collection[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


LANGUAGE_MODEL = Kind()


def load_pretrained(
    source: str, device: torch.device, dtype: torch.dtype = torch.float32, kind: Kind = LANGUAGE_MODEL
) -> tuple[nn.Module, Any]:
    """Load a model (in evaluation mode, on `device`) and its tokenizer from a folder or the hub.

    Raises:
        PolicyError: no such folder or hub model, no network, no model in it, weights missing, or no tokenizer.
    """
    folder = _folder(source)
    if folder is not None:
        model, tokenizer = _read(source, str(folder), dtype, kind, local=True)
    elif not _begun(source):
        _need_hub(source)
        model, tokenizer = _read(source, source, dtype, kind, local=False)
    else:
        model, tokenizer = _read_begun(source, dtype, kind)
    model.to(device).eval()
    return model, tokenizer


def save_pretrained(model: Any, tokenizer: Any, folder: Path | str) -> None:
    """Write model and tokenizer in the ordinary format of transformers."""
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def is_adapter(source: str) -> bool:
    """Return whether this is a folder with an adapter in it, in place of a model."""
    return Path(os.path.expanduser(source), ADAPTER).is_file()


def _read_begun(source: str, dtype: torch.dtype, kind: Kind) -> tuple[Any, Any]:
    """Load a model whose download was begun.

    If it was also completed, it is loaded from this machine, so that no network is needed.
    """
    try:
        return _read(source, source, dtype, kind, local=True)
    except PolicyError as error:
        try:
            _need_hub(source)
        except PolicyError as closed:
            raise PolicyError(
                f"{error}; if its download was cut short, repeat it where the hub can be reached"
            ) from closed
    return _read(source, source, dtype, kind, local=False)


def _read(source: str, path: str, dtype: torch.dtype, kind: Kind, *, local: bool) -> tuple[Any, Any]:
    keywords: dict[str, Any] = {"trust_remote_code": False, "local_files_only": local}
    try:
        with quiet():  # what the library warns of (weights it had to invent) is an error below
            model, report = kind.auto.from_pretrained(
                path, dtype=dtype, output_loading_info=True, **kind.settings, **keywords
            )
            tokenizer = AutoTokenizer.from_pretrained(path, **keywords)
    except _FAILURES as error:
        raise PolicyError(f"cannot load the model {source!r}: {_reason(error)}") from error
    if getattr(model, "_hf_peft_config_loaded", False):
        raise PolicyError(f"{source!r} is an adapter on the hub; fetch it (hf download {source}) and name its folder")
    if missing := sorted(set(report["missing_keys"]) - set(kind.fresh)):
        raise PolicyError(f"the model {source!r} lacks {len(missing)} of its weights, among them {missing[0]!r}")
    letters = tokenizer.encode("abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ", add_special_tokens=False)
    if all(token == tokenizer.unk_token_id for token in letters):  # the library makes up an empty one where none is
        raise PolicyError(f"the model {source!r} comes without a tokenizer that can read ordinary text")
    return model, tokenizer


@contextmanager
def quiet() -> Iterator[None]:
    """Silence progress bars and warnings of transformers.

    They would break into a run's own display.
    """
    level, bars = library_logging.get_verbosity(), library_logging.is_progress_bar_enabled()
    library_logging.set_verbosity_error()
    library_logging.disable_progress_bar()
    try:
        yield
    finally:
        library_logging.set_verbosity(level)
        if bars:
            library_logging.enable_progress_bar()


def _folder(source: str) -> Path | None:
    """The folder that is meant, None for a name on the hub."""
    folder = Path(os.path.expanduser(source))
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise PolicyError(f"the folder {source!r} holds no model: it has no config.json")
        return folder
    if folder.exists():
        raise PolicyError(f"{source!r} is a file; name the folder that holds the model")
    if source.startswith((".", "/", "~")) or source.count("/") > 1:
        raise PolicyError(f"there is no model folder {source!r}")
    return None


def _begun(source: str) -> bool:
    """Return whether some file of a model of the hub is on this machine."""
    try:
        return isinstance(try_to_load_from_cache(source, "config.json"), str)
    except HFValidationError as error:
        raise PolicyError(f"{source!r} is neither a folder nor a model's name on the hub") from error


def _need_hub(source: str) -> None:
    """Query the hub once, with a short timeout.

    The library's own calls retry for half a minute without a network.
    """
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


def _reason(error: BaseException) -> str:
    return one_line(str(error) or type(error).__name__, 300)


def compile_layers(model: Any) -> None:
    """Compile every decoder layer in place, for batches of any shape.

    Copies of the model are not compiled. The layers have one code, so that one compilation serves all. The first pass
    of each kind takes up to a minute.

    Raises:
        PolicyError: there is no C++ compiler, or transformers does not mark the layers of this model.
    """
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise PolicyError(f"train.compile: {type(model).__name__} has no layers that can be compiled: turn it off")
    if not any(shutil.which(name) for name in (os.environ.get("CXX") or "c++", "g++", "clang++")):
        raise PolicyError("train.compile needs a C++ compiler (CXX, c++, g++ or clang++): install one, or turn it off")
    for layer in layers:
        layer.compile(dynamic=True)


def checkpoint_gradients(model: Any) -> None:
    """Enable gradient checkpointing without dropout.

    transformers checkpoints only modules in training mode, where dropout would be on as well: the policy would be
    trained at other log-probs than it was sampled with. So only the modules that checkpoint are switched.
    """
    model.gradient_checkpointing_enable()
    for module in model.modules():
        if getattr(module, "gradient_checkpointing", False):
            module.training = True
            for name, value in vars(module).items():
                if "drop" in name and isinstance(value, float):
                    setattr(module, name, 0.0)
