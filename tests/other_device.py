"""A device that is not the host: its tensors lie in host memory, and no operation mixes them with the host's.

`python -m tests.other_device RUNS.json` trains runs with it, in a process of its own because torch knows the device
until the process ends. The file lists [sections, overrides, folder] of each.
"""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch.utils import backend_registration
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_flatten, tree_map

NAME = "other"
DEVICE = f"{NAME}:0"  # torch allows one of a device that Python defines
REGISTER = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)  # newer torch alone has it
aten = torch.ops.aten
_BETWEEN = {aten.copy_.default, aten._to_copy.default}
waits: Counter[str] = Counter()  # reads of the device's tensors, for which a program would wait


class OtherTensor(torch.Tensor):
    """A tensor of the device.

    Attributes:
        host_values: its values, in host memory.
    """

    host_values: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> OtherTensor:
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), inner.stride(), inner.storage_offset(), dtype=inner.dtype, device=torch.device(DEVICE)
        )

    def __init__(self, inner: torch.Tensor) -> None:
        self.host_values = inner

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.tolist:  # which torch refuses for every subclass
            waits["read"] += 1
            return args[0].detach().host_values.tolist()
        with torch._C.DisableTorchFunctionSubclass():  # results on the host stay ordinary tensors
            if func is torch.Tensor.__getitem__ and isinstance(args[0], OtherTensor):
                return _indexed(*args)
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(func, args, kwargs or {})


def computed(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Result of an operation, computed in host memory.

    Raises:
        RuntimeError: its tensors are on two devices; numbers without a dimension may be on any, as with CUDA.
    """
    leaves = tree_flatten((args, kwargs))[0]
    given = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    devices = {str(tensor.device) for tensor in given if tensor.dim()}
    if len(devices) > 1 and func not in _BETWEEN:
        raise RuntimeError(f"{func}: tensors on {' and '.join(sorted(devices))}")
    other = any(isinstance(tensor, OtherTensor) for tensor in given)
    asked = [leaf.type == NAME for leaf in leaves if isinstance(leaf, torch.device)]
    here = asked[0] if asked else other
    if func is aten.copy_.default:
        here = isinstance(args[0], OtherTensor)
    waits["read"] += other and (func is aten._local_scalar_dense.default or (func in _BETWEEN and not here))
    args, kwargs = tree_map(_on_host, (args, kwargs))
    owners = {id(tensor.host_values): tensor for tensor in given if isinstance(tensor, OtherTensor)}

    def placed(leaf: Any) -> Any:
        if not (here and isinstance(leaf, torch.Tensor)):
            return leaf
        return owners[id(leaf)] if id(leaf) in owners else OtherTensor(leaf)

    return tree_map(placed, func(*args, **kwargs))


def _on_host(leaf: Any) -> Any:
    """What an operation in host memory takes in place of a tensor of the device, or of the device."""
    if isinstance(leaf, torch.device):
        return torch.device("cpu")
    return leaf.host_values if isinstance(leaf, OtherTensor) else leaf


def _indexed(tensor: OtherTensor, index: Any) -> Any:
    """`tensor[index]`, where lists are indices on the device."""

    def placed(part: Any) -> Any:
        return torch.tensor(part).to(DEVICE) if isinstance(part, list) else part

    return torch.Tensor.__getitem__(tensor, tuple(map(placed, index)) if isinstance(index, tuple) else placed(index))


def _made(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`torch.tensor` for the device, too, which a backend of Python has to reach from the host."""

    def tensor(*args: Any, device: Any = None, **settings: Any) -> torch.Tensor:
        if torch.device(device or "cpu").type != NAME:
            return make(*args, device=device, **settings)
        return make(*args, **settings).to(DEVICE)

    return tensor


class Module(backend_registration._DummyBackendModule):
    """What torch asks of a device."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


def register() -> torch.library.Library:
    """Make the device known to torch, for as long as the result is kept."""
    assert REGISTER is not None
    REGISTER(NAME, Module())
    torch.__future__.set_swap_module_params_on_conversion(True)  # `Module.to` keeps parameters that are tied, tied
    library = torch.library.Library("_", "IMPL")
    _device_constructors()  # which `with torch.device(...)` looks up once, by the function as it is
    torch.tensor = _made(torch.tensor)
    library.fallback(lambda op, *args, **kwargs: computed(op, args, kwargs), "PrivateUse1")
    return library


def _saved(save: Callable[..., None]) -> Callable[..., None]:
    """`save_pretrained` from the host, as files are written from addresses, of which the device's tensors have none."""

    def saved(model: Any, tokenizer: Any, folder: Any) -> None:
        copied = type(model)(model.config)
        copied.load_state_dict({name: tensor.cpu() for name, tensor in model.state_dict().items()})
        save(copied, tokenizer, folder)

    return saved


def main() -> None:
    """Train the runs of a file; those whose folder exists are resumed."""
    from palaver.agents.llm.policies import llm_policy
    from palaver.trainers.config.loading import over
    from palaver.trainers.train import resume, train
    from tests.trainers.toys import register_toy

    register_toy()
    kept = register()
    llm_policy.save_pretrained = _saved(llm_policy.save_pretrained)
    save = torch.save
    torch.save = lambda state, *args, **settings: save(tree_map(_on_host, state), *args, **settings)
    for sections, overrides, folder in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        console = Console(file=io.StringIO(), width=500)
        if Path(folder).exists():
            resume(Path(folder), console=console)
        else:
            train(over(None, sections, overrides), Path(folder), console=console)
        print(console.file.getvalue())
        print(f"waits: {waits.pop('read', 0)}")
    try:
        torch.ones(2).to(DEVICE) + torch.ones(2)
    except RuntimeError as error:
        print(error)
    del kept


if __name__ == "__main__":
    main()
