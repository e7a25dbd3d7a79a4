"""Runs small programs with the k-th allocation failing, k = 1, 2, ..., until they succeed.

Each failure must be the trap `out-of-memory`; the stress build ends the process if an object is
left. A program of its own, run under the stress build by `test_allocation_failures`.
"""

from __future__ import annotations

import sys

import numpy as np

from relayvm.base.diagnostics import Trap
from relayvm.vm.library import lib
from relayvm.vm.machine import VirtualMachine
from relayvm.vm.python_kernel import bind_python_kernel
from tests.vm import test_kernel_call as kernels
from tests.vm.programs import list_machine, loops

MOST = 10_000


def sweep(vm: VirtualMachine, name: str, *args) -> int:
    """Return how many allocations failed before the call succeeded."""
    vm.trim()
    for k in range(1, MOST):
        assert lib.rvm_machine_fail_allocation(vm.handle, k)
        try:
            vm.invoke(name, *args)
        except Trap as trap:
            assert trap.code == "out-of-memory", trap
            continue
        finally:
            lib.rvm_machine_fail_allocation(vm.handle, 0)
        return k - 1
    raise AssertionError(f"`{name}` never succeeds")


def main() -> int:
    assert lib.rvm_is_stress_build()
    vm = list_machine()
    items = vm.invoke("range", 10)
    reference = vm.invoke("ref_of", items)
    add = vm.invoke("adder", 3)
    calls = {
        "range": (10,),
        "sum": (items,),
        "reverse": (items,),
        "adder": (1,),
        "map": (add, items),
        "squares": (20,),
        "array_alias": (items,),
        "pair_with": (items,),
        "make_cycle": (1,),
        "many_cycles": (3, items),
        "cycles_beside": (3, items),
        "prepend": (reference, 1),
        "ref_of": (items,),
        "apply": (add, 1),
    }
    counts = {name: sweep(vm, name, *args) for name, args in calls.items()}
    assert vm.invoke("sum", items) == 45
    del reference
    recursion = VirtualMachine(loops())
    counts["depth"] = sweep(recursion, "depth", 50)
    counts["even"] = sweep(recursion, "even", 9)
    exe = kernels.unlinked()
    for number, functions in enumerate(kernels.PHASES):
        bind_python_kernel(exe, number, functions)
    vm = VirtualMachine(exe)
    x = np.arange(4, dtype=np.float32)
    square = np.ones((3, 3), np.float32)
    for name, args in {
        "scale": (x, 2.0),
        "scale_twice": (x, 2.0),
        "add": (x, x[:1]),
        "matmul": (square, square),
        "count": (4,),
        "reuse_shared": (x, 2.0),
        "reuse_view": (x, 2.0),
        "identity": (x,),
        "slice": (x, 1, 2),
        "reshape": (x, 2, 2),
    }.items():
        counts[name] = sweep(vm, name, *args)
    print(counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
