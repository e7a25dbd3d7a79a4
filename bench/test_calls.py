"""What a call from Python costs: beside a bare call of cffi, in a row, and on several threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import relayvm
from relayvm.vm.library import ffi, lib

SMALL = "def @main(%x: Tensor[(16), float32]) { nn.relu(%x) * 2f + 1f }"
SYMBOLIC = "def @main[n](%x: Tensor[(n), float32]) { nn.relu(%x) * 2f + 1f }"
WORK = "def @main(%x: Tensor[(256, 256), float32]) { nn.dense(nn.dense(%x, %x), %x) }"
LOOP = "def @main(%i: int64) -> int64 { if (%i > 0i64) { @main(%i - 1i64) } else { 0i64 } }"


def machine(text: str) -> relayvm.VirtualMachine:
    return relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)), num_threads=1)


def least_ns(functions: dict[str, Callable[[], Any]], count: int, rounds: int) -> dict[str, float]:
    """Return the least time of a call of each, measured in turn."""
    least = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.process_time_ns()
            for _ in range(count):
                function()
            least[name] = min(least[name], (time.process_time_ns() - start) / count)
    return least


def test_a_call_beside_a_bare_call_of_cffi(benchmark, capsys) -> None:
    x, out = np.arange(16, dtype=np.float32), np.empty(16, np.float32)
    static, symbolic = machine(SMALL), machine(SYMBOLIC)

    def bare() -> Any:
        y = np.empty(16, np.float32)
        lib.rvm_checksum(ffi.from_buffer(x), 0)
        return y

    many = [(x,)] * 100
    least = least_ns(
        {
            "bare": bare,
            "run": lambda: static.run(x),
            "symbolic": lambda: symbolic.run(x),
            "out": lambda: static.run(x, out=out),
            "many": lambda: static.invoke_many("main", many),
        },
        2000,
        15,
    )
    least["many"] /= len(many)
    benchmark(lambda: static.run(x))
    with capsys.disabled():
        print("\n ", ", ".join(f"{name} {ns:.0f} ns" for name, ns in least.items()), end="")


def test_machines_on_threads_beside_one(benchmark, capsys) -> None:
    cores = len(os.sched_getaffinity(0))
    x = np.ones((256, 256), np.float32)
    for name, text, args, count in (("kernels", WORK, (x,), 60), ("loop", LOOP, (2_000_000,), 6)):
        exe = relayvm.compile(relayvm.parse(text))
        vms = [relayvm.VirtualMachine(exe, num_threads=1) for _ in range(cores)]

        def work(vm: relayvm.VirtualMachine, args: Any = args, count: int = count) -> None:
            for _ in range(count):
                vm.run(*args)

        def together(vms: list[Any] = vms) -> float:
            threads = [threading.Thread(target=work, args=(vm,)) for vm in vms]
            start = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return time.perf_counter() - start

        one = min(together(vms[:1]) for _ in range(5))
        ratio = cores * one / min(together() for _ in range(5))
        benchmark.extra_info[name] = round(ratio, 2)
        with capsys.disabled():
            print(f"\n  {name}: {cores} threads do {ratio:.2f} times the work of one", end="")
    benchmark(lambda: vms[0].run(1000))
