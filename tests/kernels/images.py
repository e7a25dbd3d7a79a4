"""Runs images in tests: maps the code, fills import slots, and calls phases on numpy arrays."""

from __future__ import annotations

import ctypes
import itertools
import mmap

import numpy as np

from relayvm.base.abi import Image
from relayvm.base.dims import dim_value

_LIBC = ctypes.CDLL(None)
_PHASE = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
)


def own_memory(signature, sizes):
    """Return the bytes of scratch and private memory of a kernel for the values of its dims."""
    return [dim_value(d, sizes) for d in (signature.scratch_bytes, signature.private_bytes)]


def chains_of(signature, sizes):
    """Return the rounds of a chain of each phase of a kernel for the values of its dims."""
    return [max(1, dim_value(d, sizes)) for d in signature.chains]


def same_bits(a, b):
    """Return where elements have the same bits, or are both NaN."""
    if a.dtype.kind in "biu":
        return a == b
    bits = f"uint{a.dtype.itemsize * 8}"
    with np.errstate(invalid="ignore"):  # ml_dtypes tells of signalling NaNs
        return (a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))


class LoadedImage:
    """An image in executable memory; keep it alive while its functions are called."""

    def __init__(self, image: Image) -> None:
        code = bytearray(image.code)
        for name, slot in image.imports:
            address = ctypes.cast(getattr(_LIBC, name), ctypes.c_void_p).value
            code[slot : slot + 8] = address.to_bytes(8, "little")
        protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        self.memory = mmap.mmap(-1, len(code), prot=protection)
        self.memory.write(bytes(code))
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.entries = image.entries

    def call(
        self,
        kernel,
        arrays,
        dims=(),
        extents=(1,),
        scratch_bytes=0,
        private_bytes=0,
        slices=1,
        chains=(),
    ):
        """Run all phases of a kernel, each in slices from the last on; return the first status.

        What it tells is in `values`.
        """
        private = np.full(private_bytes + 64, 0xA5, np.uint8)
        addresses = [*(a.ctypes.data for a in arrays), -(-private.ctypes.data // 64) * 64]
        pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        sizes = np.array([*dims, 0], np.int64)
        scratch = np.empty(scratch_bytes + 64, np.uint8)
        aligned = -(-scratch.ctypes.data // 64) * 64
        self.values = np.zeros(2, np.int64)
        chains = chains or (1,) * len(extents)
        for offset, extent, chain in zip(self.entries[kernel], extents, chains):
            phase = _PHASE(self.base + offset)
            whole = -(-extent // chain)
            edges = [min(whole * k // slices * chain, extent) for k in range(slices + 1)]
            for edge in reversed(list(itertools.pairwise(edges))):
                status = phase(
                    ctypes.addressof(pointers),
                    sizes.ctypes.data,
                    *edge,
                    aligned,
                    self.values.ctypes.data,
                )
                if status:
                    return status
        return 0
