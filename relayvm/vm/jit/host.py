"""What compiled code depends on besides the program: the CPU, and where things are at run time."""

from __future__ import annotations

import functools
import platform
from dataclasses import dataclass

from relayvm.base.diagnostics import error
from relayvm.base.target import X86_LEVELS
from relayvm.vm.library import lib

_NEEDS = {**X86_LEVELS, "x86-64": (), "generic": ("neon",)}
_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}

FIELDS = (
    "calls",
    "constants",
    "layouts",
    "slots",
    "limit",
    "fuel",
    "gather",
    "results",
    "free_blocks",
    "layout_bytes",
    "layout_signature",
    "layout_native",
    "layout_profiled",
    "fields",
    "shape",
    "profile",
    "profile_hits",
    "kernel_calls",
    "kernel_dims",
    "kernel_values",
    "kernels",
    "kernel_bytes",
    "memory_shapes",
    "new_cells",
    "reused_cells",
    "kernel_phases",
    "kernel_calls_host",
    "tensor_dtype",
    "tensor_storage",
    "tensor_data",
    "tensor_dims",
    "storage_foreign",
    "array_length",
    "array_capacity",
    "ref_value",
    "ref_full",
    "array_items",
)
CALLS = (
    "deeper",
    "settle",
    "safepoint",
    "kernel",
    "trapped",
    "wrong_layout",
    "not_callable",
    "named",
    "tensor",
    "stopped",
    "entered",
    "repeated",
    "returned",
)


@dataclass(frozen=True)
class Host:
    """The CPU by LLVM's names, offsets of fields in bytes, and indices in the table of calls.

    `needs` are the features of the CPU without which code for it must not run. `stack_register` is
    the name of the stack pointer. `has_half` says that the CPU converts float16. `is_stress` is the
    runtime whose every block comes from the system.
    """

    triple: str
    cpu: str
    features: str
    needs: tuple[str, ...]
    stack_register: str
    has_half: bool
    is_stress: bool
    offsets: dict[str, int]
    calls: dict[str, int]


def _has_all(features: tuple[str, ...]) -> bool:
    names = [feature.encode() for feature in features]
    return all(lib.rvm_host_has_feature(n, len(n)) for n in names)


@functools.lru_cache(maxsize=1)
def this_host() -> Host:
    """Return the host; raises RelayError `bad-option` where code cannot be compiled for it."""
    machine = _MACHINES.get(platform.machine().lower())
    if machine is None or not lib.rvm_native_is_supported():
        raise error(
            "bad-option",
            f"the engine `jit` has no calls without growing stacks on `{platform.machine()}`",
            help="the engine `interpreter` runs everywhere",
        )
    cpu = "generic"
    if machine == "x86_64":
        # The levels of kernels, which are inlined.
        levels = [level for level, features in X86_LEVELS.items() if _has_all(features)]
        cpu = levels[-1] if levels else "x86-64"
    return host_of(f"{machine}-unknown-linux-gnu", cpu)


def host_of(triple: str, cpu: str) -> Host:
    """Return a host of this runtime by LLVM's names: x86-64 of the given level, or AArch64."""
    is_x86 = triple.startswith("x86_64")
    return Host(
        triple=triple,
        cpu=cpu,
        # `movbe` is not asked for; Darwin and Windows keep x18 for themselves.
        features="-movbe" if is_x86 else "+reserve-x18",
        needs=_NEEDS[cpu if is_x86 else "generic"],
        stack_register="rsp" if is_x86 else "sp",
        has_half=cpu != "x86-64",
        is_stress=bool(lib.rvm_is_stress_build()),
        offsets={name: int(lib.rvm_native_offset(name.encode())) for name in FIELDS},
        calls={name: int(lib.rvm_native_call(name.encode())) for name in CALLS},
    )
