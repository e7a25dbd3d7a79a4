"""`python -m bench.interrupts [NAME...]`: how late a run hears a signal, at moments all along it.

Memory is fresh in each run: the allocator keeps no large blocks, and machines are trimmed.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import signal
import time
from typing import Any

import numpy as np

import relayvm
from relayvm.vm.machine import VirtualMachine

SHOTS = 20
CONFIGURATIONS = (("interpreter", 1), ("jit", 1), ("jit", 2))
_MMAP_THRESHOLD, _TRIM_THRESHOLD, _KEPT_BYTES = -3, -1, 1 << 16

# Text of the body over `%a`, size and dtype of a vector.
CASES: dict[str, tuple[str, int, str]] = {
    "transform": ("dft(%a, %a, inverse=False).0", 1 << 22, "float32"),
    "transform of float64": ("dft(%a, %a, inverse=False).0", 1 << 23, "float64"),
    "transform of a prime": ("dft(%a, %a, inverse=False).0", 1048573, "float32"),
    "sin": ("sin(%a)", 10**8, "float32"),
    "erf": ("erf(%a)", 10**8, "float32"),
    "power": ("power(%a, %a)", 10**8, "float32"),
    "tan of float64": ("tan(%a)", 5 * 10**7, "float64"),
    "quotient": ("floor_divide(%a, %a)", 5 * 10**7, "int64"),
    "softmax": ("nn.softmax(%a)", 10**8, "float32"),
    "fill": ("zeros_like(%a)", 10**8, "float32"),
    "sum of powers": ("sum(power(%a, %a))", 10**8, "float32"),
    "sum of slow ones": ("sum(tan(erf(power(%a, %a))))", 10**8, "float32"),
    "position of powers": ("argmax(power(%a, %a))", 10**8, "float32"),
    "norm of a row": (
        "nn.l2_normalize(reshape(%a, newshape=[1, -1]), eps=1e-6, axis=[1])",
        10**8,
        "float32",
    ),
    "variance": ("variance(%a, mean(%a, keepdims=True))", 10**8, "float32"),
    "product of a row": (
        "nn.dense(reshape(%a, newshape=[1, -1]), reshape(%a, newshape=[1, -1]))",
        10**8,
        "float32",
    ),
    "matrix by a vector": (
        "nn.matmul(reshape(%a, newshape=[2, -1]), reshape(power(%a, %a), newshape=[-1, 2]))",
        10**8,
        "float32",
    ),
}


def worst_delay(vm: VirtualMachine, given: Any, libc: Any) -> tuple[float, float]:
    """Return the time of a run and the longest time until a signal in it was heard, in seconds."""
    begin = time.perf_counter()
    vm.run(given)
    whole, worst = time.perf_counter() - begin, 0.0
    for shot in range(1, SHOTS + 1):
        vm.trim()
        gc.collect()
        libc.malloc_trim(0)
        at = max(whole * shot / SHOTS * 0.95, 1e-4)
        begin = time.perf_counter()
        try:
            signal.setitimer(signal.ITIMER_REAL, at)
            vm.run(given)
            time.sleep(max(0.0, begin + at - time.perf_counter() + 0.01))
        except KeyboardInterrupt:
            worst = max(worst, time.perf_counter() - begin - at)
        signal.setitimer(signal.ITIMER_REAL, 0)
    return whole, worst


def main() -> None:
    """Print a row for each case and engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    names = parser.parse_args().names or list(CASES)
    libc = ctypes.CDLL("libc.so.6")
    libc.mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
    libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    for name in names:
        body, size, dtype = CASES[name]
        text = f"def @main(%a: Tensor[({size},), {dtype}]) {{ {body} }}"
        exe, given = relayvm.compile(relayvm.parse(text)), np.ones(size, dtype)
        for engine, threads in CONFIGURATIONS:
            vm = VirtualMachine(exe, engine=engine, num_threads=threads)
            whole, worst = worst_delay(vm, given, libc)
            print(
                f"{name:22} {engine:11} {threads} run {whole * 1e3:7.0f} ms, "
                f"heard after {worst * 1e3:5.1f} ms at most",
                flush=True,
            )


if __name__ == "__main__":
    main()
