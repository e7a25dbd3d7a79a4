"""What one core of this machine can do at most: arithmetic and reading, measured by nests of a few
lines.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

import relayvm
from relayvm.cli.bench.timing import best_seconds, kernel_seconds
from relayvm.vm.file.codec import encode

ROUNDS = 20_000
SWEPT_BYTES = 1 << 26

# 16 sums that do not wait for each other fill every pipeline there is.
_SUMS = """nest @main {{
  input in0: float32[{size}]
  output out0: float32[] scalar
  phase b0 < 1 {{
    tile acc0: float32 x 16 [16]
    unroll l0 = 0 to 16 {{
      acc0[l0] = in0[(l0 * 16)]:16
    }}
{loops}
    unroll l2 = 1 to 16 {{
      acc0[0] = (acc0[0] + acc0[l2])
    }}
    out0[] = tree(add, acc0[0])
  }}
}}
"""
_ARITHMETIC = """
    let x0 = in0[0]:16
    for k0 = 0 to {rounds} step 1 {{
      unroll l1 = 0 to 16 {{
        acc0[l1] = fma(acc0[l1], x0, x0)
      }}
    }}"""
_READING = """
    for s0 = 0 to {rounds} step 1 {{
      for k0 = 0 to {size} step 256 {{
        unroll l1 = 0 to 16 {{
          acc0[l1] = (acc0[l1] + in0[(k0 + (l1 * 16))]:16)
        }}
      }}
    }}"""


def peak_flops() -> float:
    """Return the float32 operations a second of fused multiply-adds on registers alone."""
    return 2 * 16 * 16 * ROUNDS / _best_seconds(256, _ARITHMETIC, ROUNDS)


@cache
def copy_rate(size_bytes: int) -> float:
    """Return the bytes a second, read and written together, at which one core copies half of
    `size_bytes` to the other half again and again.
    """
    source = np.zeros(max(1, size_bytes // 2), np.uint8)
    result = np.zeros_like(source)
    return 2 * source.nbytes / best_seconds(lambda: np.copyto(result, source))


@cache
def read_rate(size_bytes: int) -> float:
    """Return the bytes a second at which one core reads `size_bytes` again and again."""
    size = _swept(size_bytes)
    sweeps = max(1, SWEPT_BYTES // (4 * size))
    return 4 * size * sweeps / _best_seconds(size, _READING, sweeps)


@cache
def single_read_rate(size_bytes: int) -> float:
    """Return the bytes a second of a kernel that reads `size_bytes` once, timed as others are: with
    what it costs to begin, and to read the clock.
    """
    size = _swept(size_bytes)
    vm, x = _machine(size, _READING, 1)
    return 4 * size / kernel_seconds(lambda: vm.run(x), lambda: vm.profile(x))


def _swept(size_bytes: int) -> int:
    return max(256, size_bytes // 4 // 256 * 256)


def _best_seconds(size: int, loops: str, rounds: int) -> float:
    vm, x = _machine(size, loops, rounds)
    return best_seconds(lambda: vm.run(x))


def _machine(size: int, loops: str, rounds: int) -> tuple[relayvm.VirtualMachine, np.ndarray]:
    """Return a machine whose one kernel, of a vector to a scalar, has these loops; and a vector."""
    text = f"def @main(%x: Tensor[({size},), float32]) {{ sum(%x) }}"
    program = relayvm.compile(relayvm.parse(text)).program()
    (kernel,) = program.kernels
    nest = _SUMS.format(size=size, loops=loops.format(size=size, rounds=rounds))
    nest = nest.replace("@main", f"@{kernel.name}")
    changed = replace(program, kernels=(replace(kernel, nest=nest, image=None),))
    vm = relayvm.VirtualMachine(relayvm.load(encode(changed)), num_threads=1)
    return vm, np.full(size, 0.5, np.float32)
