"""`tvm.runtime`: values, modules and machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relayvm.base.host import available_cores
from relayvm.base.settings import setting
from relayvm.relay.lazy import lazy_names
from relayvm.relay.ndarray import (
    Device,
    NDArray,
    array,
    cpu,
    cuda,
    device,
    ext_dev,
    metal,
    opencl,
    rocm,
    vpi,
    vulkan,
)
from relayvm.relay.param_dict import (
    load_param_dict,
    load_param_dict_from_file,
    save_param_dict,
    save_param_dict_to_file,
)

__all__ = [
    "Device",
    "NDArray",
    "convert",
    "cpu",
    "cuda",
    "device",
    "enabled",
    "ext_dev",
    "load_param_dict",
    "load_param_dict_from_file",
    "metal",
    "num_threads",
    "opencl",
    "rocm",
    "save_param_dict",
    "save_param_dict_to_file",
    "vpi",
    "vulkan",
]

gpu, cl, mtl = cuda, opencl, metal

# A package to Python, whose modules are found by name.
__path__: list[str] = []

__getattr__ = lazy_names(
    "relayvm.runtime",
    {
        "ADT": "relayvm.relay.values",
        "tuple_object": "relayvm.relay.values",
        "vm": "relayvm.relay.namespace.runtime_vm:",
        "profiler_vm": "relayvm.relay.namespace.profiler_vm:",
        "profiling": "relayvm.relay.namespace.profiling:",
        "container": "relayvm.relay.namespace.container:",
        "module": "relayvm.relay.namespace.runtime_module:",
        "ndarray": "relayvm.relay.namespace.nd:",
        "Module": "relayvm.relay.backend.executor_factory:ExecutorFactoryModule",
        "load_module": "relayvm.relay.backend.executor_factory",
        "String": "relayvm.relay.namespace.container",
        "ShapeTuple": "relayvm.relay.namespace.container",
    },
    top="relayvm.runtime",
)


def enabled(target: str) -> bool:
    """Tell whether programs can be compiled for a kind of target here."""
    return target.partition(" ")[0] in ("cpu", "llvm")


def num_threads() -> int:
    """Return how many threads kernels run on."""
    chosen = setting("RELAYVM_NUM_THREADS")
    return chosen if isinstance(chosen, int) else available_cores()


def convert(value: Any) -> Any:
    """Return a value as programs take it: arrays as NDArrays, lists as lists, all else as it is."""
    if isinstance(value, (list, tuple)):
        return [convert(item) for item in value]
    if isinstance(value, Mapping):
        return {key: convert(item) for key, item in value.items()}
    if hasattr(value, "__array__") and not isinstance(value, NDArray):
        return array(value)
    return value
