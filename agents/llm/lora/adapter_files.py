"""Adapters on disk, in peft's own format.

A folder holds `adapter_config.json` and `adapter_model.safetensors`.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from peft import LoraConfig
from peft.utils import CONFIG_NAME, SAFETENSORS_WEIGHTS_NAME
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from palaver.agents.llm.model.options import LoraOptions
from palaver.core import PolicyError
from palaver.text import one_line

# what may differ from peft's defaults in an adapter that is W x + (alpha / rank) B A x and nothing else
_SHAPE = {
    "r",
    "lora_alpha",
    "target_modules",
    "exclude_modules",
    "layers_to_transform",
    "layers_pattern",
    "rank_pattern",
    "alpha_pattern",
    "use_rslora",
    "lora_dropout",
    "fan_in_fan_out",
    "base_model_name_or_path",
    "task_type",
    "auto_mapping",
    "peft_version",
    "inference_mode",
    "init_lora_weights",
    "runtime_config",
}


def new_config(model: Any, lora: LoraOptions, base: str) -> LoraConfig:
    """The shape of an adapter for a model that has none yet.

    Raises:
        PolicyError: a target is no linear layer.
    """
    linears = {name: module for name, module in model.named_modules() if isinstance(module, (nn.Linear, Conv1D))}
    head = model.get_output_embeddings()
    if lora.targets == "all-linear":
        chosen = [name for name, module in linears.items() if module is not head]
    else:
        chosen = []
        for target in [lora.targets] if isinstance(lora.targets, str) else lora.targets:
            matches = [name for name in linears if f".{name}".endswith(f".{target}")]
            if not matches:
                ends = sorted({name.rpartition(".")[2] for name in linears})
                raise PolicyError(
                    f"no linear layer of {base!r} is called {target!r} or ends so; there are {', '.join(ends)} "
                    "(or all-linear)"
                )
            chosen += matches
    return LoraConfig(
        r=lora.rank,
        lora_alpha=int(lora.alpha) if float(lora.alpha).is_integer() else lora.alpha,
        target_modules=_ends(chosen, model),
        fan_in_fan_out=any(isinstance(linears[name], Conv1D) for name in chosen),
        base_model_name_or_path=base,
        task_type="CAUSAL_LM",
    )


def _ends(chosen: list[str], model: nn.Module) -> list[str]:
    """Last parts of these names if they name no other module, as serving engines expect.

    Otherwise all names are returned whole.
    """
    ends = {name.rpartition(".")[2] for name in chosen}
    meant = {name for name, _ in model.named_modules() if name.rpartition(".")[2] in ends}
    return sorted(ends if meant == set(chosen) else set(chosen))


def read_config(folder: str) -> LoraConfig:
    """The shape of a stored adapter.

    Raises:
        PolicyError: it cannot be read, or it is not plain LoRA on a named base.
    """
    path = Path(os.path.expanduser(folder))
    if not (path / CONFIG_NAME).is_file():
        raise PolicyError(f"{folder!r} holds no adapter: it has no {CONFIG_NAME}")
    try:
        config = LoraConfig.from_pretrained(str(path))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise PolicyError(f"cannot read the {CONFIG_NAME} of {folder!r}: {one_line(error)}") from error
    if odd := _odd(config):
        raise PolicyError(f"the adapter in {folder!r} is not plain LoRA ({odd}), and nothing else can be loaded")
    if not config.base_model_name_or_path:
        raise PolicyError(f"the adapter in {folder!r} does not say which model it is for (base_model_name_or_path)")
    config.init_lora_weights = True  # the stored ones come in their place
    return config


def _odd(config: Any) -> str:
    """Option that makes this more than plain LoRA, "" if there is none."""
    if type(config) is not LoraConfig:
        return f"peft_type={config.peft_type}"
    if config.init_lora_weights not in (True, False, "gaussian"):  # such as pissa, which changes the base
        return f"init_lora_weights={config.init_lora_weights!r}"
    usual = LoraConfig()
    for name in (field.name for field in fields(usual) if field.name not in _SHAPE):
        if (getattr(config, name) or None) != (getattr(usual, name) or None):
            return f"{name}={getattr(config, name)!r}"
    return ""


def read_weights(folder: str) -> dict[str, Tensor]:
    """The weights of a stored adapter, on the CPU.

    Raises:
        PolicyError: they are not there or cannot be read.
    """
    try:
        weights: dict[str, Tensor] = load_file(Path(os.path.expanduser(folder), SAFETENSORS_WEIGHTS_NAME))
    except (OSError, SafetensorError) as error:
        raise PolicyError(f"cannot read the {SAFETENSORS_WEIGHTS_NAME} of {folder!r}: {one_line(error)}") from error
    return weights


def write(folder: Path | str, config: LoraConfig, weights: Mapping[str, Tensor]) -> None:
    """Store an adapter so that `peft.PeftModel.from_pretrained` reads it."""
    config = copy.deepcopy(config)
    config.inference_mode = True
    if not isinstance(config.target_modules, str):
        config.target_modules = sorted(config.target_modules)
    config.save_pretrained(str(folder))
    save_file(dict(weights), Path(folder) / SAFETENSORS_WEIGHTS_NAME, metadata={"format": "pt"})
