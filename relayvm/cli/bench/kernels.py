"""Contractions over a grid of sizes: time, share of what the machine can do, and PyTorch beside.

The floor of a product is the larger of two times: that of its operations at the measured peak, and
that of reading its operands at the measured rate of so many bytes.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import relayvm
from relayvm.cli.bench.machine_rates import peak_flops, read_rate, single_read_rate
from relayvm.cli.bench.timing import alternating_seconds, kernel_seconds

ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
SIZES = (150, 300, 512, 768, 1024, 2048)
DTYPES = ("float32", "int8")
THREADS = (1, 2)


@dataclass(frozen=True, slots=True)
class Product:
    """`x [rows, size] . weight [size, size]^T` with a constant weight; `symbolic`: any rows."""

    rows: int
    size: int
    dtype: str = "float32"
    symbolic: bool = False
    threads: int = 1

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.rows * self.size * self.size

    @property
    def read_bytes(self) -> int:
        """The bytes of both operands."""
        item = np.dtype(self.dtype).itemsize
        return item * self.size * (self.rows + self.size)


@dataclass(frozen=True, slots=True)
class Measured:
    """Times in seconds: the kernel alone, a call from Python, and PyTorch's call (or None).

    `sweep`: of one row on one thread, a kernel that only reads as many bytes, timed as the product
    is; it has to begin as that has, which the floor leaves out.
    """

    product: Product
    kernel: float
    call: float
    torch: float | None
    floor: float
    sweep: float | None = None


def grid(full: bool) -> Iterator[Product]:
    """Yield the products of the table: all of them, or those with one thread, float32, static."""
    for size in SIZES:
        for rows in ROWS:
            if not full:
                yield Product(rows, size)
                continue
            for dtype in DTYPES:
                for symbolic in (False, True):
                    for threads in THREADS:
                        yield Product(rows, size, dtype, symbolic, threads)


def machine(product: Product, weight: np.ndarray) -> relayvm.VirtualMachine:
    """Return a machine for a product."""
    size, dtype = product.size, product.dtype
    head, rows = ("[m: ShapeVar]", "m") if product.symbolic else ("", str(product.rows))
    out = "int32" if dtype == "int8" else ""
    text = (
        f"def @main{head}(%x: Tensor[({rows}, {size}), {dtype}], "
        f"%w: Tensor[({size}, {size}), {dtype}]) "
        f'{{ nn.dense(%x, %w, units={size}, out_dtype="{out}") }}'
    )
    exe = relayvm.compile(relayvm.parse(text), params={"w": weight})
    return relayvm.VirtualMachine(exe, num_threads=product.threads)


def measure(product: Product) -> Measured:
    """Return the times of a product."""
    rng = np.random.default_rng(0)
    x, weight = (_random(rng, (k, product.size), product.dtype) for k in _heights(product))
    vm = machine(product, weight)
    functions: list[Callable[[], Any]] = [lambda: vm.run(x)]
    peer = _torch_product(x, weight, product.threads)
    if peer is not None:
        functions.append(peer)
    call, *torch = alternating_seconds(functions, rests=product.threads > 1)
    kernel = kernel_seconds(lambda: vm.run(x), lambda: vm.profile(x))
    sweep = None
    if product.rows == product.threads == 1:
        sweep = product.read_bytes / single_read_rate(product.read_bytes)
    return Measured(product, kernel, call, torch[0] if torch else None, floor(product), sweep)


def _heights(product: Product) -> tuple[int, int]:
    return product.rows, product.size


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "int8":
        return rng.integers(-128, 128, shape, np.int8)
    return rng.standard_normal(shape).astype(dtype)


def floor(product: Product) -> float:
    """Return the least time in seconds that this machine needs for a product.

    int8 has four products where float32 has one: in each lane, where the CPU has such an
    instruction.
    """
    speed = _peak() * (4 if product.dtype == "int8" else 1) * product.threads
    reading = product.read_bytes / _rate(product.read_bytes // product.threads) / product.threads
    return max(product.operations / speed, reading)


@functools.cache
def _peak() -> float:
    return peak_flops()


@functools.cache
def _rate(size_bytes: int) -> float:
    return read_rate(size_bytes)


def _torch_product(x: np.ndarray, weight: np.ndarray, threads: int) -> Callable[[], Any] | None:
    """Return PyTorch's product of the same arrays, or None where it has none."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    torch.set_num_threads(threads)
    left, right = torch.from_numpy(x), torch.from_numpy(weight).T
    if x.dtype == np.float32:
        return lambda: torch.mm(left, right)
    try:
        torch._int_mm(left, right)
    except (RuntimeError, AttributeError):
        return None  # it asks for more rows than there are
    return lambda: torch._int_mm(left, right)
