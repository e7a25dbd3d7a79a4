"""`tvm.nd`: arrays and devices."""

from __future__ import annotations

from collections.abc import Sequence

from relayvm.relay.lazy import absent
from relayvm.relay.ndarray import (
    Device,
    NDArray,
    array,
    cpu,
    cuda,
    device,
    empty,
    ext_dev,
    from_dlpack,
    hexagon,
    metal,
    opencl,
    rocm,
    vpi,
    vulkan,
    webgpu,
)

__all__ = [
    "Device",
    "NDArray",
    "array",
    "cl",
    "cpu",
    "cuda",
    "device",
    "empty",
    "ext_dev",
    "from_dlpack",
    "gpu",
    "hexagon",
    "metal",
    "mtl",
    "numpyasarray",
    "opencl",
    "rocm",
    "vpi",
    "vulkan",
    "webgpu",
]

gpu, cl, mtl = cuda, opencl, metal


def numpyasarray(np_data: Sequence[float]) -> NDArray:
    """Return a copy of what numpy can read."""
    return array(np_data)


__getattr__ = absent("relayvm.nd")
