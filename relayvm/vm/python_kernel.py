"""Kernels whose phases are Python functions: for tests and for interpreted nests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from relayvm.base.abi import Access, KernelSignature, Operand, TrapCode
from relayvm.base.diagnostics import error, quantity
from relayvm.base.dims import dim_value
from relayvm.vm.library import ffi, keep_exception, lib

if TYPE_CHECKING:
    from relayvm.vm.executable import Executable

PHASE = "int32_t(void **, int64_t *, int64_t, int64_t, void *, int64_t *)"
Phase = Callable[[Sequence[Any], Sequence[int], int, int], "int | None"]


def bind_python_kernel(executable: Executable, kernel: int, phases: Sequence[Phase]) -> None:
    """Let Python functions be the phases of a kernel of `executable`.

    Each gets the operands as arrays (inputs, then outputs, which it fills), the values of the
    kernel's dim variables, and the slice `[begin, end)` of the phase's outer axis; it returns a
    trap code or None. An exception ends the run and is raised from it.
    """
    signature = executable.program().kernels[kernel].signature
    callbacks = [_callback(signature, phase) for phase in phases]
    addresses = [int(ffi.cast("uintptr_t", c)) for c in callbacks]
    given = ffi.new("uint64_t[]", addresses)
    if not lib.rvm_kernel_bind(executable.handle, kernel, given, len(addresses)):
        bound = quantity(len(addresses), "phase")
        raise error("bad-option", f"there is no kernel {kernel} with {bound}")
    executable.__dict__.setdefault("_python_kernels", {})[kernel] = callbacks


def _callback(signature: KernelSignature, phase: Phase) -> Any:
    def call(args: Any, dims: Any, begin: int, end: int, *_: Any) -> int:
        count = len(signature.dim_vars)
        values = [dims[i] for i in range(count)]
        arrays = _arrays(signature, args, dims, values)
        return phase(arrays, values, begin, end) or 0

    return ffi.callback(PHASE, call, error=int(TrapCode.BAD_VALUE), onerror=keep_exception)


def _arrays(signature: KernelSignature, args: Any, dims: Any, values: list[int]) -> list[Any]:
    sizes = dict(zip(signature.dim_vars, values))
    position = len(values)
    arrays = []
    for i, operand in enumerate(signature.operands):
        shape = tuple(dim_value(d, sizes) for d in operand.dims)
        strides = None
        if operand.access is Access.STRIDED:
            strides = [dims[position + k] for k in range(operand.rank)]
            position += operand.rank
        arrays.append(_array(operand, args[i], shape, strides))
    return arrays


def _array(operand: Operand, data: Any, shape: tuple[int, ...], strides: list[int] | None) -> Any:
    dtype = operand.dtype.numpy
    if 0 in shape:
        return np.empty(shape, dtype)
    count = int(np.prod(shape, dtype=np.int64))
    flat = np.frombuffer(ffi.buffer(data, count * dtype.itemsize), dtype)
    if strides is None:
        return flat.reshape(shape)
    return np.lib.stride_tricks.as_strided(flat, shape, [s * dtype.itemsize for s in strides])
