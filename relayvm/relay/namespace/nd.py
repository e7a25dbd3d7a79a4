"""`tvm.nd`: arrays and devices."""

from __future__ import annotations

from collections.abc import Sequence

from relayvm.relay.ndarray import Device, NDArray, array, cpu, cuda, device, empty

__all__ = ["Device", "NDArray", "array", "cpu", "cuda", "device", "empty", "gpu", "numpyasarray"]

gpu = cuda


def numpyasarray(np_data: Sequence[float]) -> NDArray:
    """Return a copy of what numpy can read."""
    return array(np_data)
