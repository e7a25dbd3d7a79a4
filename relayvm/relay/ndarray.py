"""Arrays with TVM's methods: numpy arrays that also answer `numpy()`, `device` and `copyto`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.dtypes import BY_NAME, DType
from relayvm.base.narrow.arrays import narrow_name
from relayvm.base.narrow.dlpack import capsule_of, narrow_of

# DLPack's number of each kind, and the other names of kinds.
_KINDS = {
    "cpu": 1,
    "cuda": 2,
    "opencl": 4,
    "vulkan": 7,
    "metal": 8,
    "vpi": 9,
    "rocm": 10,
    "ext_dev": 12,
    "webgpu": 15,
    "hexagon": 16,
}
_OTHER_NAMES = {
    **dict.fromkeys(["llvm", "c", "stackvm", "test", "hybrid", "composite"], "cpu"),
    **dict.fromkeys(["gpu", "nvptx"], "cuda"),
    "cl": "opencl",
    "mtl": "metal",
}


@dataclass(frozen=True, slots=True)
class Device:
    """A device by kind and number; arrays live on `cpu(0)`."""

    kind: str
    device_id: int = 0

    @property
    def device_type(self) -> int:
        """DLPack's number of the kind."""
        return _KINDS[self.kind]

    @property
    def exist(self) -> bool:
        """Whether this machine can run programs there."""
        return self.kind == "cpu"

    def sync(self) -> None:
        """Return at once: nothing runs behind the caller's back."""

    def __str__(self) -> str:
        return f"{self.kind}({self.device_id})"


def device(dev_type: Any, dev_id: int = 0) -> Device:
    """Return a device by the name of its kind, such as `cpu`, `llvm -mcpu=...` or `cuda:1`, or by
    DLPack's number of it. Kinds that this machine has not are told by `exist`.
    """
    if isinstance(dev_type, Device):
        return dev_type
    if isinstance(dev_type, int):
        names = [name for name, number in _KINDS.items() if number == dev_type]
        name = names[0] if names else str(dev_type)
    else:
        name, colon, number = str(dev_type).partition(" ")[0].partition(":")
        dev_id = number if colon else dev_id  # type: ignore[assignment]
    if not str(dev_id).isdigit():
        raise error("unknown-target", f"the number of a device is not negative, not `{dev_id}`")
    name = _OTHER_NAMES.get(name, name)
    if name not in _KINDS:
        raise error("unknown-target", f"there is no device of kind `{dev_type}`; known is `cpu`")
    return Device(name, int(dev_id))


def cpu(dev_id: int = 0) -> Device:
    """Return the CPU."""
    return Device("cpu", dev_id)


def cuda(dev_id: int = 0) -> Device:
    """Return a CUDA device, whether there is one or not."""
    return Device("cuda", dev_id)


def _maker(kind: str) -> Callable[..., Device]:
    def make(dev_id: int = 0) -> Device:
        return Device(kind, dev_id)

    make.__name__ = make.__qualname__ = kind
    make.__doc__ = f"Return a device of kind `{kind}`, whether there is one or not."
    return make


opencl, vulkan, metal, vpi = (_maker(kind) for kind in ("opencl", "vulkan", "metal", "vpi"))
rocm, ext_dev, webgpu, hexagon = (_maker(kind) for kind in ("rocm", "ext_dev", "webgpu", "hexagon"))

CPU = Device("cpu")


class NDArray(np.ndarray):
    """A numpy array with TVM's methods."""

    def numpy(self) -> np.ndarray:
        """Return a copy as a plain numpy array."""
        return np.array(self, subok=False)

    def asnumpy(self) -> np.ndarray:
        """Return a copy as a plain numpy array; the old name of `numpy`."""
        return self.numpy()

    @property
    def device(self) -> Device:  # type: ignore[override]
        """Where the array lives."""
        return Device("cpu")

    @property
    def ctx(self) -> Device:
        """Where the array lives; the old name of `device`."""
        return Device("cpu")

    def copyto(self, target: Any, mem_scope: str | None = None) -> NDArray:
        """Copy the elements into another array, or into a new one on a device."""
        if isinstance(target, Device):
            return array(self, target)
        if not isinstance(target, np.ndarray) or target.shape != self.shape:
            raise error("wrong-argument", f"an array of shape {self.shape} cannot be copied there")
        target[...] = self
        return target  # type: ignore[return-value]

    def copyfrom(self, source_array: Any) -> NDArray:
        """Fill the array with the elements of another one of the same shape."""
        source = np.asarray(source_array)
        if source.shape != self.shape:
            message = f"an array of shape {source.shape} does not fit into one of {self.shape}"
            raise error("wrong-argument", message)
        self[...] = source
        return self

    def __dlpack__(self, **options: Any) -> Any:
        """Lend the elements to another library; numpy itself lends none that it has not."""
        return capsule_of(self) if narrow_name(self) else super().__dlpack__(**options)

    def same_as(self, other: object) -> bool:
        """Tell whether both are the same array."""
        return self is other


def array(arr: Any, device: Device | None = CPU, mem_scope: str | None = None) -> NDArray:
    """Return a copy of what numpy can read, with the element type that numpy gives it."""
    _require_cpu(device)
    return np.array(arr, order="C").view(NDArray)


def empty(
    shape: Sequence[int],
    dtype: str | DType = "float32",
    device: Device | None = CPU,
    mem_scope: str | None = None,
) -> NDArray:
    """Return an array whose elements are not set."""
    _require_cpu(device)
    row = BY_NAME.get(str(dtype))
    return np.empty(tuple(shape), row.numpy if row else str(dtype)).view(NDArray)


def from_dlpack(dltensor: Any) -> NDArray:
    """Return the array of an object with `__dlpack__`, over the same elements; those that
    numpy has not are copied.
    """
    if not hasattr(dltensor, "__dlpack__"):
        message = f"a `{type(dltensor).__name__}` has no method `__dlpack__`"
        raise error("wrong-argument", message)
    try:
        return np.from_dlpack(dltensor).view(NDArray)
    except (RuntimeError, BufferError):  # numpy reads no others than its own
        found = narrow_of(dltensor)
        if found is None:
            raise
        return found.view(NDArray)


def _require_cpu(where: Device | None) -> None:
    if isinstance(where, Device) and not where.exist:
        raise error("unknown-target", f"there is no device {where}: arrays live on `cpu(0)`")


def as_ndarray(value: Any) -> NDArray:
    """Return an array as an NDArray over the same elements."""
    return value if isinstance(value, NDArray) else np.asarray(value).view(NDArray)
